package locks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/lease"
)

// groupPrefix begins the names of the lease rows that stand for sessions.
const groupPrefix = "locks/"

var programStarted = time.Now()

// Client takes locks for one process. It is made by [New]; the zero value only
// returns errors. All its locks depend on one session: a lease that a single
// heartbeat renews, however many locks there are. It is safe for concurrent use,
// and meant to be shared by a whole program.
type Client struct {
	store  Store
	bell   Doorbell // nil when the store has none
	keeper *lease.Keeper
	timing lease.Timing
	log    *zap.Logger
	self   process // without token and bell

	keeperOptions []lease.Option

	running  context.Context // ends with the last step of Close
	stop     context.CancelFunc
	group    sync.WaitGroup // the goroutines
	finished chan struct{}  // closed after Close, once no lock is held and the session is released

	writes   chan struct{} // capacity 1: some name is dirty
	asides   chan struct{} // capacity 1: some name that is set aside is dirty
	listens  chan struct{} // capacity 1: there may be something to wait for
	sessions chan struct{} // capacity 1: a session may be needed, or may end
	rings    chan struct{} // capacity 1: some process has to be woken
	left     chan struct{} // capacity 1: there are rows without holders and waiters

	judging chan struct{} // capacity 1: a mutex for judges that is held across database calls
	judges  map[session]*judge

	mu       sync.Mutex // guards what follows, and all names, requests and sessions
	started  bool
	closing  bool
	names    map[string]*name
	active   map[*name]bool // the names that have requests
	dirty    []*name
	term     *term // nil while there is no session
	number   uint64
	address  string          // of the bell
	ring     map[string]bool // addresses that are to be rung
	covered  map[string]bool // the locks that the present Wait of the bell watches; nil when there is none
	covering bool            // see cover
	dead     map[session]time.Time
	server   string // that answered last
	barred   time.Time
	barredBy time.Duration // the longest TTL seen
	clock    clock
	floor    uint64    // see [Reading.Floor]
	emptied  time.Time // when a row was last written without holders and waiters
	wrote    time.Time // when a row was last written
	failure  error     // of the last statement, nil after a successful one
}

// clock is the database's, as a reading showed it.
type clock struct {
	now time.Time // the database's
	at  time.Time // ours
}

// An Option changes a default of [New].
type Option func(*Client)

// WithTiming sets how long the session lives, and so how long the locks of a
// crashed process stay taken. Default: [lease.Timing]'s.
func WithTiming(t lease.Timing) Option {
	return func(c *Client) { c.keeperOptions = append(c.keeperOptions, lease.WithTiming(t)) }
}

// WithLabel sets the first part of the owner's name, "label/host/pid/random".
// Default "worker".
func WithLabel(label string) Option {
	return func(c *Client) { c.keeperOptions = append(c.keeperOptions, lease.WithLabel(label)) }
}

// WithLogger sets the logger. Default: silent. A lost session is a warning.
func WithLogger(l *zap.Logger) Option {
	return func(c *Client) {
		c.log = l
		c.keeperOptions = append(c.keeperOptions, lease.WithLogger(l))
	}
}

// New returns a client. It starts no goroutines and opens no connections before
// the first lock. The error names the invalid option.
func New(store Store, options ...Option) (*Client, error) {
	if store == nil {
		return nil, errors.New("locks: store is nil")
	}
	c := &Client{
		store:    store,
		log:      zap.NewNop(),
		writes:   make(chan struct{}, 1),
		asides:   make(chan struct{}, 1),
		listens:  make(chan struct{}, 1),
		sessions: make(chan struct{}, 1),
		rings:    make(chan struct{}, 1),
		left:     make(chan struct{}, 1),
		finished: make(chan struct{}),
		judging:  make(chan struct{}, 1),
		judges:   map[session]*judge{},
		names:    map[string]*name{},
		active:   map[*name]bool{},
		ring:     map[string]bool{},
		dead:     map[session]time.Time{},
	}
	for i, option := range options {
		if option == nil {
			return nil, fmt.Errorf("locks: option %d of %d is nil", i+1, len(options))
		}
		option(c)
	}
	keeper, err := lease.NewKeeper(store, append(c.keeperOptions, lease.WithSessions())...)
	if err != nil {
		return nil, err
	}
	c.keeper, c.timing = keeper, keeper.Timing()
	c.barredBy = c.timing.TTL
	c.self = process{
		Group:   groupPrefix + strings.ToLower(rand.Text()[:13]),
		Owner:   keeper.Owner(),
		Started: programStarted.Unix(),
		TTL:     c.timing.TTL,
	}
	c.running, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// check reports a client that New did not make.
func (c *Client) check() error {
	if c == nil || c.store == nil {
		return errNoClient
	}
	return nil
}

// Owner is the name under which this process holds its locks.
func (c *Client) Owner() string { return c.self.Owner }

// start begins the client's work. It is called with mu held.
func (c *Client) start() {
	if c.started {
		return
	}
	c.started = true
	if ringer, ok := c.store.(Ringer); ok {
		c.bell = ringer.Doorbell()
	}
	c.group.Go(func() { _ = c.keeper.Run(c.running) }) // it ends with its context only
	c.group.Go(c.keepSession)
	c.group.Go(func() { c.write(false) })
	c.group.Go(func() { c.write(true) })
	c.group.Go(c.listen)
	c.group.Go(c.ringOthers)
	c.group.Go(c.pruning)
	c.group.Go(c.cleaning)
}

// Close ends the client: waiters get [ErrClosed], and Close waits until ctx ends
// for the holders to unlock. Then it releases the session, or, if locks are still
// held, leaves it to expire and returns an error.
func (c *Client) Close(ctx context.Context) error {
	if err := c.check(); err != nil {
		return err
	}
	c.mu.Lock()
	c.closing = true
	started := c.started
	for n := range c.active {
		for _, r := range slices.Clone(n.requests) {
			if r.state == wanted {
				c.giveUp(r, ErrClosed)
			}
		}
	}
	c.mu.Unlock()
	if !started {
		c.stop()
		return nil
	}
	c.poke(c.sessions)
	var err error
	select {
	case <-c.finished:
	case <-ctx.Done():
		err = c.held()
	}
	c.stop()
	c.group.Wait()
	if c.bell != nil {
		err = errors.Join(err, c.bell.Close())
	}
	return err
}

// held returns the error that names the locks which are still held.
func (c *Client) held() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for n := range c.active {
		for _, r := range n.requests {
			if r.state == held {
				names = append(names, n.text)
				break
			}
		}
	}
	if len(names) == 0 {
		return errors.New("locks: close: the database did not confirm in time that all locks are given back: they expire")
	}
	return fmt.Errorf("locks: close: %d locks are still held, and left to expire: %s", len(names), strings.Join(names, ", "))
}

// poke wakes a goroutine.
func (c *Client) poke(what chan struct{}) {
	select {
	case what <- struct{}{}:
	default:
	}
}

// attempt bounds one statement.
func (c *Client) attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := c.timing.AttemptTimeout
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
}

// databaseNow estimates the database's clock, in microseconds since 1970. It
// serves display and new versions; no expiry is decided by it.
func (c *Client) databaseNow() int64 {
	if c.clock.now.IsZero() {
		return 0
	}
	return c.clock.now.Add(time.Since(c.clock.at)).UnixMicro()
}
