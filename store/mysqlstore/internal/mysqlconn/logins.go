package mysqlconn

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// After a refused login the next attempt waits for loginFirst, and twice as
	// long after each further refusal, at most loginMost; each a fifth more or
	// less.
	loginFirst = 15 * time.Second
	loginMost  = 5 * time.Minute
	// Where the server has taken the password, and refuses the account, the waits stay at
	// loginFirst: no attempt counts towards a limit, and all replicas wait for an administrator.
	// loginLooks is how often during such a wait the password is looked at. A
	// new one is tried at once.
	loginLooks = 10
	// loginTrusted is how long after a successful login connects may run in
	// parallel: not long, because the password may change at any time, and then
	// each connect that is under way is refused.
	loginTrusted = time.Second
	// loginQueue is the longest that a connect waits for the one before it, and a
	// quarter of its time at most: that one may hang in the network.
	loginQueue = 250 * time.Millisecond
)

// logins holds connects back while the server refuses them, for all connections
// of a store to one server. Servers lock an account, or a host, after a few
// refused logins (FAILED_LOGIN_ATTEMPTS, max_password_errors,
// max_connect_errors), for every program that uses it: one wrong password in
// one replica must not cost more than a few attempts.
//
// Connects are one after the other until one has worked, so that the first use
// of a wrong password is one refusal.
type logins struct {
	turn chan struct{} // of capacity 1

	mu      sync.Mutex // guards what follows
	worked  time.Time  // when a login last worked
	refusal error      // of the last login; nil when it was not refused
	with    [sha256.Size]byte
	at      time.Time     // of the refusal
	wait    time.Duration // after it, before jitter
	next    time.Time     // when the same password may be tried again
	look    time.Time     // when to look for another password
}

func newLogins() *logins { return &logins{turn: make(chan struct{}, 1)} }

// connect calls dial with the password that read returns, or returns the error
// of a login that was refused before. It is safe for concurrent use.
func (l *logins) connect(ctx context.Context, read func(context.Context) (string, error), dial func(ctx context.Context, password string) error) error {
	leave, err := l.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	password, err := read(ctx)
	if err != nil {
		return fmt.Errorf("read the password: %w", err)
	}
	sum := sha256.Sum256([]byte(password))
	if err := l.mayTry(sum); err != nil {
		return err
	}
	began := time.Now()
	err = dial(ctx, password)
	l.note(began, sum, err)
	return err
}

// enter waits for those before, and returns what lets the next one go on.
func (l *logins) enter(ctx context.Context) (leave func(), err error) {
	trusted, refused := l.state()
	switch {
	case refused != nil:
		return nil, refused
	case trusted:
		return func() {}, nil
	}
	limit := loginQueue
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/4)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case l.turn <- struct{}{}:
		leave = func() { <-l.turn }
	case <-timer.C:
		leave = func() {}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if _, refused := l.state(); refused != nil { // meanwhile
		leave()
		return nil, refused
	}
	return leave, nil
}

// state reports whether a login worked a moment ago, or returns the error of one
// that was refused and is not to be repeated yet.
func (l *logins) state() (trusted bool, refused error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refusal == nil {
		return time.Since(l.worked) < loginTrusted, nil
	}
	if time.Now().Before(l.look) {
		return false, l.refused()
	}
	return false, nil
}

// mayTry returns the error of the refused login while the same password has to
// wait.
func (l *logins) mayTry(password [sha256.Size]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.refusal == nil || password != l.with || !now.Before(l.next) {
		return nil
	}
	l.look = now.Add(l.wait / loginLooks)
	return l.refused()
}

// refused is called with mu held.
func (l *logins) refused() error {
	return fmt.Errorf("%w (this password is not tried again before %s UTC)", l.refusal, l.next.UTC().Format(time.TimeOnly))
}

// note takes in how a connect ended.
func (l *logins) note(began time.Time, password [sha256.Size]byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.worked, l.refusal, l.wait = time.Now(), nil, 0
	case isDenied(err) && !began.Before(l.at): // else it was under way beside the last one
		l.at = time.Now()
		l.refusal, l.with = err, password
		l.wait = min(max(2*l.wait, loginFirst), loginMost)
		if isAccount(err) {
			l.wait = loginFirst
		}
		l.plan(l.at)
	case isUnreached(err): // the login is still due
	case l.refusal != nil && password == l.with && !began.Before(l.at):
		// No answer may be a refusal too: servers can delay those (MySQL's
		// connection_control).
		l.plan(time.Now())
	}
}

// plan sets the times of the next attempts. It is called with mu held.
func (l *logins) plan(now time.Time) {
	l.next = now.Add(l.wait*4/5 + rand.N(l.wait*2/5))
	l.look = now.Add(l.wait / loginLooks)
}
