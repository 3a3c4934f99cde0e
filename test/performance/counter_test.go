package performance

import (
	"database/sql"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbtest"
)

// cost is what went over a counter's connections.
type cost struct {
	// statements that were sent, and messages that were waited for: a statement,
	// the preparation of one, a ping.
	statements, trips int
	// commits are the transactions that changed a row, as the server's answers tell:
	// what a server has to make durable.
	commits int
	// sent and received are bytes, without those of TCP.
	sent, received int
}

func (c *cost) add(d cost) {
	c.statements += d.statements
	c.trips += d.trips
	c.commits += d.commits
	c.sent += d.sent
	c.received += d.received
}

// counter passes connections on to a server, and counts what goes over them.
type counter struct {
	listener net.Listener
	target   string
	all      sync.WaitGroup

	mu    sync.Mutex
	kinds map[string]cost // by verb and tables
	conns map[net.Conn]bool
}

// count returns a counter in front of the database, and the database as it is seen
// through it.
func count(tb testing.TB, db dbtest.Database) (*counter, dbtest.Database) {
	tb.Helper()
	config := db.Config(tb)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	c := &counter{listener: listener, target: config.Addr, kinds: map[string]cost{}, conns: map[net.Conn]bool{}}
	c.all.Go(c.accept)
	tb.Cleanup(func() {
		_ = listener.Close()
		c.mu.Lock()
		for conn := range c.conns {
			_ = conn.Close()
		}
		c.mu.Unlock()
		c.all.Wait()
	})
	config.Addr = listener.Addr().String()
	return c, dbtest.Database{Kind: db.Kind, DSN: config.FormatDSN()}
}

func (c *counter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c.mu.Lock()
		c.conns[client], c.conns[server] = true, true
		c.mu.Unlock()
		conv := &conversation{counter: c}
		c.all.Go(func() { c.pump(server, client, conv.request) })
		c.all.Go(func() { c.pump(client, server, conv.reply) })
	}
}

// pump passes bytes on, and packets to look.
func (c *counter) pump(to, from net.Conn, look func(sequence byte, packet []byte)) {
	defer func() {
		_, _ = to.Close(), from.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.conns, to)
		delete(c.conns, from)
	}()
	var left []byte
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			left = append(left, buffer[:n]...)
			for len(left) >= 4 {
				size := 4 + int(left[0]) + int(left[1])<<8 + int(left[2])<<16
				if len(left) < size {
					break
				}
				look(left[3], left[4:size])
				left = left[size:]
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return // io.EOF, or closed
		}
	}
}

// conversation is what is known of one connection.
type conversation struct {
	counter *counter

	mu       sync.Mutex
	prepared string
	kind     string // of the statement under way
	verb     string
	waits    bool // for the first packet of the answer
	dirty    bool // the transaction has changed a row
}

// The server's commands.
const (
	comQuit    = 0x01
	comQuery   = 0x03
	comPrepare = 0x16
	comExecute = 0x17
	comClose   = 0x19
)

func (v *conversation) request(sequence byte, packet []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := cost{sent: 4 + len(packet)}
	if sequence == 0 && len(packet) > 0 { // not a part of a login
		v.waits = true
		switch packet[0] {
		case comQuery:
			v.verb, v.kind = kindOf(string(packet[1:]))
			d.statements, d.trips = 1, 1
		case comPrepare:
			v.prepared, v.verb, v.kind = string(packet[1:]), "", "prepare"
			d.trips = 1
		case comExecute:
			v.verb, v.kind = kindOf(v.prepared)
			d.statements, d.trips = 1, 1
		case comQuit, comClose:
			v.waits, v.verb = false, ""
		default:
			v.verb, v.kind = "", "ping"
			d.trips = 1
		}
	}
	v.counter.add(v.kind, d)
}

const inTransaction = 1 // a bit of the status

func (v *conversation) reply(_ byte, packet []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := cost{received: 4 + len(packet)}
	if v.waits && v.verb != "" && len(packet) > 0 && packet[0] == 0 {
		affected, rest := integer(packet[1:])
		_, rest = integer(rest)
		switch v.verb {
		case "INSERT", "UPDATE", "DELETE", "REPLACE":
			v.dirty = v.dirty || affected > 0
		case "ROLLBACK":
			v.dirty = false
		}
		if len(rest) > 0 && rest[0]&inTransaction == 0 && v.dirty {
			d.commits, v.dirty = 1, false
		}
	}
	v.waits = false
	v.counter.add(v.kind, d)
}

// integer reads one of the protocol, which have 1 to 9 bytes.
func integer(b []byte) (n uint64, rest []byte) {
	if len(b) == 0 {
		return 0, nil
	}
	size := map[byte]int{0xfc: 2, 0xfd: 3, 0xfe: 8}[b[0]]
	if size == 0 {
		return uint64(b[0]), b[1:]
	}
	if len(b) < 1+size {
		return 0, nil
	}
	for i := size; i > 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	return n, b[1+size:]
}

var (
	tableName = regexp.MustCompile(`cronlease_[a-z]+`)
	comment   = regexp.MustCompile(`/\*.*?\*/`)
)

// kindOf returns a statement's verb, and the verb with the tables that the statement
// names.
func kindOf(statement string) (verb, kind string) {
	statement = strings.TrimLeft(comment.ReplaceAllString(statement, ""), " \n\t(")
	verb, _, _ = strings.Cut(statement, " ")
	verb = strings.ToUpper(strings.TrimSpace(verb))
	tables := tableName.FindAllString(statement, -1)
	slices.Sort(tables)
	return verb, verb + " " + strings.Join(slices.Compact(tables), "+")
}

func (c *counter) add(kind string, d cost) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kinds[kind]
	k.add(d)
	c.kinds[kind] = k
}

// reset returns what went by since the last call: of all kinds, or of those whose
// names contain one of the words.
func (c *counter) reset(words ...string) (total cost, kinds map[string]cost) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kinds, c.kinds = maps.Clone(c.kinds), map[string]cost{}
	for kind, d := range kinds {
		counts := len(words) == 0
		for _, w := range words {
			counts = counts || strings.Contains(kind, w)
		}
		if counts {
			total.add(d)
		} else {
			delete(kinds, kind)
		}
	}
	return total, kinds
}

// report reports a cost by the operation.
func (c cost) report(b *testing.B, operations float64) {
	b.Helper()
	b.ReportMetric(float64(c.statements)/operations, "statements/op")
	b.ReportMetric(float64(c.trips)/operations, "trips/op")
	b.ReportMetric(float64(c.commits)/operations, "commits/op")
	b.ReportMetric(float64(c.sent+c.received)/operations, "bytes/op")
	b.ReportMetric(0, "ns/op")
}

// The counter counts a look, a commit of two rows, and a write that changes nothing.
func TestCounter(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		c, through := count(t, db)
		config := through.Config(t)
		config.InterpolateParams = true
		connector, err := mysql.NewConnector(config)
		if err != nil {
			t.Fatal(err)
		}
		pool := sql.OpenDB(connector)
		defer pool.Close()
		pool.SetMaxOpenConns(1)
		exec := func(statement string) {
			t.Helper()
			if _, err := pool.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		exec("CREATE TABLE cronlease_thing (id INT PRIMARY KEY, n INT)")
		exec("INSERT INTO cronlease_thing VALUES (1, 0), (2, 0)")
		c.reset()
		tx, err := pool.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			if _, err := tx.ExecContext(t.Context(), "UPDATE cronlease_thing SET n = 1 WHERE id = ?", i+1); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		exec("UPDATE cronlease_thing SET n = 2 WHERE id = 7")
		exec("DO 1")
		exec("DELETE FROM cronlease_thing WHERE id = 1")
		all, kinds := c.reset()
		if all.statements != 7 || all.trips != 7 || all.commits != 2 {
			t.Errorf("%+v", all)
		}
		if d := kinds["UPDATE cronlease_thing"]; d.statements != 3 || d.commits != 0 || d.sent < 3*40 || d.received < 3*7 {
			t.Errorf("updates: %+v of %+v", d, kinds)
		}
	})
}
