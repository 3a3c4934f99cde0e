package mysqlstore_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// mostSessions is what docs/database.md says that a process has at most, without locks and
// beside pool_size, however many groups it has.
var mostSessions = mysqlstore.ConnectionsOf(1, 1, 0, 0)

// process is one that has many groups, of which each has a job that runs each second.
type process struct {
	all  []*scheduler.Scheduler
	user string
	stop func()
}

func manyGroupsOn(t *testing.T, s *mysqlstore.Store, user string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{user: user}
	var running sync.WaitGroup
	p.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(p.stop)
	for _, group := range groups() {
		one, err := scheduler.New(s, group, scheduler.WithTiming(lease.Timing{TTL: 2 * time.Second}))
		if err != nil {
			t.Fatal(err)
		}
		if err := one.Add(jobs.Job{Name: "job", Schedule: jobs.Every(time.Second), Do: func(context.Context, jobs.Run) error { return nil }}); err != nil {
			t.Fatal(err)
		}
		running.Go(func() { _ = one.Run(ctx) })
		p.all = append(p.all, one)
	}
	return p
}

func (p *process) leads() (n int) {
	for _, s := range p.all {
		if s.State().Role == election.Leading {
			n++
		}
	}
	return n
}

// watchSessions notes how many sessions each of the processes has at most.
func watchSessions(t *testing.T, admin *sql.DB, all ...*process) (most func() map[string]int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	seen := map[string]int{}
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			for _, p := range all {
				n, err := dbserver.Sessions(ctx, admin, "user = ?", p.user)
				if err != nil {
					return
				}
				mu.Lock()
				seen[p.user] = max(seen[p.user], n)
				mu.Unlock()
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	return func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		last := seen
		seen = map[string]int{}
		return last
	}
}

// A process with 20 groups has no more sessions on the server than docs/database.md says,
// whether it leads or follows, and whatever becomes of the server and the network.
func TestSessionsOfManyGroups(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		options, hangCommits := unacknowledged("AFTER_COMMIT")(t, db.Kind)
		server := dbtest.Private(t, db.Kind, options...)
		db = dbtest.FreshOn(t, server.Kind(), server.DSN(""))
		migrated(t, db.DSN)
		admin := db.Open(t)
		var network []*dbtest.Proxy
		start := func(user string) *process {
			config, err := mysql.ParseDSN(userDSN(t, db, user, "ALL ON @.*"))
			if err != nil {
				t.Fatal(err)
			}
			proxy := dbtest.NewProxy(t, config.Addr)
			config.Addr = proxy.Addr()
			network = append(network, proxy)
			return manyGroupsOn(t, open(t, config.FormatDSN()), user)
		}
		leader := start(uniqueName("leader"))
		eventually(t, "the first process leads", func() bool { return leader.leads() == manyGroups })
		follower := start(uniqueName("follower"))
		eventually(t, "the second process waits", boardLooks(t, db))
		most := watchSessions(t, admin, leader, follower)
		led := func() bool { return leader.leads()+follower.leads() == manyGroups }
		stays := func(what string, d time.Duration) {
			t.Helper()
			most()
			<-time.After(d)
			for user, n := range most() {
				t.Logf("%s: %s has at most %d sessions", what, user, n)
				if n > mostSessions {
					t.Errorf("%s: %s has %d sessions", what, user, n)
				}
			}
		}
		stays("at work", 3*time.Second)

		goOn := hangCommits(admin)
		stays("commits hang", 8*time.Second)
		goOn()
		eventually(t, "all groups are led", led)

		for _, proxy := range network {
			proxy.BlackHole()
		}
		stays("black hole", 5*time.Second)
		for _, proxy := range network {
			proxy.Pass()
		}
		eventually(t, "all groups are led", led)
		stays("after it", 3*time.Second)

		leader.stop()
		eventually(t, "the other process leads all groups", func() bool { return follower.leads() == manyGroups })
		stays("the other process leads", 2*time.Second)
	})
}

// Groups that ask at the same time whether the database is fit share the answer.
func TestChecksOfManyGroups(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		server := dbtest.Private(t, db.Kind)
		db = dbtest.FreshOn(t, server.Kind(), server.DSN(""))
		s := migrated(t, db.DSN)
		admin := db.Open(t)
		statements := func(groups int) (n int) {
			n = questions(t, admin)
			var asking sync.WaitGroup
			for range groups {
				asking.Go(func() {
					if err := s.Check(soon(t)); err != nil {
						t.Error(err)
					}
				})
			}
			asking.Wait()
			return questions(t, admin) - n
		}
		statements(1) // opens connections
		began := time.Now()
		one := statements(1)
		took := time.Since(began)
		began = time.Now()
		many := statements(manyGroups)
		t.Logf("%d statements in %v of one group, %d in %v of %d", one, took, many, time.Since(began), manyGroups)
		if most := 3 * one; many > most { // some may have asked late
			t.Errorf("%d groups ask %d statements, one %d", manyGroups, many, one)
		}
	})
}

// questions are how many statements a server was sent.
func questions(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(soon(t), "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(new(string), &n); err != nil {
		t.Fatal(err)
	}
	return n
}
