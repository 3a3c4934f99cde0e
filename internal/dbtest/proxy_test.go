package dbtest_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
)

// patience is how long a test waits for what should come at once.
const patience = 30 * time.Second

// silence is how long a test looks that nothing comes.
const silence = 50 * time.Millisecond

// echo is a server that answers each line with the same line, and keeps what it has read.
type echo struct {
	addr string

	mu   sync.Mutex // guards all below
	read strings.Builder
	more chan struct{} // closed, and replaced, when read grows
}

func startEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{addr: listener.Addr().String(), more: make(chan struct{})}
	var work sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		work.Wait()
	})
	work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(io.MultiWriter(e, conn), conn) // ends with the connection
			})
		}
	})
	return e
}

func (e *echo) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.more)
	e.more = make(chan struct{})
	return e.read.Write(p)
}

func (e *echo) got() (text string, more <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.read.String(), e.more
}

// wait returns when the server has read want.
func (e *echo) wait(t *testing.T, want string) {
	t.Helper()
	limit := time.After(patience)
	for {
		got, more := e.got()
		if got == want {
			return
		}
		select {
		case <-more:
		case <-limit:
			t.Fatalf("the server read %q, want %q", got, want)
		}
	}
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

// read reads as many bytes as want has, and compares.
func read(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if n, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v, want %q", got[:n], err, want)
	}
}

func readNothing(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
		t.Fatal(err)
	}
	var end net.Error
	if n, err := conn.Read(make([]byte, 1)); n > 0 || !errors.As(err, &end) || !end.Timeout() {
		t.Fatalf("read %d bytes, %v, want nothing yet", n, err)
	}
}

func TestProxyPasses(t *testing.T) {
	t.Parallel()
	proxy := dbtest.NewProxy(t, startEcho(t).addr)
	conn := dial(t, proxy.Addr())
	write(t, conn, "hello")
	read(t, conn, "hello")
}

func TestProxyBlackHole(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		directions []dbtest.Direction
		reaches    bool // whether the request reaches the server
	}{
		{"both", nil, false},
		{"to server", []dbtest.Direction{dbtest.ToServer}, false},
		{"to client", []dbtest.Direction{dbtest.ToClient}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := startEcho(t)
			proxy := dbtest.NewProxy(t, server.addr)
			conn := dial(t, proxy.Addr())
			write(t, conn, "one")
			read(t, conn, "one")
			proxy.BlackHole(test.directions...)
			write(t, conn, "two")
			readNothing(t, conn)
			if test.reaches {
				server.wait(t, "onetwo")
			} else {
				server.wait(t, "one")
			}
			late := dial(t, proxy.Addr())
			write(t, late, "three")
			readNothing(t, late)
			proxy.Pass()
			read(t, conn, "two")
			read(t, late, "three")
		})
	}
}

func TestProxyResetThrowsAwayWhatIsHeldBack(t *testing.T) {
	t.Parallel()
	server := startEcho(t)
	proxy := dbtest.NewProxy(t, server.addr)
	conn := dial(t, proxy.Addr())
	write(t, conn, "one")
	read(t, conn, "one")
	proxy.BlackHole()
	write(t, conn, "two")
	readNothing(t, conn)
	proxy.Reset()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read after the reset: %v, want ECONNRESET", err)
	}
	proxy.Pass()
	fresh := dial(t, proxy.Addr())
	write(t, fresh, "three")
	read(t, fresh, "three")
	server.wait(t, "onethree")
}

func TestProxyDelays(t *testing.T) {
	t.Parallel()
	proxy := dbtest.NewProxy(t, startEcho(t).addr)
	conn := dial(t, proxy.Addr())
	write(t, conn, "one")
	read(t, conn, "one")
	const delay = 80 * time.Millisecond
	proxy.Delay(delay)
	begin := time.Now()
	write(t, conn, "two")
	read(t, conn, "two")
	if took := time.Since(begin); took < 2*delay {
		t.Errorf("there and back took %v, want at least %v", took, 2*delay)
	}
	proxy.Delay(time.Hour, dbtest.ToClient)
	write(t, conn, "three")
	readNothing(t, conn)
	proxy.Pass()
	read(t, conn, "three")
}

func TestProxyRefuses(t *testing.T) {
	t.Parallel()
	proxy := dbtest.NewProxy(t, startEcho(t).addr)
	conn := dial(t, proxy.Addr())
	write(t, conn, "one")
	read(t, conn, "one")
	proxy.Refuse()
	if _, err := net.Dial("tcp", proxy.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial: %v, want ECONNREFUSED", err)
	}
	write(t, conn, "two")
	read(t, conn, "two")
	proxy.Pass()
	fresh := dial(t, proxy.Addr())
	write(t, fresh, "three")
	read(t, fresh, "three")
}

func TestProxyWithoutServerResets(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	conn, err := net.Dial("tcp", dbtest.NewProxy(t, listener.Addr().String()).Addr())
	if err == nil { // else the reset was quick
		defer conn.Close()
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		_, err = conn.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("dial and read: %v, want ECONNRESET", err)
	}
}

func TestProxyMethodsAtTheSameTime(t *testing.T) {
	t.Parallel()
	proxy := dbtest.NewProxy(t, startEcho(t).addr)
	var work sync.WaitGroup
	for _, method := range []func(){
		proxy.Pass, proxy.Refuse, proxy.Pass,
		func() { proxy.Reset() },
		func() { proxy.BlackHole() },
		func() { proxy.Delay(time.Millisecond) },
		func() { proxy.DropReply("") },
		func() {
			if conn, err := net.Dial("tcp", proxy.Addr()); err == nil {
				_, _ = io.WriteString(conn, "hello") // may be cut at any point
				conn.Close()
			}
		},
	} {
		for range 4 {
			work.Go(func() {
				for range 25 {
					method()
				}
			})
		}
	}
	work.Wait()
	proxy.Pass()
	conn := dial(t, proxy.Addr())
	write(t, conn, "hello")
	read(t, conn, "hello")
	proxy.Close()
	proxy.Close() // the second does nothing
}

// through returns connections to the database through a new proxy, with one of them open.
func through(t *testing.T, database dbtest.Database) (*dbtest.Proxy, *sql.DB) {
	t.Helper()
	config := database.Config(t)
	proxy := dbtest.NewProxy(t, config.Addr)
	config.Addr = proxy.Addr()
	db := dbtest.Database{Kind: database.Kind, DSN: config.FormatDSN()}.Open(t)
	if err := db.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return proxy, db
}

func TestProxyDropsOneMessage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		reply bool
		query string
		args  []any
	}{
		{"reply to a plain statement", true, "INSERT INTO t VALUES (2)", nil},
		{"reply to a prepared statement", true, "INSERT INTO t VALUES (?)", []any{2}},
		{"plain statement", false, "INSERT INTO t VALUES (2)", nil},
		{"prepared statement", false, "INSERT INTO t VALUES (?)", []any{2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, database dbtest.Database) {
				direct := database.Open(t)
				if _, err := direct.ExecContext(t.Context(), "CREATE TABLE t (n INT)"); err != nil {
					t.Fatal(err)
				}
				proxy, db := through(t, database)
				var dropped <-chan struct{}
				if test.reply {
					dropped = proxy.DropReply("INSERT")
				} else {
					dropped = proxy.DropRequest("INSERT")
				}
				// A statement without that text passes.
				if _, err := db.ExecContext(t.Context(), "UPDATE t SET n = ?", 0); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if _, err := db.ExecContext(ctx, test.query, test.args...); err == nil || ctx.Err() != nil {
					t.Fatalf("insert with a lost message: %v, want an error at once", err)
				}
				<-dropped
				// Only one is lost.
				if _, err := db.ExecContext(t.Context(), "INSERT INTO t VALUES (3)"); err != nil {
					t.Fatal(err)
				}
				want := []int{3}
				if test.reply {
					want = []int{2, 3}
				}
				if got := numbers(t, direct); !slices.Equal(got, want) {
					t.Errorf("the table has %v, want %v", got, want)
				}
			})
		})
	}
}

func numbers(t *testing.T, db *sql.DB) []int {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT n FROM t ORDER BY n")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []int
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestProxyBlackHoleEndsAStatementByItsContext(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, database dbtest.Database) {
		proxy, db := through(t, database)
		proxy.BlackHole(dbtest.ToClient)
		ctx, cancel := context.WithTimeout(t.Context(), silence)
		defer cancel()
		if _, err := db.ExecContext(ctx, "DO 1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("statement into the black hole: %v, want DeadlineExceeded", err)
		}
	})
}

func TestProxyReplaces(t *testing.T) {
	t.Parallel()
	server := startEcho(t)
	p := dbtest.NewRedisProxy(t, server.addr)
	p.Replace("sent", "told")
	p.ReplaceReplies("20001", "20002")
	conn := dial(t, p.Addr())
	write(t, conn, "sent to 20001 and 20001\n")
	server.wait(t, "told to 20001 and 20001\n")
	read(t, conn, "told to 20002 and 20002\n")
}
