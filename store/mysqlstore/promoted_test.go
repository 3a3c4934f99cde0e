package mysqlstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/zap/zaptest"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

// A replica is promoted that has not received the last seconds, and the leader survives that:
// what it claims there hides no tick of those seconds.
func TestPromotedReplicaLacksTicks(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			primary, replica := dbtest.Replicated(t, kind)
			old, promoted := dbtest.Database{DSN: primary.DSN("mysql")}.Open(t), dbtest.Database{DSN: replica.DSN("mysql")}.Open(t)
			exec(t, old, "CREATE DATABASE app")
			config, err := mysql.ParseDSN(primary.DSN("app"))
			if err != nil {
				t.Fatal(err)
			}
			db := open(t, strings.Replace(config.FormatDSN(), primary.Addr(), primary.Addr()+","+replica.Addr(), 1))
			if err := db.Migrate(soon(t)); err != nil {
				t.Fatal(err)
			}

			const every = time.Second
			ran := make(chan jobs.Run, 10_000)
			var told atomic.Int32
			s, err := scheduler.New(db, "billing", scheduler.WithTiming(lease.Timing{TTL: 6 * time.Second}), scheduler.WithLogger(zaptest.NewLogger(t)),
				scheduler.WithEvents(func(e event.Event) {
					if _, ok := e.(event.WritesLost); ok {
						told.Add(1)
					}
				}))
			if err == nil {
				err = s.Add(jobs.Job{Name: "all", Schedule: jobs.Every(every), Misfire: jobs.MisfireAll, CatchUp: jobs.CatchUp{Limit: 10_000},
					Do: func(_ context.Context, run jobs.Run) error {
						ran <- run
						return nil
					}})
			}
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			defer func() {
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}()
			await := func(what string, n int, token uint64) jobs.Run {
				t.Helper()
				for limit := soon(t); ; {
					select {
					case run := <-ran:
						if n--; n <= 0 && run.Token > token {
							return run
						}
					case <-limit.Done():
						t.Fatalf("no run %s", what)
					}
				}
			}
			first := await("at the beginning", 3, 0)
			await("that the replica has", 1, 0)
			verb := map[string]string{dbserver.MariaDB: "SLAVE", dbserver.MySQL: "REPLICA"}[replica.Kind()]
			exec(t, promoted, fmt.Sprintf("STOP %s IO_THREAD", verb))
			last := await("that the replica lacks", 4, 0)
			if err := primary.Kill(); err != nil {
				t.Fatal(err)
			}
			exec(t, promoted, "STOP "+verb)
			exec(t, promoted, "SET GLOBAL read_only = OFF")
			next := await("after the promotion", 1, last.Token)
			for next.Tick.Before(last.Tick.Add(9 * every)) {
				next = await("after the lost ones", 1, last.Token)
			}

			rows, err := s.Jobs().Runs(soon(t), jobs.Filter{Job: "all", Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			has := map[time.Time]bool{}
			for _, r := range rows {
				has[r.Tick] = true
			}
			for tick := first.Tick; tick.Before(next.Tick); tick = tick.Add(every) {
				if !has[tick] {
					t.Errorf("no row tells of the tick %v, those before the promotion end with %v", tick, last.Tick)
				}
			}
			if told.Load() != 1 {
				t.Errorf("it was told %d times that writes are lost", told.Load())
			}
		})
	}
}
