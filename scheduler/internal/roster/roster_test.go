package roster_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler/internal/roster"
	"github.com/cronlease/cronlease/store"
)

const (
	// As in the package.
	tellEvery    = 210 * time.Second
	struckAfter  = 30 * time.Minute
	troubleAfter = 2 * time.Minute
	deniedEvery  = 10 * time.Second

	timeout = time.Second
	me      = "worker/host/1/me"
	other   = "worker/host/2/other"
)

// Parts of what the log says.
const (
	followerDiffers = "the leader does not have some of this replica's jobs"
	leaderDiffers   = "replicas have jobs that this leader does not have"
	same            = "the leader has the jobs of this replica"
	unfit           = "the database has become unfit"
	fit             = "the database is fit again"
	cannot          = "this replica cannot tell the others"
	canAgain        = "this replica tells the others again"
)

type hashes = map[string]jobs.ScheduleHash

// replicas sends what a roster does over a line.
type replicas struct {
	store.Replicas
	over faulty.Ledger
}

func (r replicas) Enlist(ctx context.Context, group string, x jobs.Replica) error {
	return r.over.Enlist(ctx, group, x)
}

func (r replicas) Refresh(ctx context.Context, group, owner string) error {
	return r.over.Refresh(ctx, group, owner)
}

func (r replicas) Strike(ctx context.Context, group, owner string, idle time.Duration) error {
	return r.over.Strike(ctx, group, owner, idle)
}

func (r replicas) Roster(ctx context.Context, group string, known jobs.Roster) (jobs.Roster, error) {
	return r.over.Roster(ctx, group, known)
}

// scene is a replica whose roster tells the database.
type scene struct {
	*testing.T
	*roster.Roster
	db   *memdb.Store
	line faulty.Line
	log  *observer.ObservedLogs
	stop func() // ends the roster, and waits for it

	mu   sync.Mutex
	jobs hashes
}

// in runs a test in a bubble, with a roster that has not begun.
func in(t *testing.T, test func(s *scene)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zap.InfoLevel)
		s := &scene{T: t, db: memdb.New(), log: log, jobs: hashes{"a": 1}, stop: func() {}}
		s.Roster = roster.New(roster.Config{
			DB: replicas{s.db, faulty.Ledger{To: s.db, Send: s.line.Send}}, Group: "g", Owner: me, Version: "v1",
			Jobs: func() hashes {
				s.mu.Lock()
				defer s.mu.Unlock()
				return maps.Clone(s.jobs)
			},
			Log: zap.New(core), Timeout: timeout,
		})
		test(s)
		s.stop()
	})
}

// run begins the roster, and waits until it has told of itself.
func (s *scene) run() {
	ctx, cancel := context.WithCancel(s.Context())
	var run sync.WaitGroup
	run.Go(func() { s.Roster.Run(ctx) })
	s.stop = func() { cancel(); run.Wait() }
	synctest.Wait()
}

// tells has the roster told now.
func (s *scene) tells() {
	s.Poke()
	synctest.Wait()
}

// has gives this replica other jobs, and tells.
func (s *scene) has(now hashes) {
	s.mu.Lock()
	s.jobs = now
	s.mu.Unlock()
	s.tells()
}

// ok fails the test at an error.
func (s *scene) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// enlist tells of another replica, whose release does not show itself: it counts as long as it tells.
func (s *scene) enlist(owner, version string, has hashes) {
	s.Helper()
	s.ok(s.db.Enlist(s.Context(), "g", jobs.Replica{Owner: owner, Version: version, List: 1, Jobs: has}))
}

// lead gives the lease to a replica; empty: to none.
func (s *scene) lead(owner string) {
	s.db.Update("g", func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) {
		if owner == "" {
			return nil, nil
		}
		return &store.Lease{Owner: owner, Token: 1}, nil
	})
}

// row is what the database has of a replica.
func (s *scene) row(owner string) (jobs.Replica, bool) {
	s.Helper()
	all, err := s.db.Roster(context.WithoutCancel(s.Context()), "g", jobs.Roster{})
	s.ok(err)
	return all.Find(owner)
}

// says checks what the log has got since the last call.
func (s *scene) says(when string, want ...string) []observer.LoggedEntry {
	s.Helper()
	lines := s.log.TakeAll()
	ok := len(lines) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = strings.HasPrefix(lines[i].Message, want[i])
	}
	if !ok {
		s.Errorf("%s: the log has %v, want %q", when, lines, want)
	}
	return lines
}

// times notes when statements of an operation are sent, since now, and gives them a fault.
func (s *scene) times(fault faulty.Fault, op string) *[]time.Duration {
	began, all := time.Now(), &[]time.Duration{}
	s.line.Always(func(o string) faulty.Fault {
		if o != op {
			return faulty.Fault{}
		}
		*all = append(*all, time.Since(began))
		return fault
	})
	return all
}

// A replica tells of itself when it begins, soon and then ever more seldom, up to the longest time.
func TestTimes(t *testing.T) {
	in(t, func(s *scene) {
		times := s.times(faulty.Fault{}, "Roster")
		s.run()
		time.Sleep(750 * time.Second)
		s.stop()
		var want []time.Duration
		for _, seconds := range []int{0, 10, 20, 40, 80, 160, 320, 530, 740} {
			want = append(want, time.Duration(seconds)*time.Second)
		}
		if !slices.Equal(*times, want) {
			t.Errorf("told at %v, want %v", *times, want)
		}
		if enlisted, refreshed := s.line.Count("Enlist"), s.line.Count("Refresh"); enlisted != 1 || refreshed != len(want)-1 {
			t.Errorf("%d lists and %d refreshes", enlisted, refreshed)
		}
		s.says("a replica alone")
	})
}

// A store that has no rosters is left alone.
func TestNoRosters(t *testing.T) {
	in(t, func(s *scene) {
		s.DB = nil
		s.Roster.Run(s.Context())
	})
}

// Several pokes before the roster has woken are one.
func TestPoke(t *testing.T) {
	in(t, func(s *scene) {
		s.Poke()
		s.Poke()
		s.run()
		if n := s.line.Count("Roster"); n != 2 {
			t.Errorf("read %d times, want at the beginning and for the pokes", n)
		}
		s.tells()
		if n := s.line.Count("Roster"); n != 3 {
			t.Errorf("read %d times after another poke", n)
		}
	})
}

// Another list has another number, and the same one is not told again.
func TestLists(t *testing.T) {
	in(t, func(s *scene) {
		s.jobs = nil // a replica without jobs is one too
		s.run()
		lists := uint64(0)
		for i, now := range []hashes{nil, {"a": 1}, {"a": 1}, {"a": 2}, {"a": 2, "b": 1}, {"a": 2, "b": 1}, {"b": 1}, {"c": 1}, {}, nil} {
			if another := slices.Contains([]int{0, 1, 3, 4, 6, 7, 8}, i); another {
				lists++
			}
			s.has(now)
			row, _ := s.row(me)
			if want := jobs.FirstList + lists - 1; row.List != want || !maps.Equal(row.Jobs, now) || row.Version != "v1" || s.line.Count("Enlist") != int(lists) {
				t.Errorf("step %d: %+v after %d lists, want %d and %v", i, row, s.line.Count("Enlist"), want, now)
			}
			if own, ok := s.Read().Find(me); !ok || own.List != row.List {
				t.Errorf("step %d: read %+v", i, own)
			}
		}
	})
}

// A list whose answer was lost may have been written, or may be later: the next try has another number.
func TestListIsToldAgainUnderAnotherNumber(t *testing.T) {
	in(t, func(s *scene) {
		s.line.Once("Enlist", faulty.Fault{Err: faulty.ErrLost, Applied: true})
		s.run()
		if row, _ := s.row(me); row.List != jobs.FirstList || !s.Read().Now.IsZero() {
			t.Errorf("%+v", row)
		}
		time.Sleep(1500 * time.Millisecond) // the first wait after a failure, at most
		if row, _ := s.row(me); row.List != jobs.FirstList+1 || s.line.Count("Enlist") != 2 {
			t.Errorf("%+v after %d lists", row, s.line.Count("Enlist"))
		}
	})
}

// A row that is lost, or has another list, is written again, and the others are looked at with it.
func TestRowThatIsLost(t *testing.T) {
	for name, lose := range map[string]func(s *scene){
		"deleted":  func(s *scene) { s.ok(s.db.Strike(s.Context(), "g", me, 0)) },
		"restored": func(s *scene) { s.enlist(me, "v1", hashes{"old": 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(s *scene) {
				s.run()
				s.enlist(other, "v2", nil)
				s.lead(other)
				lose(s)
				s.tells()
				s.says("the row was lost", followerDiffers)
				row, _ := s.row(me)
				if own, ok := s.Read().Find(me); !ok || row.List != jobs.FirstList || own.List != row.List || !maps.Equal(row.Jobs, hashes{"a": 1}) {
					t.Errorf("%+v, read %+v", row, own)
				}
			})
		})
	}
}

// Whatever fails is tried again soon. The log says so when it has failed for a while, once, and when it works again.
func TestFailures(t *testing.T) {
	for name, test := range map[string]struct {
		op      string
		prepare func(s *scene)
	}{
		"Refresh":      {"Refresh", func(*scene) {}},
		"Roster":       {"Roster", func(*scene) {}},
		"Enlist":       {"Enlist", func(s *scene) { s.mu.Lock(); s.jobs = hashes{"b": 1}; s.mu.Unlock() }},
		"Enlist again": {"Enlist", func(s *scene) { s.ok(s.db.Strike(s.Context(), "g", me, 0)) }},
		"Strike": {"Strike", func(s *scene) {
			s.enlist(other, "v2", nil)
			time.Sleep(struckAfter + time.Second)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(s *scene) {
				s.run()
				errThis := errors.New(test.op + " fails")
				s.line.Only(test.op, faulty.Fault{Err: errThis})
				test.prepare(s)
				began, before := time.Now(), s.line.Count(test.op)
				s.tells()
				time.Sleep(1500 * time.Millisecond)
				if n := s.line.Count(test.op) - before; n < 2 {
					t.Errorf("tried %d times", n)
				}
				time.Sleep(time.Until(began.Add(troubleAfter - 1)))
				s.tells()
				s.says("it has failed for less than a while")
				time.Sleep(time.Nanosecond)
				s.tells()
				if lines := s.says("it has failed for a while", cannot); len(lines) == 1 && lines[0].ContextMap()["error"] != errThis.Error() {
					t.Errorf("%v", lines)
				}
				time.Sleep(time.Hour)
				s.says("it fails for an hour")
				if err := s.Refusal(); err != nil {
					t.Errorf("an error like others: %v", err)
				}
				s.line.Heal()
				s.tells()
				s.says("it works again", canAgain)
				s.tells()
				s.says("it still works")
			})
		})
	}
}

// The second look of a try, after the row was written again, may fail as well.
func TestFailureOfTheSecondLook(t *testing.T) {
	in(t, func(s *scene) {
		s.run()
		time.Sleep(time.Minute)
		s.ok(s.db.Strike(s.Context(), "g", me, 0))
		s.line.Once("Roster", faulty.Fault{}, faulty.Fault{Err: faulty.ErrLost})
		s.tells()
		before := s.line.Count("Roster")
		time.Sleep(1500 * time.Millisecond)
		if n := s.line.Count("Roster") - before; n != 1 {
			t.Errorf("tried %d times after the failure", n)
		}
	})
}

// A while without an answer begins with the first failure after the last success, and an end of a statement that nobody
// waits for is none.
func TestFailuresThatAreNotSaid(t *testing.T) {
	in(t, func(s *scene) {
		s.run()
		for range 3 {
			s.line.Cut()
			s.tells()
			s.line.Heal()
			s.tells()
			time.Sleep(troubleAfter)
		}
		s.says("it failed now and then")
		s.line.Always(func(string) faulty.Fault { return faulty.Fault{Err: context.Canceled} })
		time.Sleep(time.Hour)
		s.says("it was canceled")
		s.line.Cut()
		s.tells()
		s.says("it fails", cannot)
	})
}

// What fails because the roster ends is no failure, whatever the error is.
func TestEndIsNoFailure(t *testing.T) {
	in(t, func(s *scene) {
		s.line.Cut()
		s.run()
		time.Sleep(troubleAfter - 1)
		stuck := make(chan struct{})
		s.line.Always(func(string) faulty.Fault { return faulty.Fault{Stuck: stuck} })
		s.tells()
		time.AfterFunc(time.Second, func() { close(stuck) })
		s.stop()
		s.says("it has ended")
	})
}

// A statement without an answer ends by itself.
func TestStatementsEnd(t *testing.T) {
	in(t, func(s *scene) {
		s.line.Hang()
		s.run()
		time.Sleep(timeout + 1500*time.Millisecond)
		if n := s.line.Count("Enlist"); n != 2 {
			t.Errorf("sent %d times", n)
		}
	})
}

// A replica that the database refuses could not lead, from the second time on. It tries often, as it may be let in any time.
func TestRefusal(t *testing.T) {
	in(t, func(s *scene) {
		refused := faulty.Fault{Err: fmt.Errorf("%w: it is read-only", lease.ErrNotReady)}
		times := s.times(refused, "Enlist")
		s.run()
		if err := s.Refusal(); err != nil {
			t.Errorf("refused once: %v", err)
		}
		s.tells()
		if err := s.Refusal(); !errors.Is(err, lease.ErrSetup) || !strings.Contains(err.Error(), "this replica could not lead") {
			t.Errorf("refused twice: %v", err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for i, at := range *times {
			if i > 0 && at-(*times)[i-1] > deniedEvery {
				t.Errorf("tried after %v, and then after %v", (*times)[i-1], at)
			}
		}
		s.says("it is refused", cannot)
		s.line.Heal()
		s.tells()
		if err := s.Refusal(); err != nil {
			t.Errorf("let in again: %v", err)
		}
		s.line.Always(func(string) faulty.Fault { return refused })
		s.tells()
		if err := s.Refusal(); err != nil {
			t.Errorf("refused once again: %v", err)
		}
	})
}

// What fails otherwise is tried more and more seldom, and soon again once it has worked.
func TestOutage(t *testing.T) {
	in(t, func(s *scene) {
		times := s.times(faulty.Fault{Err: faulty.ErrLost}, "Enlist")
		s.run()
		time.Sleep(time.Hour)
		synctest.Wait()
		longest := time.Duration(0)
		for i, at := range *times {
			if i > 0 {
				longest = max(longest, at-(*times)[i-1])
			}
		}
		if longest < tellEvery/2 || longest > tellEvery*3/2 {
			t.Errorf("tried at %v", *times)
		}
		s.line.Heal()
		s.tells()
		s.line.Cut()
		s.tells()
		before := s.line.Count("Refresh")
		time.Sleep(1500 * time.Millisecond)
		if n := s.line.Count("Refresh") - before; n < 1 {
			t.Error("after it has worked, the first wait is as long as the last one")
		}
	})
}

// Replicas that do not tell any more are struck after a while, and not before: each of them, and nobody else.
func TestStrike(t *testing.T) {
	in(t, func(s *scene) {
		s.enlist(other, "v2", nil)
		s.enlist("worker/host/3/third", "v2", nil)
		s.run()
		time.Sleep(time.Minute)
		s.enlist("worker/host/4/fourth", "v2", nil)
		time.Sleep(struckAfter - time.Minute)
		s.tells()
		if n := s.line.Count("Strike"); n != 0 || len(s.Read().Replicas) != 4 {
			t.Errorf("%d are struck in time", n)
		}
		time.Sleep(time.Microsecond) // the database has no less
		s.tells()
		s.tells()
		var left []string
		for _, x := range s.Read().Replicas {
			left = append(left, x.Owner)
		}
		if n := s.line.Count("Strike"); n != 2 || !slices.Equal(left, []string{me, "worker/host/4/fourth"}) {
			t.Errorf("%d are struck, and %v are left", n, left)
		}
	})
}

// A follower says once in what it differs from its leader.
func TestDifferencesOfAFollower(t *testing.T) {
	in(t, func(s *scene) {
		s.run()
		s.says("nobody leads")
		s.lead(other)
		s.tells()
		s.says("the leader does not tell")
		for _, step := range []struct {
			leader string
			has    hashes // of the other one
			want   []string
		}{
			{other, hashes{"a": 1, "more": 1}, nil}, // what the leader has besides is no difference
			{other, hashes{"a": 2}, []string{followerDiffers}},
			{other, hashes{"a": 2}, nil},
			{"", hashes{"a": 2}, nil}, // what was said stands until a leader is known
			{"third", hashes{"a": 2}, nil},
			{other, hashes{"a": 2}, nil},
			{other, hashes{}, []string{followerDiffers}},
			{"", hashes{}, nil},
			{other, hashes{"a": 1}, []string{same}},
			{other, hashes{"a": 1}, nil},
			{"", hashes{}, nil},
			{other, hashes{"b": 1}, []string{followerDiffers}},
		} {
			s.enlist(other, "v2", step.has)
			s.lead(step.leader)
			s.tells()
			s.says(fmt.Sprint(step.leader, " leads, and the other has ", step.has), step.want...)
		}
	})
}

// A leader says once in what the others differ, and what it said as a follower is another thing.
func TestDifferencesOfALeader(t *testing.T) {
	in(t, func(s *scene) {
		s.run()
		for _, step := range []struct {
			leader string
			has    hashes // of the other one
			want   []string
		}{
			{me, hashes{"a": 1}, nil},
			{me, hashes{}, nil}, // what the leader has besides is no difference
			{me, hashes{"a": 2}, []string{leaderDiffers}},
			{me, hashes{"a": 2}, nil},
			{other, hashes{"a": 2}, []string{followerDiffers}},
			{me, hashes{"a": 2}, []string{leaderDiffers}},
			{me, hashes{"a": 1}, []string{same}},
			{me, hashes{"a": 1}, nil},
			{other, hashes{"a": 1}, nil},
		} {
			s.enlist(other, "v2", step.has)
			s.lead(step.leader)
			s.tells()
			s.says(fmt.Sprint(step.leader, " leads, and the other has ", step.has), step.want...)
		}
	})
}

// The line has the leader, the jobs, and the versions of those that live, each once.
func TestDifferencesInTheLog(t *testing.T) {
	for leader, want := range map[string]map[string]any{
		me:    {"leader": me, "not_led": int64(1), "jobs": []any{"b"}, "other_schedules": int64(1), "rescheduled": []any{"a"}, "versions": []any{"v1", "v2"}},
		other: {"leader": other, "not_led": int64(0), "jobs": []any{}, "other_schedules": int64(1), "rescheduled": []any{"a"}, "versions": []any{"v1", "v2"}},
	} {
		t.Run(leader, func(t *testing.T) {
			in(t, func(s *scene) {
				s.enlist(other, "v2", hashes{"a": 2, "b": 1})
				s.enlist("worker/host/0/early", "v2", hashes{"a": 1})
				s.enlist("worker/host/3/silent", "", hashes{"a": 1}) // it tells no version
				s.lead(leader)
				s.run()
				lines := s.log.All()
				if len(lines) != 1 || lines[0].Level != zap.WarnLevel {
					t.Fatalf("%v", lines)
				}
				if got := lines[0].ContextMap(); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%v, want %v", got, want)
				}
			})
		})
	}
}

// A leader asks each time whether the database is fit, and says once that it is not and once that it is again. What passes
// by itself, and what it cannot find out, it does not say.
func TestRecheck(t *testing.T) {
	in(t, func(s *scene) {
		var answer error
		asked := 0
		s.Check = func(ctx context.Context) error {
			asked++
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) != timeout {
				t.Errorf("it may take until %v", deadline)
			}
			return answer
		}
		s.run()
		s.lead(other)
		s.tells()
		if asked != 0 {
			t.Errorf("a follower asked %d times", asked)
		}
		s.lead(me)
		small, old := fmt.Errorf("%w: it is too small", lease.ErrSetup), fmt.Errorf("%w: it is too old", lease.ErrSetup)
		for i, step := range []struct {
			answer error
			want   []string
		}{
			{nil, nil},
			{lease.ErrNotReady, nil},
			{faulty.ErrLost, nil},
			{nil, nil},
			{small, []string{unfit}},
			{small, nil},
			{lease.ErrNotReady, nil},
			{faulty.ErrLost, nil},
			{small, nil},
			{old, []string{unfit}},
			{nil, []string{fit}},
			{nil, nil},
			{small, []string{unfit}},
		} {
			answer = step.answer
			s.tells()
			lines := s.says(fmt.Sprint("step ", i, ", ", step.answer), step.want...)
			if len(lines) == 1 && step.answer != nil && lines[0].ContextMap()["error"] != step.answer.Error() {
				t.Errorf("%v, want %v", lines, step.answer)
			}
			if asked != i+1 {
				t.Errorf("asked %d times in %d steps", asked, i+1)
			}
		}
	})
}

// A store that cannot be checked is not.
func TestNoCheck(t *testing.T) {
	in(t, func(s *scene) {
		s.lead(me)
		s.run()
		s.says("the leader of a store without a check")
	})
}

// What is to happen once the database has this replica happens then, and not before.
func TestTold(t *testing.T) {
	in(t, func(s *scene) {
		told := 0
		s.Told = func() { told++ }
		s.line.Only("Enlist", faulty.Fault{Err: faulty.ErrLost})
		s.run()
		if told > 0 {
			t.Error("told, and the database does not have it")
		}
		s.line.Heal()
		s.tells()
		if told == 0 {
			t.Error("not told")
		}
	})
}

// At its end a replica takes itself off the list, and nobody else.
func TestLeave(t *testing.T) {
	in(t, func(s *scene) {
		s.enlist(other, "v2", nil)
		s.run()
		s.stop()
		_, own := s.row(me)
		_, others := s.row(other)
		if own || !others || s.line.Count("Strike") != 1 {
			t.Errorf("there: itself %v, the other one %v, struck %d times", own, others, s.line.Count("Strike"))
		}
	})
}

// A replica that could never read the roster does not hold up its end for a statement that would fail too.
func TestLeaveWithoutHavingRead(t *testing.T) {
	in(t, func(s *scene) {
		s.line.Only("Roster", faulty.Fault{Err: faulty.ErrLost})
		s.run()
		s.stop()
		if n := s.line.Count("Strike"); n != 0 {
			t.Errorf("struck %d times", n)
		}
	})
}

// The last statement may take a moment, and no longer than others may. An end while another one is under way is no failure.
func TestLeaveWithoutAnAnswer(t *testing.T) {
	for may, want := range map[time.Duration]time.Duration{time.Hour: 2 * time.Second, time.Second: time.Second} {
		t.Run(may.String(), func(t *testing.T) {
			in(t, func(s *scene) {
				s.Timeout = may
				s.run()
				s.line.Hang()
				s.tells()
				before := time.Now()
				s.stop()
				if took := time.Since(before); took != want || s.line.Count("Strike") != 1 {
					t.Errorf("the end took %v", took)
				}
				s.says("it has ended")
			})
		})
	}
}
