package scheduler_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/memstore"
)

// Every replica declares the same jobs and calls Run. In a service the store is
// one of mysqlstore, and ctx ends with the process.
func Example() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	s, err := scheduler.New(memstore.New(), "billing")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = s.Add(jobs.Job{
		Name:     "clean-up",
		Schedule: jobs.FixedRate(time.Hour), // the first tick is when the job is first led
		Do: func(ctx context.Context, run jobs.Run) error {
			defer stop()
			fmt.Println(run.Job, "attempt", run.Attempt, "with a token:", run.Token > 0)
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Run(ctx)) // until ctx ends: the runs have ended, the lease is released
	// Output:
	// clean-up attempt 1 with a token: true
	// <nil>
}

// Any process that has the database can steer the jobs: trigger, pause, resume and
// cancel them, and read their history.
func ExampleScheduler_Jobs() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	store := memstore.New()
	s, err := scheduler.New(store, "billing")
	if err != nil {
		fmt.Println(err)
		return
	}
	ready := make(chan struct{})
	err = s.Add(
		jobs.Job{Name: "ready", Schedule: jobs.FixedRate(time.Hour), Do: func(context.Context, jobs.Run) error {
			close(ready) // the group's jobs are in the database by now
			return nil
		}},
		jobs.Job{Name: "export", Schedule: jobs.Manual(), Do: func(_ context.Context, run jobs.Run) error {
			fmt.Println("export, triggered by hand:", run.Trigger > 0)
			stop()
			return nil
		}})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		<-ready
		if _, err := jobs.NewGroup(store, "billing").Trigger(ctx, "export"); err != nil {
			fmt.Println(err)
			stop()
		}
	}()
	if err := s.Run(ctx); err != nil {
		fmt.Println(err)
	}
	history, err := s.Jobs().Runs(context.Background(), jobs.Filter{Job: "export"})
	if err != nil {
		fmt.Println(err)
	}
	for _, run := range history {
		fmt.Println(run.Job, run.State)
	}
	// Output:
	// export, triggered by hand: true
	// export succeeded
}

// Health answers a liveness probe and a readiness probe with different questions:
// a restart helps a process that is stuck, and not a database that is away.
func ExampleScheduler_Health() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	s, err := scheduler.New(memstore.New(), "billing")
	if err != nil {
		fmt.Println(err)
		return
	}
	answer := func(question func(scheduler.Health) error) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if err := question(s.Health()); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
			}
		}
	}
	probes := http.NewServeMux()
	probes.HandleFunc("/livez", answer(func(h scheduler.Health) error { return h.Stuck }))
	probes.HandleFunc("/readyz", answer(func(h scheduler.Health) error { return h.Database }))

	err = s.Add(jobs.Job{Name: "probe", Schedule: jobs.FixedRate(time.Hour), Do: func(context.Context, jobs.Run) error {
		defer stop()
		for _, path := range []string{"/livez", "/readyz"} {
			w := httptest.NewRecorder()
			probes.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			fmt.Println(path, w.Code)
		}
		return nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := s.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// /livez 200
	// /readyz 200
}
