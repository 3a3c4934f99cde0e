package mysqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// A replica with an old password leaves the account usable for all others, says
// why it waits, and goes on when its password file is right.
func TestOldPasswordLocksNoAccount(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := dbtest.Private(t, kind)
			if server.Kind() == dbserver.MariaDB {
				root := dbtest.FreshOn(t, server.Kind(), server.DSN("")).Open(t)
				exec(t, root, "SET GLOBAL max_password_errors = 4")
			}
			for _, variant := range []string{"Open", "New"} {
				t.Run(variant, func(t *testing.T) {
					db := dbtest.FreshOn(t, server.Kind(), server.DSN(""))
					migrated(t, db.DSN)
					root := conn(t, db.Open(t))
					user := uniqueName("user")
					good := userDSN(t, db, user, "ALL ON @.*")
					if server.Kind() == dbserver.MySQL {
						exec(t, root, "ALTER USER '"+user+"'@'%' FAILED_LOGIN_ATTEMPTS 4 PASSWORD_LOCK_TIME UNBOUNDED")
					}
					file := filepath.Join(t.TempDir(), "password")
					write := func(password string) {
						if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
							t.Fatal(err)
						}
					}
					write("old-4711")
					old := func(c *mysql.Config) { c.User, c.Passwd = user, "" }
					var s *mysqlstore.Store
					if variant == "Open" {
						s = open(t, with(t, db, old)+"?password_file="+file)
					} else {
						config := db.Config(t)
						config.User = user
						if err := config.Apply(mysql.BeforeConnect(func(_ context.Context, c *mysql.Config) error {
							text, err := os.ReadFile(file)
							c.Passwd = strings.TrimSpace(string(text))
							return err
						})); err != nil {
							t.Fatal(err)
						}
						connector, err := mysql.NewConnector(config)
						if err != nil {
							t.Fatal(err)
						}
						pool := sql.OpenDB(connector)
						t.Cleanup(func() { _ = pool.Close() })
						s = openOn(t, pool)
					}
					refusals := deniedLogins(t, root)

					ctx, cancel := context.WithCancel(t.Context())
					led, ended, logs := campaign(ctx, s)
					var parts sync.WaitGroup
					client, err := locks.New(s)
					if err != nil {
						t.Fatal(err)
					}
					parts.Go(func() {
						if lock, err := client.Mutex("l").Lock(ctx); err == nil {
							_ = lock.Unlock(ctx)
						}
					})
					if variant == "Open" { // with New, what uses the pool besides is the caller's
						for range 10 {
							parts.Go(func() {
								for end := time.Now().Add(3 * time.Second); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
									_, _ = s.DB().ExecContext(ctx, "DO 1")
								}
							})
						}
					}
					select {
					case err := <-ended:
						t.Fatalf("the campaign ended: %v", err)
					case <-led:
						t.Fatal("leads with an old password")
					case <-time.After(3 * time.Second): // 22 refusals, before
					}
					if n := deniedLogins(t, root) - refusals; n != 1 {
						t.Errorf("%d logins were refused in 3 s, want 1", n)
					}
					if err := s.Check(soon(t)); !errors.Is(err, lease.ErrDenied) || !strings.Contains(err.Error(), "correct the password") {
						t.Errorf("Check: %v", err)
					}
					if lines := logs.FilterMessageSnippet("refuses the login").All(); len(lines) != 1 || logs.Len() != 1 {
						t.Errorf("the log: %v", logs.All())
					}
					// All others can log in.
					if err := openSQL(t, good).PingContext(soon(t)); err != nil {
						t.Errorf("the account: %v", err)
					}
					if variant == "Open" { // with New, the same password is tried again, minutes later
						write("secret-4711")
						select {
						case <-led:
						case <-time.After(patience):
							t.Errorf("does not lead with the right password: %v", logs.All())
						}
						if logs.FilterMessage("database trouble over").Len() != 1 {
							t.Errorf("the log: %v", logs.All())
						}
					}
					cancel()
					parts.Wait()
					if err := errors.Join(client.Close(soon(t)), <-ended); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// deniedLogins counts the refused logins since the server's start.
func deniedLogins(t *testing.T, c *sql.Conn) int {
	t.Helper()
	var name string
	var n int
	if err := c.QueryRowContext(soon(t), "SHOW GLOBAL STATUS LIKE 'Aborted_connects'").Scan(&name, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Other refusals than a wrong password are refused logins too.
func TestKindsOfRefusedLogins(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := dbtest.Private(t, kind)
			db := dbtest.FreshOn(t, server.Kind(), server.DSN(""))
			migrated(t, db.DSN)
			root := conn(t, db.Open(t))
			for name, alter := range map[string]string{
				"locked":           "ALTER USER @ ACCOUNT LOCK",
				"expired":          "ALTER USER @ PASSWORD EXPIRE",
				"another password": "ALTER USER @ IDENTIFIED BY 'new-4711'",
				"TLS required":     "ALTER USER @ REQUIRE X509",
			} {
				user := uniqueName("user")
				s := open(t, userDSN(t, db, user, "ALL ON @.*"))
				exec(t, root, strings.ReplaceAll(alter, "@", "'"+user+"'@'%'"))
				before := deniedLogins(t, root)
				for range 3 {
					if err := s.Check(soon(t)); !errors.Is(err, lease.ErrDenied) || keeper.Ends(err) {
						t.Errorf("%s: %v", name, err)
					}
				}
				if n := deniedLogins(t, root) - before; n > 1 {
					t.Errorf("%s: %d refused logins", name, n)
				}
			}
		})
	}
}

// Logins with the right password count towards no limit while the account is locked or the password has expired, so
// that a store may repeat them.
func TestRefusedAccountsAreNotLockedOut(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			options := []string{"--max-connect-errors=2"}
			if kind != dbserver.MySQL {
				options = append(options, "--max-password-errors=2")
			}
			server := dbtest.Private(t, kind, options...)
			db := dbtest.FreshOn(t, server.Kind(), server.DSN(""))
			root := conn(t, db.Open(t))
			for _, refuse := range [][2]string{{"ACCOUNT LOCK", "ACCOUNT UNLOCK"}, {"PASSWORD EXPIRE", "PASSWORD EXPIRE NEVER"}} {
				user := uniqueName("user")
				dsn := userDSN(t, db, user, "ALL ON @.*")
				account := "ALTER USER '" + user + "'@'%' "
				if server.Kind() == dbserver.MySQL {
					exec(t, root, account+"FAILED_LOGIN_ATTEMPTS 2 PASSWORD_LOCK_TIME 1")
				}
				exec(t, root, account+refuse[0])
				pool := dbtest.Database{Kind: db.Kind, DSN: dsn}.Open(t)
				for range 5 {
					if _, err := pool.ExecContext(soon(t), "DO 1"); err == nil {
						t.Fatal("the account was not refused")
					}
				}
				if refuse[0] == "PASSWORD EXPIRE" {
					exec(t, root, account+"IDENTIFIED BY 'secret-4711'")
				} else {
					exec(t, root, account+refuse[1])
				}
				if _, err := (dbtest.Database{Kind: db.Kind, DSN: dsn}).Open(t).ExecContext(soon(t), "DO 1"); err != nil {
					t.Errorf("after %s: %v", refuse[0], err)
				}
			}
		})
	}
}

func TestWithPassword(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		user := uniqueName("user")
		userDSN(t, db, user, "ALL ON @.*")
		dsn := with(t, db, func(c *mysql.Config) { c.User, c.Passwd = user, "" })
		s := open(t, dsn, mysqlstore.WithPassword(func(context.Context) (string, error) { return "secret-4711", nil }))
		if err := errors.Join(s.Migrate(soon(t)), s.Check(soon(t)), s.DB().PingContext(soon(t))); err != nil {
			t.Error(err)
		}
		away := errors.New("the vault is sealed")
		s = open(t, dsn, mysqlstore.WithPassword(func(context.Context) (string, error) { return "", away }))
		if err := s.Check(soon(t)); !errors.Is(err, away) || errors.Is(err, lease.ErrSetup) {
			t.Error(err)
		}
		both := mysqlstore.WithPassword(func(context.Context) (string, error) { return "", nil })
		for _, dsn := range []string{"u:p@tcp(h:1)/d", "u@tcp(h:1)/d?password_file=/run/secrets/db"} {
			if _, err := mysqlstore.Open(dsn, both); err == nil {
				t.Errorf("%s and WithPassword: accepted", dsn)
			}
		}
		if _, err := mysqlstore.New(db.Open(t), both); err == nil {
			t.Error("New with WithPassword: accepted")
		}
	})
}

// A login that takes longer than the statement that wants it is not thrown away: later statements
// take the connection.
func TestSlowLoginsAreKept(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		token := take(t, migrated(t, db.DSN), "billing", "me")
		proxy := dbtest.NewProxy(t, db.Config(t).Addr)
		s := open(t, with(t, db, func(c *mysql.Config) { c.Addr = proxy.Addr() }))
		proxy.Delay(100 * time.Millisecond)
		const attempt = 600 * time.Millisecond // of a TTL of 3 s
		h := store.Holder{Group: "billing", Owner: "me", Token: token}
		works := map[string]func(context.Context) error{
			"look": func(ctx context.Context) error { _, err := s.Read(ctx, "billing"); return err },
			"heartbeat": func(ctx context.Context) error {
				_, err := s.Renew(ctx, store.Renew{Owner: "me", Heartbeat: 1, Leases: []store.Renewal{{Group: "billing", Token: token, Heartbeat: 1}}})
				return err
			},
			"claim": func(ctx context.Context) error {
				key := jobs.Key{Job: "job", Tick: time.Now().UTC().Truncate(time.Microsecond)}
				_, err := s.Claim(ctx, h, store.ClaimID{1}, []store.Claim{{Key: key, State: jobs.Running}})
				return err
			},
		}
		began := time.Now()
		var all sync.WaitGroup
		for name, work := range works {
			all.Go(func() {
				for try := 1; ; try++ {
					ctx, cancel := context.WithTimeout(context.Background(), attempt)
					err := work(ctx)
					cancel()
					if err == nil {
						t.Logf("%s after %v, attempts: %d", name, time.Since(began), try)
						return
					}
					if time.Since(began) > patience {
						t.Errorf("%s: not within %v: %v", name, patience, err)
						return
					}
				}
			})
		}
		all.Wait()
	})
}
