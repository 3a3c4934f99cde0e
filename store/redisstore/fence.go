package redisstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/internal/fencing"
)

var (
	// ErrFenced says that the holder has been replaced, or that its term is over: nothing of the transaction is stored.
	ErrFenced = errors.New("redisstore: refused: the term is over")

	// ErrUnknown says that the answer to EXEC was lost: the transaction is stored as a whole or not at all, and only its keys can
	// tell which. If it is stored, that happened before the next holder's term.
	ErrUnknown = errors.New("redisstore: the outcome of EXEC is unknown")

	// ErrHalf says that the server has stored the transaction but for the commands that failed, such as one for a list
	// on a key that holds a text: Redis rolls nothing back.
	ErrHalf = errors.New("redisstore: stored, but for the commands that failed")

	// ErrNoHold says that the context carries neither a lease nor a lock, so that there is no token to fence with.
	ErrNoHold = errors.New("redisstore: the context is of no term's work: hand on the one that a job or a leading function was called with")
)

// Do calls fn, and then has the server execute what fn has queued, as one transaction (MULTI, EXEC), only if what ctx
// is held under is still this process's at that moment: the group's lease for a job or a leading function, and each
// lock that it holds. It is to Redis what fence.Do is to an SQL database. All holds have to be kept in this store.
//
// fn reads through tx, and writes through queue alone, whose answers are there after Do. What it reads may have changed
// until the transaction, unless it is of the keys in watch: when one of these changes meanwhile, when waiters come to a
// lock that is held, and when the row of the run changes in a group that is spread ([lease.HoldRun]), as by a cancel,
// Do begins anew and calls fn again, until ctx ends. fn keeps neither tx nor queue. It does not end the WATCH that
// fences: it makes no transaction of its own (TxPipelined, TxPipeline, MULTI and EXEC), and does not call Exec and
// Discard of queue, nor Unwatch. Nor does it change the connection (Select, Auth, Hello, Client, Reset, Subscribe),
// which goes back to the store's, or swap its database (SWAPDB): on another database the store would find its lease
// gone. All of these are refused, in queue and on tx, also as raw commands and in pipelines, and nothing is stored,
// even if fn returns nil. On tx, only Client is not, and Watch, which adds keys. An error of fn is returned, and
// nothing is stored.
//
// Errors of Do itself match [ErrFenced], [ErrUnknown], [ErrHalf] or [ErrNoHold], or are the server's refusal. Only
// after ErrUnknown and ErrHalf something may be stored. Do waits for no one, and keeps no one waiting: a takeover in
// between lets EXEC fail.
//
// It does not reach beyond the server and the database that keep the store's keys: in a cluster, all keys have to be in
// the slot of the store's name, as those with its hash tag are ({cronlease}:, and then something that is no kind of key
// of the store, or invoices:{cronlease}). It keeps what the server keeps: a crash or a failover that loses acknowledged
// writes may lose a transaction, or bring back the term before (see the package). Do is safe for concurrent use.
func (s *Store) Do(ctx context.Context, fn func(tx *redis.Tx, queue redis.Pipeliner) error, watch ...string) error {
	holds := lease.Holds(ctx)
	if len(holds) == 0 {
		return ErrNoHold
	}
	keys := slices.Clone(watch)
	for _, h := range holds {
		if of, ok := h.Store.(*Store); !ok || of != s {
			return fmt.Errorf("redisstore: what is held on %q is kept in another store, a %T: call its Do, or hand its token to what you write to", h.Name, h.Store)
		}
		keys = append(keys, s.holdKey(h))
	}
	for {
		if s.closing.Err() != nil {
			return fmt.Errorf("redisstore: fenced transaction: %w", ErrClosed)
		}
		if err := fencing.Ended(ctx, "redisstore", holds, ErrFenced); err != nil {
			return err
		}
		t := &transaction{store: s, holds: holds, fn: fn}
		if err := s.onPrimary(ctx, func(c redis.UniversalClient) error { return c.Watch(ctx, t.run(ctx), keys...) }); err != nil && !t.ran {
			return s.failed(ctx, "fenced transaction", err) // WATCH failed
		}
		if !t.again {
			return t.err
		}
	}
}

// holdKey is the key of the row that tells whether something is held.
func (s *Store) holdKey(h lease.Hold) string {
	switch h.Kind {
	case lease.HoldLock:
		return s.key("lock", h.Name)
	case lease.HoldRun:
		return s.key("run", fmt.Sprintf("%s %s %s %s", h.Name, h.Run.Job, tickText(h.Run.Tick), triggerText(h.Run.Trigger)))
	default:
		return s.key("fence", h.Name)
	}
}

// transaction is one attempt at a fenced transaction.
type transaction struct {
	store *Store
	holds []lease.Hold
	fn    func(*redis.Tx, redis.Pipeliner) error

	ran   bool  // WATCH has succeeded
	again bool  // a watched key was changed
	err   error // what Do returns
}

// run returns what is done once the keys are watched. What it returns is an answer of the server, which tells where the keys are.
func (t *transaction) run(ctx context.Context) func(*redis.Tx) error {
	return func(tx *redis.Tx) error {
		t.ran, t.again = true, false
		for _, h := range t.holds {
			held, err := t.store.isHeld(ctx, tx, h)
			switch {
			case err != nil:
				t.err = t.store.failed(ctx, "fenced transaction", err)
				return err
			case !held:
				t.err = fencing.Refused(h, ErrFenced)
				return nil
			}
		}
		queue := tx.TxPipeline()
		// It cannot fail by itself, so that it tells whether the server has executed the transaction.
		first := queue.Exists(ctx, t.store.holdKey(t.holds[0]))
		if t.err = t.call(tx, queue); t.err == nil {
			t.err = checkQueued(queue.Cmds(), first)
		}
		if t.err == nil {
			t.err = fencing.Ended(ctx, "redisstore", t.holds, ErrFenced)
		}
		if t.err == nil {
			commands, _ := queue.Exec(ctx) // the errors are those of the commands
			t.end(ctx, first.Err(), commands)
		}
		return first.Err()
	}
}

// call calls fn.
func (t *transaction) call(tx *redis.Tx, queue redis.Pipeliner) error {
	g := &guard{on: true}
	tx.AddHook(g)
	defer func() { g.on = false }() // also when fn panics: the UNWATCH that follows is the client's
	if err := t.fn(tx, queue); err != nil {
		return err
	}
	return g.refused
}

// guard is a hook that refuses what must not be sent on the connection while fn runs.
type guard struct {
	on      bool
	refused error // the first time
}

func (g *guard) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if err := g.check(command); err != nil {
			return err
		}
		return next(ctx, command)
	}
}

// ProcessPipelineHook also gets the transactions of a pipeline, with their MULTI and EXEC.
func (g *guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if err := g.check(commands...); err != nil {
			for _, c := range commands {
				c.SetErr(err)
			}
			return err
		}
		return next(ctx, commands)
	}
}

func (g *guard) check(commands ...redis.Cmder) error {
	if !g.on {
		return nil
	}
	for _, c := range commands {
		if name := strings.ToLower(c.Name()); name == "client" || name == "watch" {
			continue // what asks, as ClientID does, and what adds keys
		}
		if err := refuse(c); err != nil {
			g.refused = cmp.Or(g.refused, err)
			return err
		}
	}
	return nil
}

// changing are the commands that change the connection they are sent on, or its database.
var changing = []string{
	"auth", "client", "hello", "reset", "select", "swapdb", "quit", "monitor", "sync", "psync", "readonly", "readwrite", "asking",
	"subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe",
}

// refuse returns an error for a command that changes the connection or the transaction.
func refuse(c redis.Cmder) error {
	const text = "redisstore: fenced transaction: %s changes the connection or its transaction, which are the store's: %s"
	switch name := strings.ToLower(c.Name()); {
	case name == "multi":
		return fmt.Errorf(text, "MULTI", "write through queue, which Do sends, and call neither TxPipelined and TxPipeline nor queue.Exec")
	case slices.Contains([]string{"exec", "discard", "watch", "unwatch"}, name):
		return fmt.Errorf(text, strings.ToUpper(name), "write through queue, which Do sends, and return an error to store nothing")
	case slices.Contains(changing, name):
		return fmt.Errorf(text, strings.ToUpper(name), "use a client of your own")
	}
	return nil
}

// checkQueued checks what fn has left of the queue, which begins with first.
func checkQueued(commands []redis.Cmder, first redis.Cmder) error {
	if len(commands) == 0 || commands[0] != first {
		return errors.New("redisstore: fenced transaction: Discard has emptied the queue, of which the first command is the store's: return an error to store nothing")
	}
	for _, c := range commands {
		if err := refuse(c); err != nil {
			return err
		}
	}
	return nil
}

// end judges what the server has answered. executed is nil if that was the transaction.
func (t *transaction) end(ctx context.Context, executed error, commands []redis.Cmder) {
	cause := executed
	for _, c := range commands {
		// The first that was refused says why. The others were not executed for its sake.
		if err := c.Err(); err != nil && !errors.Is(err, redis.Nil) && (cause == nil || saying(cause, "EXECABORT")) {
			cause = err
		}
	}
	answer := redis.Error(nil)
	switch {
	case cause == nil:
	case executed == nil:
		t.err = fmt.Errorf("%w: %w", ErrHalf, cause)
	case errors.Is(executed, redis.TxFailedErr):
		t.again = true
	case errors.As(executed, &answer):
		t.err = t.store.failed(ctx, "fenced transaction", cause)
	default:
		t.err = fmt.Errorf("%w: %w", ErrUnknown, executed)
	}
}

// isHeld reports whether the holder is still the one that the server has.
func (s *Store) isHeld(ctx context.Context, tx *redis.Tx, h lease.Hold) (bool, error) {
	if h.Kind == lease.HoldLock {
		row, err := tx.Get(ctx, s.holdKey(h)).Bytes()
		if errors.Is(err, redis.Nil) {
			return false, nil
		}
		return len(h.Mark) > 0 && bytes.Contains(row, h.Mark), err
	}
	fields, want := []string{"owner", "token"}, []any{h.Owner, strconv.FormatUint(h.Token, 10)}
	if h.Kind == lease.HoldRun {
		fields, want = append(fields, "state", "attempt"), append(want, strconv.Itoa(int(jobs.Running)), strconv.Itoa(h.Run.Attempt))
	}
	row, err := tx.HMGet(ctx, s.holdKey(h), fields...).Result()
	if err != nil {
		return false, err
	}
	return h.Owner != "" && slices.Equal(row, want), nil
}
