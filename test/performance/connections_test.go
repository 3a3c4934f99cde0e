package performance

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// BenchmarkConnections counts the connections that a process with so many groups has on the
// server: the most of ten seconds of work, with a job in each group that runs each second.
func BenchmarkConnections(b *testing.B) {
	for _, kind := range dbtest.Dialects(b) {
		for _, n := range []int{1, 20} {
			db := dbtest.Fresh(b, kind)
			open(b, db)
			admin := db.Open(b)
			leader := takePart(b, db, admin, n, election.Leading)
			follower := takePart(b, db, admin, n, election.Following)
			most := map[string]int{}
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
				for _, user := range []string{leader, follower} {
					now, err := dbserver.Sessions(b.Context(), admin, "user = ?", user)
					if err != nil {
						b.Fatal(err)
					}
					most[user] = max(most[user], now)
				}
			}
			for role, user := range map[string]string{"leader": leader, "follower": follower} {
				b.Run(fmt.Sprintf("%s/%s/groups=%d", kind, role, n), func(b *testing.B) {
					b.ReportMetric(float64(most[user]), "connections")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// takePart has a process take part in so many groups, until the end of the benchmark. It returns the
// user that the process is for the server, once it has that role in all of them.
func takePart(b *testing.B, db dbtest.Database, admin *sql.DB, n int, role election.Role) (user string) {
	b.Helper()
	user = "performance_" + strings.ToLower(rand.Text()[:12])
	config := db.Config(b)
	config.User, config.Passwd = user, rand.Text()
	for _, statement := range []string{"CREATE USER %[1]s IDENTIFIED BY '%[2]s'", "GRANT ALL ON `%[3]s`.* TO %[1]s"} {
		if _, err := admin.ExecContext(b.Context(), fmt.Sprintf(statement, user, config.Passwd, config.DBName)); err != nil {
			b.Fatal(err)
		}
	}
	b.Cleanup(func() {
		if _, err := admin.ExecContext(context.Background(), "DROP USER "+user); err != nil {
			b.Error(err)
		}
	})
	store, err := mysqlstore.Open(config.FormatDSN())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	var running sync.WaitGroup
	b.Cleanup(func() {
		stop()
		running.Wait()
	})
	var all []*scheduler.Scheduler
	for i := range n {
		one, err := scheduler.New(store, fmt.Sprint("group-", i))
		if err == nil {
			err = one.Add(jobs.Job{Name: "job", Schedule: jobs.Every(time.Second), Do: func(context.Context, jobs.Run) error { return nil }})
		}
		if err != nil {
			b.Fatal(err)
		}
		running.Go(func() { _ = one.Run(ctx) }) // its end is asked for
		all = append(all, one)
	}
	until(b, "the role", func() bool {
		for _, one := range all {
			if state := one.State(); state.Role != role || state.Token == 0 {
				return false
			}
		}
		return true
	})
	return user
}
