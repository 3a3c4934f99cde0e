package page_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/page"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

const (
	manyJobs = 10_000
	perJob   = 100 // runs, one an hour; a million in all
)

// BenchmarkViews shows what each view takes of a group with 10,000 jobs, three replicas that have them, and a million
// runs, when no other client has read the same within a second. Each has to be shown within 200 ms, also the first one
// that a process shows. The databases are filled once each, which takes most of the time: with -benchtime 20x, there are
// 20 of each view.
func BenchmarkViews(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, database dbtest.Database) {
		pool := database.Open(b)
		db, err := mysqlstore.New(pool)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = db.Close() })
		fillLarge(b, db, func(statement string) {
			if _, err := pool.Exec(statement); err != nil {
				b.Fatalf("%.200s: %v", statement, err)
			}
		})
		s, err := scheduler.New(db, groupName)
		if err != nil {
			b.Fatal(err)
		}
		tick := time.Now().UTC().Truncate(time.Hour).Add(-5 * time.Hour).Format(time.RFC3339)
		for _, v := range []struct{ name, path string }{
			{"overview", "/"}, {"overview-month", "/?zoom=30d"}, {"overview-last-page", "/?page=200&zoom=7d"}, {"search", "/?q=07"},
			{"job", "/job?name=job-00077"}, {"job-month", "/job?name=busy&zoom=30d"}, {"run", "/run?job=job-00077&tick=" + tick + "&trigger=0"}, {"locks", "/locks"}, {"audit", "/audit"},
		} {
			b.Run(v.name, func(b *testing.B) {
				p, err := page.New(s, db)
				if err != nil {
					b.Fatal(err)
				}
				var took []time.Duration
				for b.Loop() {
					b.StopTimer()
					time.Sleep(1100 * time.Millisecond) //nolint:forbidigo // an answer of the last second would do
					b.StartTimer()
					r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, v.path, nil)
					r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
					w := httptest.NewRecorder()
					begin := time.Now()
					p.ServeHTTP(w, r)
					took = append(took, time.Since(begin))
					if w.Code != http.StatusOK {
						b.Fatalf("%s: %d: %.500s", v.path, w.Code, w.Body)
					}
				}
				b.ReportMetric(float64(took[0].Microseconds())/1000, "first-ms")
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
				b.ReportMetric(0, "ns/op") // the same, and the waits between
			})
		}
	})
}

// fillLarge fills a database.
func fillLarge(b *testing.B, db *mysqlstore.Store, exec func(string)) {
	b.Helper()
	ctx := context.Background()
	ok := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	ok(db.Migrate(ctx))
	ok(db.Prepare(ctx, groupName, time.Hour))
	reading, err := db.Read(ctx, groupName)
	ok(err)
	h := store.Holder{Group: groupName, Owner: owners[0]}
	h.Token, err = db.Acquire(ctx, store.Acquire{Read: reading[0], Owner: h.Owner, Heartbeat: 1, TTL: time.Hour})
	ok(err)
	ok(db.NoteTerm(ctx, store.TermNote{Holder: h}))
	list := map[string]jobs.ScheduleHash{"busy": jobs.HashSchedule("every 30s")}
	declared := []store.Declared{{Name: "busy", Schedule: jobs.Every(30 * time.Second).String()}}
	for i := range manyJobs - 1 {
		schedule := jobs.Every(time.Hour).String()
		if i%3 == 0 {
			schedule = jobs.Cron(fmt.Sprintf("0 %d * * * *", i%60)).In("Europe/Berlin").String()
		}
		name := fmt.Sprintf("job-%05d", i)
		declared = append(declared, store.Declared{Name: name, Schedule: schedule})
		list[name] = jobs.HashSchedule(schedule)
	}
	ok(db.Declare(ctx, h, declared))
	for _, owner := range owners {
		ok(db.Enlist(ctx, groupName, jobs.Replica{Owner: owner, Version: "v1.8.2", List: jobs.FirstList, Jobs: list}))
	}
	// Of each job a run in each of the last hours, of which one in fifty has failed; of the busy one a run every 30 s.
	exec(`CREATE TABLE n (n INT PRIMARY KEY)`)
	exec(`INSERT INTO n WITH RECURSIVE d AS (SELECT 0 AS d UNION ALL SELECT d + 1 FROM d WHERE d < 9)
		SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d FROM d a, d b, d c, d e`)
	hour := time.Now().UTC().Truncate(time.Hour).UnixMicro()
	rows := func(job, tick, where string) {
		exec(fmt.Sprintf(`INSERT INTO cronlease_run (grp, job, tick, trigger_id, claim_id, state, owner, token, attempt, claimed_at, started_at, finished_at, due_at, missed, error, cancel_asked)
			SELECT '%s', %s, %s, 0, UNHEX(LPAD(HEX(j.n * 10000 + h.n), 32, '0')), IF((j.n * 7 + h.n) %% 50 = 0, %d, %d), '%s', %d, 1,
				'1970-01-01' + INTERVAL %[3]s MICROSECOND, '1970-01-01' + INTERVAL %[3]s MICROSECOND, '1970-01-01' + INTERVAL %[3]s + 20000000 MICROSECOND, NULL, 0,
				IF((j.n * 7 + h.n) %% 50 = 0, 'exit status 1', ''), 0
			FROM n j JOIN n h WHERE %[8]s`, groupName, job, tick, jobs.Failed, jobs.Succeeded, h.Owner, h.Token, where))
	}
	for from := 0; from < manyJobs; from += 1000 {
		rows("CONCAT('job-', LPAD(j.n, 5, '0'))", fmt.Sprintf("(%d - h.n * 3600000000)", hour), fmt.Sprintf("j.n >= %d AND j.n < %d AND h.n < %d", from, min(from+1000, manyJobs-1), perJob))
	}
	rows("'busy'", fmt.Sprintf("(%d - h.n * 30000000)", hour), "j.n = 0")
	exec(`ANALYZE TABLE cronlease_run`)
}
