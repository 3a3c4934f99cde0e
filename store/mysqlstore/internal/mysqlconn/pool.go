package mysqlconn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/store"
)

// AnswerLimit bounds each statement whose context does not.
const AnswerLimit = 30 * time.Second

var (
	// ErrClosed is of a pool that was stopped.
	ErrClosed = errors.New("mysqlstore: closed")

	errNoAnswer = fmt.Errorf("no answer within %v", AnswerLimit)
)

// Pool has the connections of one store. It is safe for concurrent use.
type Pool struct {
	name    string         // what String shows
	db      *sql.DB        // for other parts of the program
	source  *sql.DB        // where the connections of lanes, and those of Open, come from
	owned   bool           // both were opened by a DSN
	several bool           // and know several hosts
	hosts   *hostConnector // of source; nil unless several
	wrapper string         // the type of the caller's driver, if it is not the one that is known
	logins  *logins        // of all connections, unless the DSN names several hosts

	slots [lanes][]*slot
	watch *watch
	login atomic.Int64 // how long the last login took, as a [time.Duration]

	stopped context.Context // ends with Stop
	stop    context.CancelFunc

	wrapperFits atomic.Bool
	locksUsed   atomic.Bool
	reserved    atomic.Int32
	requests    atomic.Int32
	onCrowd     atomic.Pointer[func()] // see OnCrowd
	server      atomic.Pointer[Server] // of the lanes' newest connection; nil before the first
}

func newPool(name string) *Pool {
	p := &Pool{name: name, logins: newLogins()}
	p.stopped, p.stop = context.WithCancel(context.Background())
	p.watch = newWatch(p)
	for lane, size := range laneSizes {
		for place := range size.conns {
			l := newSlot(p, size.lockWait)
			if Lane(lane) == Ledger {
				l.place = place
			}
			p.slots[lane] = append(p.slots[lane], l)
		}
	}
	return p
}

// New returns connections that come from a pool of the caller, which must be one of
// github.com/go-sql-driver/mysql, or of a driver that wraps that one and passes on
// its errors, which the first connection finds out. It dials nothing.
func New(db *sql.DB) (*Pool, error) {
	p := newPool("a pool of the caller")
	switch d := db.Driver().(type) {
	case *mysql.MySQLDriver, mysql.MySQLDriver:
	default:
		p.wrapper = fmt.Sprintf("%T", d)
	}
	p.db, p.source = db, db
	return p, p.CheckSize()
}

// String names the database without its password.
func (p *Pool) String() string { return p.name }

// DB is a pool for the other parts of the program: the caller's, or one that
// [Pool.Close] closes.
func (p *Pool) DB() *sql.DB { return p.db }

// Owned reports whether the connections are made by a DSN, and so have settings
// that are known.
func (p *Pool) Owned() bool { return p.owned }

// Stop ends what still runs, and lets nothing else begin.
func (p *Pool) Stop() { p.stop() }

// Stopped reports whether Stop was called.
func (p *Pool) Stopped() bool { return p.stopped.Err() != nil }

// Close stops the pool and closes all connections of the lanes. It does not close
// a pool of the caller.
func (p *Pool) Close() {
	p.stop()
	for _, l := range slices.Concat(p.slots[:]...) {
		l.shut()
	}
	p.watch.close()
	if p.owned {
		// They can only say that a connection was lost before it could be told
		// to end.
		_, _ = p.source.Close(), p.db.Close()
	}
}

// Bind returns a context that ends with the pool too.
func (p *Pool) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	unbind := context.AfterFunc(p.stopped, cancel)
	return ctx, func() {
		unbind()
		cancel()
	}
}

// Access says what a piece of work does.
type Access int

// Work that only reads may be repeated on another connection. Unfenced work writes, but
// not the fence row.
const (
	Write Access = iota
	Unfenced
	Read
)

// Do runs do on a connection of the lane: the first one if it is free. In errors
// the work is named op. See the package's comment for when a connection is given
// up, and do is called once more with a new one.
func (p *Pool) Do(ctx context.Context, lane Lane, access Access, op string, do func(context.Context, *Conn) error) (err error) {
	limited, end := p.limit(ctx)
	defer func() { err = p.finish(ctx, limited, op, err); end() }()
	if err := p.mayBegin(ctx); err != nil {
		return err
	}
	l, err := p.take(limited, lane, access)
	if err != nil {
		return err
	}
	defer l.give()
	for attempt := 0; ; attempt++ {
		c, fresh, err := l.open(limited)
		if err != nil {
			return err
		}
		err = do(limited, c)
		if err == nil || IsAnswer(err) {
			return c.explainWait(limited, err)
		}
		l.drop()
		again := errors.Is(err, driver.ErrBadConn) || access == Read && IsConnectionError(err) || p.several && unfitOf(err) != nil
		if fresh || !again || attempt > 0 || limited.Err() != nil {
			return err
		}
	}
}

// DoOn runs do on the lane's connection of that number, and no other. It returns
// [store.ErrChanged] when that connection is gone.
func (p *Pool) DoOn(ctx context.Context, lane Lane, number uint64, op string, do func(context.Context, *Conn) error) error {
	return p.Bounded(ctx, op, func(ctx context.Context) error {
		for _, l := range p.slots[lane] {
			if number == 0 || l.number.Load() != number {
				continue
			}
			if err := p.unstick(ctx, lane); err != nil {
				return err
			}
			if _, err := takeFirst(ctx, []*slot{l}); err != nil {
				return err
			}
			defer l.give()
			if !l.usable(ctx) || l.conn.Number != number {
				break
			}
			err := do(ctx, l.conn)
			if err == nil || IsAnswer(err) {
				return l.conn.explainWait(ctx, err)
			}
			l.drop()
			return err
		}
		return store.ErrChanged
	})
}

// unstick waits for a statement of the lane that does not end, before its last slot writes:
// see [takeAble].
func (p *Pool) unstick(ctx context.Context, lane Lane) error {
	if able, stuck := split(p.slots[lane], Write); len(stuck) == 0 || len(able) > 1 {
		return nil
	}
	l, err := p.take(ctx, lane, Write)
	if err != nil {
		return err
	}
	defer l.give()
	_, _, err = l.open(ctx)
	return err
}

// Bounded runs do as [Pool.Do] does, but on no connection of a lane: it ends after
// 30 s and with the pool, and its errors are named and explained.
func (p *Pool) Bounded(ctx context.Context, op string, do func(context.Context) error) (err error) {
	limited, end := p.limit(ctx)
	defer func() { err = p.finish(ctx, limited, op, err); end() }()
	if err := p.mayBegin(ctx); err != nil {
		return err
	}
	return do(limited)
}

func (p *Pool) mayBegin(ctx context.Context) error {
	if p.Stopped() && ctx.Err() == nil {
		return ErrClosed
	}
	return ctx.Err()
}

// limit returns a context that also ends with the pool, and when the server has not
// answered in time.
func (p *Pool) limit(ctx context.Context) (limited context.Context, end func()) {
	limited, cancel := context.WithTimeoutCause(ctx, AnswerLimit, errNoAnswer)
	unbind := context.AfterFunc(p.stopped, cancel)
	return limited, func() {
		unbind()
		cancel()
	}
}

// finish returns the error of work that is named op in errors. Answers that a
// caller expects are returned as they are.
func (p *Pool) finish(ctx, limited context.Context, op string, err error) error {
	switch {
	case err == nil || IsAnswer(err) && !IsServerError(err):
		return err
	case ctx.Err() != nil:
		err = because(ctx.Err(), err)
	case p.Stopped():
		err = ErrClosed
	case limited.Err() != nil:
		err = because(context.Cause(limited), err)
	default:
		err = p.Explain(err)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// because adds to the error of a call that has ended what it waited for, if that is known.
func because(ended, err error) error {
	if busy := (*lingering)(nil); errors.As(err, &busy) {
		return fmt.Errorf("%w: %w", ended, busy)
	}
	return ended
}

// Open returns a connection of its own, outside of the lanes, which its user
// discards. What opens connections again and again uses a [Series].
func (p *Pool) Open(ctx context.Context, lockWait time.Duration) (*Conn, error) {
	c, _, err := p.open(ctx, lockWait)
	return c, err
}

// open is Open. When it fails it may leave a session on the server.
func (p *Pool) open(ctx context.Context, lockWait time.Duration) (c *Conn, left *session, err error) {
	h := hearingOf(ctx)
	ctx = context.WithValue(ctx, hearingKey{}, h)
	// A pool of the caller may have idle connections that are dead, and if its DSN says
	// checkConnLiveness=false, it does not notice.
	for attempt := 0; ; attempt++ {
		conn, err := p.connect(ctx)
		if err != nil {
			if h.reached.Load() {
				left = h.session()
			}
			return nil, left, fmt.Errorf("connect: %w", err)
		}
		c := &Conn{Number: numbers.Add(1), conn: conn, asked: time.Now(), session: h.session()}
		if err = p.checkWrapper(ctx, conn); err == nil {
			c.Server, err = setUp(ctx, conn, c.session, lockWait)
		}
		if err == nil {
			return c, nil, nil
		}
		c.Discard()
		// The next connection has to wait until the server is rid of this one's session: see [Series].
		if attempt == 3 || ctx.Err() != nil || p.owned || c.session.id != 0 || !IsConnectionError(err) {
			return nil, c.session, fmt.Errorf("set up connection: %w", err)
		}
	}
}

// connect takes a connection out of the pool. Those of a DSN hold connects back
// themselves after a refused login, for all that use them.
func (p *Pool) connect(ctx context.Context) (conn *sql.Conn, err error) {
	if p.owned {
		return p.source.Conn(ctx)
	}
	none := func(context.Context) (string, error) { return "", nil } // the pool knows it
	err = p.logins.connect(ctx, none, func(ctx context.Context, _ string) error {
		conn, err = p.source.Conn(ctx)
		return err
	})
	return conn, err
}

// Server is what the lanes' newest connection said of its server. It uses one first if
// there was none yet, or if the server's group may have several primaries by now.
func (p *Pool) Server(ctx context.Context) (*Server, error) {
	if server := p.server.Load(); server != nil && !server.isSinglePrimary() {
		return server, nil
	}
	err := p.Do(ctx, Readings, Read, "find the database", func(context.Context, *Conn) error { return nil })
	return p.server.Load(), err
}
