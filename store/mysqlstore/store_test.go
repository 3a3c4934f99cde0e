package mysqlstore_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

const canary = "canary-4711"

func TestNoPasswordInErrors(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		closed, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := closed.Close(); err != nil {
			t.Fatal(err)
		}
		for name, change := range map[string]func(*mysql.Config){
			"wrong port":       func(c *mysql.Config) { c.Addr = closed.Addr().String() },
			"wrong host":       func(c *mysql.Config) { c.Addr = "no-such-host.invalid:3306" },
			"wrong password":   func(*mysql.Config) {},
			"wrong user":       func(c *mysql.Config) { c.User = "nobody" },
			"unknown database": func(c *mysql.Config) { c.DBName = "no_such_database" },
			"no TLS":           func(c *mysql.Config) { c.TLSConfig = "true" },
			"wrong variable": func(c *mysql.Config) {
				c.Params = map[string]string{"transaction_isolation": "'none'", "tx_isolation": "'none'"}
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dsn := with(t, db, func(c *mysql.Config) {
					c.Passwd = canary
					change(c)
				})
				stores := map[string]*mysqlstore.Store{"Open": open(t, dsn), "New": openOn(t, openSQL(t, dsn))}
				for how, s := range stores {
					_, readErr := s.Read(soon(t), "g")
					_, renewErr := s.Renew(soon(t), store.Renew{Owner: "me", Heartbeat: 2, Leases: []store.Renewal{{Group: "g"}}})
					signal := s.HandoverSignal("g")
					for what, err := range map[string]error{
						"Read": readErr, "Renew": renewErr, "Migrate": s.Migrate(soon(t)), "Check": s.Check(soon(t)),
						"Prepare": s.Prepare(soon(t), "g", 1e9), "Release": s.Release(soon(t), "g", "me", 1), "Wait": signal.Wait(soon(t)),
					} {
						if err == nil {
							t.Errorf("%s, %s: no error", how, what)
							continue
						}
						for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", errorTexts(err))} {
							if strings.Contains(text, canary) {
								t.Errorf("%s, %s: shows the password: %s", how, what, text)
							}
						}
					}
					for _, text := range []string{s.String(), fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %q", s, s, s, s, s), fmt.Sprintf("%+v", signal)} {
						if strings.Contains(text, canary) {
							t.Errorf("%s: shows the password: %s", how, text)
						}
					}
				}
			})
		}
	})
}

// errorTexts is every text in a tree of errors.
func errorTexts(err error) []string {
	texts := []string{err.Error()}
	switch e := any(err).(type) { // each step of the tree by itself
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			texts = append(texts, errorTexts(inner)...)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			texts = append(texts, errorTexts(inner)...)
		}
	}
	return texts
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	for prefix, good := range map[string]bool{
		"a": true, "cronlease_": true, "A9_": true, "x" + strings.Repeat("y", 47): true,
		"": false, "_a": false, "9a": false, "a-": false, "a`b": false, "a b": false, "a\x00": false, "ä": false, "a\n": false,
		"x" + strings.Repeat("y", 48): false, "a;drop": false, "a.b": false, "{lease}": false, "?": false,
	} {
		s, err := mysqlstore.Open("u:p@tcp(h:1)/d", mysqlstore.WithTablePrefix(prefix))
		if (err == nil) != good {
			t.Errorf("prefix %q: %v", prefix, err)
		}
		if err == nil {
			closeStore(t, s)
		}
	}
}

func FuzzPrefix(f *testing.F) {
	f.Add("cronlease_")
	f.Add("a`; DROP TABLE x; --")
	f.Fuzz(func(t *testing.T, prefix string) {
		s, err := mysqlstore.Open("u:p@tcp(h:1)/d", mysqlstore.WithTablePrefix(prefix))
		if err != nil {
			return
		}
		defer closeStore(t, s)
		want := "UPDATE `" + prefix + "lease` FORCE INDEX (PRIMARY) SET"
		got := s.RenewStatement(store.Renew{Owner: "o", Leases: []store.Renewal{{Group: "g"}}})
		if !strings.HasPrefix(got, want) || strings.Count(got, "`") != 2 {
			t.Errorf("prefix %q: %s", prefix, got)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	if _, err := mysqlstore.New(nil); err == nil {
		t.Error("New(nil) gave no error")
	}
	for want, option := range map[string]mysqlstore.Option{"option 1 is nil": nil, "WithPassword(nil)": mysqlstore.WithPassword(nil)} {
		if _, err := mysqlstore.Open("u:p@tcp(h:1)/d", option); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open: %v, want %s", err, want)
		}
	}
	pool := openSQL(t, "u:p@tcp(h:1)/d")
	pool.SetMaxOpenConns(5)
	if _, err := mysqlstore.New(pool); !errors.Is(err, lease.ErrSetup) || !strings.Contains(err.Error(), "at least 6") {
		t.Errorf("New with a pool of 5: %v", err)
	}
	pool.SetMaxOpenConns(6)
	openOn(t, pool)
}
