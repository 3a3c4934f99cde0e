package metrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/test/promtest"
)

// scene is a group of replicas in which something goes wrong until it is mended. Prometheus scrapes it
// as the job of the alert's name.
type scene struct {
	alert    string
	replicas []*replica

	// breaks may go on while the alert fires. mend is called once that has fired, and at the end of
	// the test if it has not.
	breaks, mend func()

	began, fired, cleared time.Time
	text                  string
}

var nothing = func(context.Context, jobs.Run) error { return nil }

// each is a job that runs each second.
func each(name string, do func(context.Context, jobs.Run) error) jobs.Job {
	return jobs.Job{Name: name, Schedule: jobs.Every(time.Second), Do: do}
}

// failing is a job that fails while it is told to.
func failing(fails *atomic.Bool) func(context.Context, jobs.Run) error {
	return func(context.Context, jobs.Run) error {
		if fails.Load() {
			return errors.New("no luck")
		}
		return nil
	}
}

// pair are two replicas of a new database.
func pair(t *testing.T, declared []jobs.Job, options ...scheduler.Option) (*memdb.Store, []*replica) {
	t.Helper()
	db := memdb.New()
	return db, []*replica{newReplica(t, db, declared, options...), newReplica(t, db, declared, options...)}
}

func scenes(t *testing.T) []scene {
	tick := []jobs.Job{each("tick", nothing)}
	var all []scene
	add := func(alert string, replicas []*replica, breaks, mend func()) {
		mend = sync.OnceFunc(mend)
		t.Cleanup(mend)
		all = append(all, scene{alert: alert, replicas: replicas, breaks: breaks, mend: mend})
	}

	_, gone := pair(t, tick)
	add("CronleaseGroupGone", gone,
		func() { gone[0].hide(); gone[1].hide() }, func() { gone[0].serve(t); gone[1].serve(t) })

	_, cut := pair(t, tick)
	add("CronleaseNoLeader", cut,
		func() { cut[0].way.Cut(); cut[1].way.Cut() }, func() { cut[0].way.Heal(); cut[1].way.Heal() })

	two := []*replica{newReplica(t, memdb.New(), tick), newReplica(t, memdb.New(), tick)}
	add("CronleaseTwoLeaders", two, func() {}, func() { two[1].hide() })

	_, down := pair(t, tick)
	add("CronleaseReplicaDown", down, down[1].hide, func() { down[1].serve(t) })

	_, single := pair(t, tick)
	add("CronleaseOneReplica", single, single[0].hide, func() { single[0].serve(t) })

	release := make(chan struct{})
	_, stuck := pair(t, []jobs.Job{each("tick", nothing), {Name: "deaf", Schedule: jobs.Manual(), Do: func(context.Context, jobs.Run) error {
		<-release
		return nil
	}}})
	add("CronleaseStuck", stuck, func() {
		l, _ := leader(t, stuck...)
		if _, err := l.Jobs().Trigger(t.Context(), "deaf"); err != nil {
			t.Error(err)
		}
		until(t, "the run has started", func() bool {
			return slices.ContainsFunc(l.Running(), func(r scheduler.Running) bool { return r.Job == "deaf" })
		})
		if err := l.Resign(t.Context()); err != nil {
			t.Log("resign:", err)
		}
	}, func() { close(release) })

	_, away := pair(t, tick)
	add("CronleaseDatabase", away, func() {
		_, followers := leader(t, away...)
		followers[0].way.Cut()
	}, func() { away[0].way.Heal(); away[1].way.Heal() })

	var beaten atomic.Bool
	_, beats := pair(t, tick)
	add("CronleaseHeartbeatErrors", beats, func() {
		for !beaten.Load() { // the attempt after it works
			l, _ := leader(t, beats...)
			l.way.Once("Renew", faulty.Fault{Err: faulty.ErrLost})
			wait(t, 500*time.Millisecond)
		}
	}, func() { beaten.Store(true) })

	var changed atomic.Bool
	_, changes := pair(t, tick)
	add("CronleaseTermsChange", changes, func() {
		for !changed.Load() {
			l, _ := leader(t, changes...)
			if err := l.Resign(t.Context()); err != nil {
				t.Log("resign:", err)
			}
			wait(t, 300*time.Millisecond)
		}
	}, func() { changed.Store(true) })

	_, claims := pair(t, tick)
	add("CronleaseNotFiring", claims, func() {
		for _, r := range claims {
			r.way.Only("Claim", faulty.Fault{Err: faulty.ErrLost})
		}
	}, func() { claims[0].way.Heal(); claims[1].way.Heal() })

	self, idle := pair(t, tick)
	add("CronleaseLeaderIdle", idle, func() {
		if err := self.Pause(jobs.WithActor(t.Context(), jobs.Actor{Name: "worker", Via: jobs.ViaScheduler}), "billing", ""); err != nil {
			t.Error(err)
		}
	}, func() {
		if err := self.Resume(context.WithoutCancel(t.Context()), "billing", ""); err != nil {
			t.Error(err)
		}
	})

	var long atomic.Bool
	slow := func(ctx context.Context, _ jobs.Run) error {
		if long.Load() {
			<-time.After(1500 * time.Millisecond)
		}
		return nil
	}
	queued := each("slow", slow)
	queued.Overlap = jobs.OverlapQueue
	_, late := pair(t, []jobs.Job{queued}, scheduler.WithMaxRuns(1))
	add("CronleaseTicksLate", late, func() { long.Store(true) }, func() { long.Store(false) })

	_, missed := pair(t, tick)
	add("CronleaseTicksMissed", missed, func() {
		missed[0].way.Cut()
		missed[1].way.Cut()
		wait(t, 5*time.Second)
		missed[0].way.Heal()
		missed[1].way.Heal()
	}, func() {})

	var bad atomic.Bool
	retried := each("retried", func(_ context.Context, run jobs.Run) error {
		if run.Attempt == 1 {
			return errors.New("no luck")
		}
		return nil
	})
	retried.Retry = jobs.Retry{Attempts: 2, Initial: 10 * time.Millisecond}
	_, fails := pair(t, []jobs.Job{each("bad", failing(&bad)), retried})
	add("CronleaseJobFails", fails, func() { bad.Store(true) }, func() { bad.Store(false) })

	picky := jobs.Job{Name: "picky", Schedule: jobs.Manual(), On: jobs.Labels{"disk": "ssd"}, Do: nothing}
	_, none := pair(t, append([]jobs.Job{picky}, tick...), scheduler.WithSpread())
	var asked jobs.Key
	add("CronleaseNoReplica", none, func() {
		var err error
		l, _ := leader(t, none...)
		if asked, err = l.Jobs().Trigger(t.Context(), "picky"); err != nil {
			t.Error(err)
		}
	}, func() {
		if err := none[0].Jobs().Cancel(context.WithoutCancel(t.Context()), asked); err != nil {
			t.Error(err)
		}
	})

	var hangs atomic.Bool
	goOn := make(chan struct{})
	_, heldUp := pair(t, []jobs.Job{each("hangs", func(ctx context.Context, _ jobs.Run) error {
		if hangs.CompareAndSwap(true, false) {
			select {
			case <-goOn:
			case <-ctx.Done():
			}
		}
		return nil
	})})
	add("CronleaseJobHeldUp", heldUp, func() { hangs.Store(true) }, func() { close(goOn) })

	var twice atomic.Bool
	pausing := each("twice", failing(&twice))
	pausing.PauseAfter = 2
	_, paused := pair(t, []jobs.Job{pausing})
	add("CronleaseJobPausedByFailures", paused, func() { twice.Store(true) }, func() {
		twice.Store(false)
		if err := paused[0].Jobs().Resume(t.Context(), "twice"); err != nil {
			t.Error(err)
		}
	})

	var loud atomic.Bool
	noisy := []jobs.Job{{Name: "tell", Schedule: jobs.OnFailure().AtMost(2, time.Second), Do: nothing}}
	for _, name := range []string{"a", "b", "c"} {
		noisy = append(noisy, each(name, failing(&loud)))
	}
	_, leftOut := pair(t, noisy)
	add("CronleaseNoticesLeftOut", leftOut, func() { loud.Store(true) }, func() { loud.Store(false) })

	_, interrupted := pair(t, []jobs.Job{{Name: "hold", Schedule: jobs.Manual(), Do: func(ctx context.Context, _ jobs.Run) error {
		<-ctx.Done()
		return ctx.Err()
	}}})
	add("CronleaseRunsInterrupted", interrupted, func() {
		l, _ := leader(t, interrupted...)
		if _, err := l.Jobs().Trigger(t.Context(), "hold"); err != nil {
			t.Error(err)
		}
		until(t, "the run has started", func() bool { return len(l.Running()) > 0 })
		l.way.Cut()
	}, func() { interrupted[0].way.Heal(); interrupted[1].way.Heal() })

	clock, skewed := pair(t, tick)
	add("CronleaseClockSkew", skewed,
		func() { clock.StepClock(10 * time.Second) }, func() { clock.StepClock(-10 * time.Second) })

	_, sluggish := pair(t, tick, scheduler.WithTiming(lease.Timing{}))
	add("CronleaseSlowDatabase", sluggish, func() {
		for _, r := range sluggish {
			r.way.Always(func(string) faulty.Fault { return faulty.Fault{Reply: 1200 * time.Millisecond} })
		}
	}, func() { sluggish[0].way.Heal(); sluggish[1].way.Heal() })

	roster, differ := pair(t, tick)
	more := append(slices.Clone(tick), each("new", nothing))
	var alike struct {
		sync.Mutex
		now bool
	}
	set := func(r *replica, declared []jobs.Job) {
		if err := r.Set(declared...); err != nil {
			t.Error(err)
		}
	}
	add("CronleaseReplicasDiffer", differ, func() {
		// Again and again: on a busy machine, the follower may lead in the next moment, and a leader with more jobs is right.
		for over := false; !over; wait(t, 500*time.Millisecond) {
			leads, followers := leader(t, differ...)
			alike.Lock()
			if over = alike.now; !over && !followers[0].Health().Differences.Any() {
				set(leads, tick)
				set(followers[0], more)
			}
			alike.Unlock()
		}
	}, func() {
		alike.Lock()
		defer alike.Unlock()
		alike.now = true
		for _, r := range differ {
			set(r, tick)
		}
		until(t, "the replicas have told that they are alike", func() bool {
			told, err := jobs.NewGroup(roster, "billing").Roster(context.WithoutCancel(t.Context()))
			return err == nil && !told.Differences().Any()
		})
		// A replica reads what the others have told when it tells of a change itself, or minutes later.
		until(t, "the replicas have read that they are alike", func() bool {
			stale := false
			for _, r := range differ {
				if r.Health().Differences.Any() {
					stale = true
					set(r, more)
					set(r, tick)
				}
			}
			return !stale
		})
	})

	db, lost := pair(t, tick)
	line := newWay(db)
	client, err := locks.New(&lockWay{way: line, Locks: faulty.Locks{To: db, Send: line.Line.Send}}, locks.WithTiming(quick), locks.WithEvents(lost[0].metrics.Observe))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		line.Heal()
		if err := client.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if _, err := client.Mutex("stock").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	add("CronleaseLocksLost", lost, line.Cut, line.Heal)

	// A backlog of events takes minutes to build up.
	_, dropped := pair(t, tick)
	add("CronleaseEventsDropped", dropped, func() {
		dropped[0].metrics.Observe(event.Dropped{Header: event.Header{Group: "billing"}, Events: 7})
	}, func() {})
	return all
}

// lockWay is the way to the database of a client of locks.
type lockWay struct {
	*way
	faulty.Locks
}

// faster makes the rules faster: their durations, and what they compare with seconds of lateness.
func faster(t *testing.T, rules string) string {
	t.Helper()
	const times = 120
	rules = regexp.MustCompile(`(\[|for: |offset )(\d+)([smhd])`).ReplaceAllStringFunc(rules, func(s string) string {
		parts := regexp.MustCompile(`(\[|for: |offset )(\d+)([smhd])`).FindStringSubmatch(s)
		n, err := strconv.Atoi(parts[2])
		if err != nil {
			t.Fatal(err)
		}
		unit := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[parts[3]]
		return fmt.Sprintf("%s%dms", parts[1], time.Duration(n)*unit/times/time.Millisecond)
	})
	if strings.Count(rules, "> 60\n") != 2 || strings.Count(rules, "> 300\n") != 1 {
		t.Fatal("the rules compare lateness with another number of seconds")
	}
	return strings.NewReplacer("> 60\n", "> 2\n", "> 300\n", "> 2\n").Replace(rules)
}

// Replicas fail, a real Prometheus scrapes them, and each alert of the rules, made faster,
// fires and clears. The expressions of the dashboard have values then.
func TestAlertsOfReplicas(t *testing.T) {
	t.Parallel()
	all := scenes(t)
	folder := t.TempDir()
	rules := filepath.Join(folder, "rules.yml")
	if err := os.WriteFile(rules, []byte(faster(t, read(t, rulesFile))), 0o600); err != nil {
		t.Fatal(err)
	}
	type static struct {
		Targets []string `json:"targets"`
	}
	type scrape struct {
		Name    string   `json:"job_name"`
		Targets []static `json:"static_configs"`
	}
	var scrapes []scrape
	for _, s := range all {
		one := scrape{Name: s.alert, Targets: []static{{}}}
		for _, r := range s.replicas {
			one.Targets[0].Targets = append(one.Targets[0].Targets, r.address)
		}
		scrapes = append(scrapes, one)
	}
	config, err := json.Marshal(map[string]any{
		"global":         map[string]any{"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
		"rule_files":     []string{rules},
		"scrape_configs": scrapes,
	})
	if err != nil {
		t.Fatal(err)
	}
	prometheus := promtest.Start(t, string(config))
	replicas := 0
	for _, s := range all {
		replicas += len(s.replicas)
	}
	until(t, "each replica was scraped some times", func() bool {
		n, err := prometheus.Query(t.Context(), "count_over_time(cronlease_leader[5m]) >= 4")
		if err != nil {
			t.Error(err)
		}
		return n == replicas
	})
	// All at once: the most that an alert takes is a minute.
	var breaking sync.WaitGroup
	for i := range all {
		all[i].began = time.Now()
		breaking.Go(all[i].breaks)
	}
	until(t, "each alert has fired and cleared", func() bool {
		over := true
		now := firing(t, prometheus)
		for i := range all {
			over = all[i].see(t, now) && over
		}
		return over
	})
	breaking.Wait()
	t.Run("dashboard", func(t *testing.T) { testDashboard(t, prometheus) })
}

// see takes in which alerts fire, and reports whether the scene is over.
func (s *scene) see(t *testing.T, firing map[string]promtest.Alert) bool {
	t.Helper()
	a, fires := firing[s.alert]
	switch {
	case fires && s.fired.IsZero():
		s.fired, s.text = time.Now(), a.Annotations["summary"]+". "+a.Annotations["description"]
		if strings.Contains(s.text, "error") || strings.Contains(s.text, "<no value>") {
			t.Errorf("%s says %s", s.alert, s.text)
		}
		s.mend()
	case !fires && !s.fired.IsZero() && s.cleared.IsZero():
		s.cleared = time.Now()
		t.Logf("%s fired %.1f s after the fault and cleared %.1f s after its end: %s", s.alert, s.fired.Sub(s.began).Seconds(), s.cleared.Sub(s.fired).Seconds(), s.text)
	}
	return !s.cleared.IsZero()
}

// firing are the alerts that fire, each for the scene that has its name. Other alerts may tell of the same fault.
func firing(t *testing.T, prometheus *promtest.Server) map[string]promtest.Alert {
	t.Helper()
	all, err := prometheus.Alerts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]promtest.Alert{}
	for _, a := range all {
		if a.Labels["job"] == a.Labels["alertname"] && a.State == "firing" {
			by[a.Labels["alertname"]] = a
		}
	}
	return by
}
