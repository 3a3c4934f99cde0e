package mysqlconn

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/internal/retry"
)

const (
	// lookLimit bounds a look at first. Each one that reaches the server and gets no answer
	// doubles it, up to lookMost, since it may leave a session too.
	lookLimit = 2 * time.Second
	lookMost  = 5 * time.Minute

	// A caller that waits looks again after lookAgain at first, and lookSlow later.
	lookAgain = 5 * time.Millisecond
	lookSlow  = 500 * time.Millisecond

	// spareKept is how long a connection that was used for looks is kept for the next one.
	spareKept = 10 * time.Second

	// namelessFor is how long a session is looked for whose login had no answer: the server may have been at it when
	// the client left. namelessAgain is when it is looked for again although nothing asks for a look.
	namelessFor   = 2 * time.Second
	namelessAgain = 3 * time.Second
)

// watch finds out which of the sessions that this process has left the server still has. It ends
// those that wait for nothing but their client, or only read, and leaves those alone that
// may write: to kill a session in its COMMIT can show others what a promotion loses. It has one
// connection of its own.
type watch struct {
	pool *Pool

	mu      sync.Mutex              // guards what follows
	left    map[*session]*lingering // with what each does, as far as it was seen
	spare   *Conn                   // with which to look
	looked  chan struct{}           // closed at the end of the look that is under way; nil: there is none
	failed  error                   // of the last look
	patient time.Duration           // how long the server may be silent in the next look
	again   *time.Timer             // to look for nameless sessions; nil: none
	works   sync.WaitGroup
	closed  bool
}

func newWatch(p *Pool) *watch {
	return &watch{pool: p, left: map[*session]*lingering{}, patient: lookLimit}
}

// add is told of a session that was left.
func (w *watch) add(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	s.left = time.Now()
	w.left[s] = nil
	if s.id == 0 && w.again == nil {
		w.again = time.AfterFunc(namelessAgain, func() {
			w.mu.Lock()
			w.again = nil
			w.mu.Unlock()
			_, _, _ = w.begin() // closed: there is nothing to look for any more
		})
	}
}

// await returns once the server is rid of the session.
func (w *watch) await(ctx context.Context, s *session) error {
	again := retry.Forever(lookAgain, lookSlow)
	for begun := false; !s.isGone(); {
		looked, own, err := w.begin()
		if err != nil {
			return err
		}
		begun = begun || own
		select {
		case <-looked:
		case <-ctx.Done():
			return w.why(s, ctx.Err())
		}
		if s.isGone() {
			break
		}
		if err := w.lastError(); err != nil {
			if !begun { // that look met what was before this call
				begun = true
				continue
			}
			return err
		}
		if retry.Sleep(ctx, again.NextBackOff()) != nil {
			return w.why(s, ctx.Err())
		}
	}
	return nil
}

// why is the error of a caller that waits no longer.
func (w *watch) why(s *session, ended error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if found := w.left[s]; found != nil {
		return fmt.Errorf("%w: %w", ended, found)
	}
	return ended
}

func (w *watch) lastError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// begin begins a look, unless one is under way, and returns what closes at its end.
func (w *watch) begin() (looked <-chan struct{}, own bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return nil, false, ErrClosed
	case w.looked == nil:
		w.looked, own = make(chan struct{}), true
		w.works.Go(w.look)
	}
	return w.looked, own, nil
}

// look asks the server once. It outlives the callers that wait for it: so those of a server
// that does not answer do not each leave a login there.
func (w *watch) look() {
	w.mu.Lock()
	limit, all := w.patient, slices.Collect(maps.Keys(w.left))
	w.mu.Unlock()
	ctx, cancel := listen(w.pool.stopped, limit)
	defer cancel()
	c, reached, err := w.askOnce(ctx, all)
	if err != nil && ctx.Err() == nil && IsConnectionError(err) { // a spare connection that was killed, maybe
		c, reached, err = w.askOnce(ctx, all)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil && w.closed:
		c.Discard()
	case err == nil:
		w.patient, w.spare = lookLimit, c
		time.AfterFunc(spareKept, func() { w.drop(c) })
	case ctx.Err() != nil:
		if err = context.Cause(ctx); reached {
			w.patient = min(2*limit, lookMost)
		}
	}
	w.failed = err
	close(w.looked)
	w.looked = nil
}

func (w *watch) askOnce(ctx context.Context, all []*session) (c *Conn, reached bool, err error) {
	if c, reached, err = w.connect(ctx); err == nil {
		if err = w.ask(ctx, c, all); err != nil {
			w.discard(c)
		}
	}
	return c, reached, err
}

// connect returns the connection to look with. It may fail when the server was reached.
func (w *watch) connect(ctx context.Context) (c *Conn, reached bool, err error) {
	if c = w.takeSpare(); c != nil {
		if w.pool.Usable(ctx, c) {
			return c, true, nil
		}
		w.discard(c)
	}
	c, left, err := w.pool.open(ctx, longestLockWait)
	if left != nil {
		w.add(left)
	}
	return c, left != nil || err == nil, err
}

func (w *watch) takeSpare() *Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.spare
	w.spare = nil
	return c
}

// drop closes the spare connection, unless it was taken.
func (w *watch) drop(c *Conn) {
	w.mu.Lock()
	unused := w.spare == c
	if unused {
		w.spare = nil
	}
	w.mu.Unlock()
	if unused {
		w.discard(c)
	}
}

func (w *watch) discard(c *Conn) {
	c.Discard()
	w.add(c.session)
}

// work runs do, for which close waits, in a goroutine. It reports whether it does so: not after close.
func (w *watch) work(do func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.works.Go(do)
	}
	return !w.closed
}

// close ends the work that is under way, after the pool's stop.
func (w *watch) close() {
	w.mu.Lock()
	w.closed = true
	if w.again != nil {
		w.again.Stop()
	}
	w.mu.Unlock()
	w.works.Wait()
	if c := w.takeSpare(); c != nil {
		c.Discard()
	}
}

// ask asks the connection's server for sessions that were left before this connection was
// opened. Those of another server, or of one that was restarted, are not its. A login without an
// answer counts until another one gets one, which ends its session if that can be found.
func (w *watch) ask(ctx context.Context, c *Conn, all []*session) error {
	var here []*session
	for _, s := range all {
		switch {
		case s.server != "" && s.server != c.session.server:
			w.end(s)
		case s.id != 0:
			here = append(here, s)
		default:
			if err := c.endNameless(ctx, s); err != nil {
				return err
			}
			w.endNameless(s)
		}
	}
	if len(here) == 0 {
		return nil
	}
	shown, err := c.sessions(ctx, here)
	if mysqlerr.Number(err) == mysqlerr.CannotConvert {
		return nil // while another session runs a statement of a certain kind
	}
	if err != nil {
		return err
	}
	for _, s := range here {
		now, ok := shown[s.id]
		switch {
		case !ok, s.locked && now.holder != s.id:
			w.end(s)
		case !now.mayWrite() && !s.locked:
			w.end(s) // nothing can be done about it
		case !now.mayWrite():
			err := c.Exec(ctx, killSession.Render(s.lock()))
			switch number := mysqlerr.Number(err); {
			case err != nil && number == 0:
				return err
			case err != nil && number != mysqlerr.NoSuchThread:
				w.end(s) // nothing can be done about it
			}
		default:
			s.runs.Store(true)
			if now.isCommit() { // another session may say more
				if first := c.stall(ctx); first != nil && !first.isCommit() {
					now.Stall = *first
				}
			}
			w.mu.Lock()
			w.left[s] = &now.lingering
			w.mu.Unlock()
		}
	}
	return nil
}

// end notes that the server is rid of a session.
func (w *watch) end(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.left[s]; ok {
		delete(w.left, s)
		s.release()
	}
}

// endNameless lets nothing wait for a session whose login had no answer, and looks for it a while longer.
func (w *watch) endNameless(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.release()
	if time.Since(s.left) > namelessFor {
		delete(w.left, s)
	}
}
