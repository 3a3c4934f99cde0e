package locks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/slogcore"
	"github.com/cronlease/cronlease/internal/stream"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// groupPrefix begins the names of the lease rows that stand for sessions.
const groupPrefix = "locks/"

var programStarted = time.Now()

// Client takes locks for one process. It is made by [New]; the zero value only
// returns errors. All its locks depend on one session: a lease that a single
// heartbeat renews, however many locks there are. It is safe for concurrent use,
// and meant to be shared by a whole program.
type Client struct {
	// The goroutines call the store: one keeps the session, some write rows, one
	// reads them for the waiters, one signals other processes, and two delete what
	// is unused. A caller that is alone writes its row itself. What they decide by is in
	// rows, which does no I/O.
	*background
	store  store.Locks
	peeker store.Peeker // nil unless the store has one
	keeper *keeper.Keeper
	timing lease.Timing
	log    *zap.Logger
	config keeper.Config
	events *stream.Stream
	watch  []func(event.Event) // the observers of events

	listens  chan struct{} // capacity 1: there may be something to wait for
	finished chan struct{} // closed when no session is kept any more, since Close
	orderly  bool          // and no request was left, nor one in doubt; set before that
	doubtful time.Time     // until then, a session that was left may keep locks that were given back

	liveness   *liveness
	notifier   *notifier
	unanswered error // of an unlock

	mu      sync.Mutex // guards what follows, and what the notifier says
	started bool
	rows    *rows
}

// An Option changes a default of [New].
type Option func(*Client)

// WithTiming sets how long the session lives, and so how long the locks of a
// crashed process stay taken. Default: [lease.Timing]'s.
func WithTiming(t lease.Timing) Option { return func(c *Client) { c.config.Timing = t } }

// WithLabel sets the first part of the owner's name, "label/host/pid/random".
// Default "worker".
func WithLabel(label string) Option { return func(c *Client) { c.config.Label = label } }

// WithLogger sets the logger. Default: silent. A lost session is a warning.
func WithLogger(l *zap.Logger) Option {
	return func(c *Client) { c.log, c.config.Logger = l, l }
}

// WithSlog is [WithLogger] for a logger of log/slog, with the same keys.
func WithSlog(l *slog.Logger) Option { return WithLogger(slogcore.New(l)) }

// WithEvents gives what happens to f, an observer: see package event. It gets
// LockGranted and LockReleased of each lock, LocksLost, and what concerns the session and the
// database.
func WithEvents(f func(event.Event)) Option {
	return func(c *Client) { c.watch = append(c.watch, f) }
}

// New returns a client. It starts no goroutines and opens no connections before
// the first lock. The error names the invalid option.
func New(s store.Locks, options ...Option) (*Client, error) {
	if s == nil {
		return nil, errors.New("locks: store is nil")
	}
	c := &Client{
		store:    s,
		log:      zap.NewNop(),
		listens:  make(chan struct{}, 1),
		finished: make(chan struct{}),
		config:   keeper.Config{Sessions: true},
	}
	c.peeker, _ = s.(store.Peeker)
	for i, option := range options {
		if option == nil {
			return nil, fmt.Errorf("locks: option %d of %d is nil", i+1, len(options))
		}
		option(c)
	}
	if c.log == nil {
		return nil, errors.New("locks: WithLogger(nil) or WithSlog(nil): give a logger, or leave the option out")
	}
	if slices.ContainsFunc(c.watch, func(f func(event.Event)) bool { return f == nil }) {
		return nil, errors.New("locks: WithEvents(nil): give a function, or leave the option out")
	}
	c.events = stream.New(c.log, c.watch...)
	c.config.Events, c.log = c.events, c.events.Logger()
	keeper, err := keeper.New(s, c.config)
	if err != nil {
		return nil, err
	}
	c.keeper, c.timing = keeper, keeper.Timing()
	c.background = newBackground(c.timing.AttemptTimeout)
	c.notifier = newNotifier(c.background, c.log, &c.mu)
	c.rows = newRows(&c.mu, c.log, c.timing, c.notifier, process{
		Group:   groupPrefix + strings.ToLower(rand.Text()[:13]),
		Owner:   keeper.Owner(),
		Started: programStarted.Unix(),
		TTL:     c.timing.TTL,
	})
	c.unanswered = fmt.Errorf("no answer within %v", c.timing.TTL)
	c.liveness = newLiveness(c.background, s, keeper, c.releaseDead)
	return c, nil
}

// head is the header of an event.
func (c *Client) head(token uint64) event.Header {
	return event.Header{At: time.Now(), Group: c.rows.self.Group, Owner: c.rows.self.Owner, Token: token}
}

// check reports a client that New did not make.
func (c *Client) check() error {
	if c == nil || c.store == nil {
		return errNoClient
	}
	return nil
}

// Owner is the name under which this process holds its locks.
func (c *Client) Owner() string {
	if c.rows == nil {
		return ""
	}
	return c.rows.self.Owner
}

// start begins the client's work. It is called with mu held.
func (c *Client) start() {
	if c.started {
		return
	}
	c.started = true
	if has, ok := c.store.(store.Notifiers); ok {
		c.notifier.Notifier = has.Notifier()
	}
	c.group.Go(func() { _ = c.keeper.Run(c.running) }) // it ends with its context only
	c.group.Go(c.keepSession)
	for range writers {
		c.group.Go(func() { c.write(false) })
	}
	c.group.Go(func() { c.write(true) })
	c.group.Go(c.listen)
	c.group.Go(c.notifier.deliver)
	c.group.Go(c.pruning)
	c.group.Go(c.cleaning)
}

// Close ends the client: waiters get [ErrClosed], and Close waits until ctx ends
// for the holders to unlock. Then it releases the session, or, if locks are still
// held, leaves it to expire and returns an error. So does then each other Close, at
// the same time or later. It also returns an error if the database has not confirmed
// that all locks are given back, nor the release, as in an outage: they expire.
func (c *Client) Close(ctx context.Context) error {
	if err := c.check(); err != nil {
		return err
	}
	c.mu.Lock()
	started := c.started
	c.rows.requests.shut()
	c.mu.Unlock()
	if !started {
		c.stop()
		return nil
	}
	poke(c.rows.requests.sessions)
	var err error
	select {
	case <-c.finished:
	case <-ctx.Done():
		err = c.stillHeld()
	}
	c.stop() // another Close may wait too
	<-c.finished
	if err == nil && !c.orderly {
		err = c.stillHeld()
	}
	c.group.Wait()
	if c.notifier.Notifier != nil {
		err = errors.Join(err, c.notifier.Close())
	}
	return err
}

// stillHeld returns the error that names the locks which are still held.
func (c *Client) stillHeld() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for n := range c.rows.requests.locks() {
		if n.has(held) {
			names = append(names, n.text)
		}
	}
	if len(names) == 0 {
		return errors.New("locks: close: the database did not confirm in time that all locks are given back: they expire")
	}
	return fmt.Errorf("locks: close: %d locks are still held, and left to expire: %s", len(names), strings.Join(names, ", "))
}
