package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/internal/settings"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

// cluster is a database and the replicas on it, in a bubble.
type cluster struct {
	*testing.T
	store *memdb.Store
	jobs.Group
	begin    time.Time
	replicas []*replica

	mu  sync.Mutex
	ran []ran
}

// ran is a run that a replica did, for as long as the replica lived.
type ran struct {
	jobs.Run
	began, ended time.Duration // since the cluster's begin; zero while it runs
	cause        error
}

// inBubble tests with a fresh cluster, in parallel with other tests. At the end
// it stops what runs.
func inBubble(t *testing.T, test func(c *cluster)) {
	t.Helper()
	t.Parallel()
	bubble(t, test)
}

// bubble is inBubble, and one after the other.
func bubble(t *testing.T, test func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memdb.New()
		c := &cluster{T: t, store: store, Group: jobs.NewGroup(store, "g"), begin: time.Now()}
		test(c)
		for _, r := range c.replicas {
			r.stop()
		}
	})
}

// replica is one start of one process.
type replica struct {
	*scheduler.Scheduler
	cluster *cluster
	link    *link
	cancel  context.CancelFunc
	done    chan struct{}
}

// start starts a replica with the jobs, and waits until it leads or follows.
func (c *cluster) start(declared []jobs.Job, options ...scheduler.Option) *replica {
	c.Helper()
	return c.startOn(func(*link) {}, declared, options...)
}

// startOn is start with a way to the database that was changed before.
func (c *cluster) startOn(change func(*link), declared []jobs.Job, options ...scheduler.Option) *replica {
	c.Helper()
	r := &replica{cluster: c, link: newLink(c.store), done: make(chan struct{})}
	r.link.set(change)
	machine := func(s *settings.Scheduler) { s.Election.Keeper.Clock = r.link.clocks }
	s, err := scheduler.New(r.link, "g", append(options, machine)...)
	if err != nil {
		c.Fatal(err)
	}
	r.Scheduler = s
	if err := s.Add(r.doing(declared...)...); err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() {
		defer close(r.done)
		if err := s.Run(ctx); err != nil {
			c.Errorf("Run: %v", err)
		}
	}()
	c.replicas = append(c.replicas, r)
	synctest.Wait()
	return r
}

// doing are jobs whose runs the cluster keeps.
func (r *replica) doing(declared ...jobs.Job) []jobs.Job {
	declared = slices.Clone(declared)
	for i, job := range declared {
		declared[i].Do = func(ctx context.Context, run jobs.Run) error { return r.run(ctx, run, job.Do) }
	}
	return declared
}

// run does a run and keeps it.
func (r *replica) run(ctx context.Context, run jobs.Run, do func(context.Context, jobs.Run) error) error {
	c := r.cluster
	c.mu.Lock()
	at := len(c.ran)
	c.ran = append(c.ran, ran{Run: run, began: time.Since(c.begin)})
	c.mu.Unlock()
	var err error
	if do != nil {
		err = do(ctx, run)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ran[at].ended, c.ran[at].cause = time.Since(c.begin), context.Cause(ctx)
	return err
}

// kill ends a replica as SIGKILL does: nothing that it does reaches the database
// any more, and it releases nothing.
func (r *replica) kill() {
	r.link.set(func(l *link) { l.cut = true })
	if r.State().Role == election.Leading {
		r.cluster.store.Cut("g")
	}
	r.cluster.store.CutOff(store.SessionGroup(r.Owner()))
	r.cancel()
}

// stop ends a replica cleanly.
func (r *replica) stop() {
	r.cancel()
	<-r.done
}

// until sleeps until so long after the cluster's begin.
func (c *cluster) until(d time.Duration) {
	time.Sleep(d - time.Since(c.begin))
	synctest.Wait()
}

// leader waits for a replica that leads.
func (c *cluster) leader() *replica {
	c.Helper()
	for range 10 * 60 {
		for _, r := range c.replicas {
			if r.State().Role == election.Leading {
				return r
			}
		}
		time.Sleep(time.Second)
	}
	c.Fatal("no replica leads")
	return nil
}

// records are a job's rows, oldest first.
func (c *cluster) records(job string) []jobs.Record {
	c.Helper()
	records, err := c.Runs(c.Context(), jobs.Filter{Job: job, Limit: 1e6})
	if err != nil {
		c.Fatal(err)
	}
	slices.Reverse(records)
	return records
}

// rows is a job's history as text, one line for each row: the tick since the
// begin, the state, and what there is of attempts beyond the first, missed ticks
// and an error.
func (c *cluster) rows(job string) string {
	c.Helper()
	var b strings.Builder
	for _, r := range c.records(job) {
		fmt.Fprintf(&b, "%s %v", short(r.Tick.Sub(c.begin)), r.State)
		if r.Attempt > 1 {
			fmt.Fprintf(&b, ", attempt %d", r.Attempt)
		}
		if r.Missed > 0 {
			fmt.Fprintf(&b, ", missed %d", r.Missed)
		}
		if r.Error != "" {
			fmt.Fprintf(&b, ": %s", r.Error)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// lines are the lines of a job's history.
func (c *cluster) lines(job string) []string {
	c.Helper()
	return strings.Split(strings.TrimSuffix(c.rows(job), "\n"), "\n")
}

// holder is the term that a replica leads.
func (c *cluster) holder(r *replica) store.Holder {
	c.Helper()
	readings, err := c.store.Read(c.Context(), "g")
	if err != nil || readings[0].Fence.Owner != r.Owner() {
		c.Fatalf("%q does not lead: %+v, %v", r.Owner(), readings, err)
	}
	return store.Holder{Group: "g", Owner: r.Owner(), Token: readings[0].Fence.Token}
}

// short is a duration without its zeros: 1h and 2h30m.
func short(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// wantRows compares a job's history, in which * stands for any text.
func (c *cluster) wantRows(job string, want ...string) {
	c.Helper()
	got := c.rows(job)
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if got == "" {
		lines = nil
	}
	ok := len(lines) == len(want)
	for i := 0; ok && i < len(want); i++ {
		before, after, open := strings.Cut(want[i], "*")
		ok = lines[i] == want[i] || open && strings.HasPrefix(lines[i], before) && strings.HasSuffix(lines[i], after)
	}
	if !ok {
		c.Errorf("%s: the ledger has\n%s\nwant\n%s\n", job, got, strings.Join(want, "\n"))
	}
}

// runs are the runs that began of a job, in their order.
func (c *cluster) runs(job string) []ran {
	c.mu.Lock()
	defer c.mu.Unlock()
	var result []ran
	for _, r := range c.ran {
		if r.Job == job {
			result = append(result, r)
		}
	}
	return result
}

// wantBegan compares when the runs of a job began.
func (c *cluster) wantBegan(job string, want ...time.Duration) {
	c.Helper()
	var got []time.Duration
	for _, r := range c.runs(job) {
		got = append(got, r.began)
	}
	if !slices.Equal(got, want) {
		c.Errorf("%s began at %v, want %v", job, got, want)
	}
}
