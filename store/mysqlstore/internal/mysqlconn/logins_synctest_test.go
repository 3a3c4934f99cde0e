package mysqlconn_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
)

// loginServer counts logins. It takes a millisecond for each.
type loginServer struct {
	mu       sync.Mutex
	password string
	denied   int
	let      int
}

func (s *loginServer) login(password string) error {
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	if password != s.password {
		s.denied++
		return &mysql.MySQLError{Number: 1045, Message: "Access denied"}
	}
	s.let++
	return nil
}

// counts returns how many logins were refused and let in.
func (s *loginServer) counts() (denied, let int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.denied, s.let
}

// An account that is locked, or whose password has expired, is tried four times a minute, however long that lasts: soon
// after it was put right, the store is in. No such attempt counts towards a limit, as the password is right.
func TestAccountPutRight(t *testing.T) {
	t.Parallel()
	for _, number := range []uint16{1820, 1862, 3118, 4151} {
		synctest.Test(t, func(t *testing.T) {
			l := mysqlconn.NewLogins()
			right := time.Now().Add(2 * time.Hour)
			refused := 0
			for {
				err := l.Connect(t.Context(), "right", func() error {
					if time.Now().Before(right) {
						refused++
						return &mysql.MySQLError{Number: number}
					}
					return nil
				})
				if err == nil {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			if late := time.Since(right); late > 19*time.Second || refused > 2*60*6 {
				t.Errorf("error %d: in after %v and %d refusals", number, late, refused)
			}
		})
	}
}

// Many parts of a store connect at once and again and again, with a password
// that the server refuses.
func TestRefusedLoginsBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, l := &loginServer{password: "right"}, mysqlconn.NewLogins()
		var mu sync.Mutex
		password := "wrong"
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		for range 20 {
			wait.Go(func() {
				for ctx.Err() == nil {
					mu.Lock()
					now := password
					mu.Unlock()
					err := l.Connect(ctx, now, func() error { return server.login(now) })
					var e *mysql.MySQLError
					if now == "wrong" && ctx.Err() == nil && (!errors.As(err, &e) || e.Number != 1045) {
						t.Errorf("the error of a refused login: %v", err)
					}
					time.Sleep(400 * time.Millisecond)
				}
			})
		}
		for _, step := range []struct {
			after time.Duration
			most  int
		}{{10 * time.Second, 1}, {time.Minute, 3}, {10 * time.Minute, 8}, {2 * time.Hour, 40}} {
			time.Sleep(step.after)
			if denied, _ := server.counts(); denied > step.most || denied == 0 {
				t.Errorf("%d refused logins after %v more, want at most %d", denied, step.after, step.most)
			}
		}
		// A new password is tried soon, and once.
		denied, _ := server.counts()
		mu.Lock()
		password = "wrong too"
		mu.Unlock()
		time.Sleep(37 * time.Second)
		if n, _ := server.counts(); n != denied+1 {
			t.Errorf("%d logins with another wrong password", n-denied)
		}
		mu.Lock()
		password = "right"
		mu.Unlock()
		time.Sleep(37 * time.Second)
		if _, let := server.counts(); let < 20 {
			t.Errorf("%d logins with the right password", let)
		}
		cancel()
		wait.Wait()
	})
}

// The server takes the password again that it refused: an account that was
// unlocked.
func TestUnlockedAccountIsFoundInMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, l := &loginServer{password: "none"}, mysqlconn.NewLogins()
		try := func() error {
			return l.Connect(t.Context(), "mine", func() error { return server.login("mine") })
		}
		for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(time.Second) {
			if try() == nil {
				t.Fatal("let in")
			}
		}
		server.password = "mine"
		began := time.Now()
		for try() != nil {
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took > 6*time.Minute+time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A connect that hangs in the network holds no other one up for long.
func TestConnectThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := mysqlconn.NewLogins()
		ctx, cancel := context.WithCancel(t.Context())
		hangs := make(chan error)
		go func() {
			hangs <- l.Connect(ctx, "right", func() error { <-ctx.Done(); return ctx.Err() })
		}()
		synctest.Wait()
		began := time.Now()
		if err := l.Connect(t.Context(), "right", func() error { return nil }); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 300*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		// Nor does one keep a heartbeat from its attempt, however short that is.
		time.Sleep(time.Minute) // what worked then says nothing of now
		reached := false
		short, cancelShort := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancelShort()
		if err := l.Connect(short, "right", func() error { reached = true; return nil }); err != nil || !reached {
			t.Errorf("within 100 ms: %v, reached %v", err, reached)
		}
		cancel()
		<-hangs
	})
}

// A server that refuses, and then answers no more, is left alone as well.
func TestRefusalsThatAreDelayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, l, sent := &loginServer{password: "right"}, mysqlconn.NewLogins(), 0
		for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(400 * time.Millisecond) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			_ = l.Connect(ctx, "wrong", func() error {
				if sent++; sent == 1 {
					return server.login("wrong")
				}
				<-ctx.Done()
				return ctx.Err()
			})
			cancel()
		}
		if sent > 3600/12+1 {
			t.Errorf("%d logins in an hour", sent)
		}
	})
}

// A server that cannot be reached when the login is due again has not refused it: the
// next connect tries it.
func TestLoginIsDueWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, l := &loginServer{password: "right"}, mysqlconn.NewLogins()
		const locked, away = 10 * time.Second, time.Minute
		began := time.Now()
		login := func() error {
			switch since := time.Since(began); {
			case since < locked:
				return server.login("wrong")
			case since < away:
				return fmt.Errorf("connect: %w", &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
			}
			return server.login("right")
		}
		for l.Connect(t.Context(), "right", login) != nil {
			time.Sleep(100 * time.Millisecond)
		}
		if late := time.Since(began) - away; late > time.Second {
			t.Errorf("let in %v after the server was back", late)
		}
		if denied, _ := server.counts(); denied != 1 {
			t.Errorf("%d refused logins, want 1", denied)
		}
	})
}
