package simulation_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/scheduler"

	"github.com/cronlease/cronlease/jobs"
)

// nemesis decides what goes wrong in one bubble. One goroutine owns it. Times of
// trouble and of calm alternate. After each trouble:
//
//   - there is a leader within TTL + 1 s of all being whole again.
//
// While it is calm:
//
//   - no other replica takes the lease;
//   - no tick that is due is left alone, and no run that has ended is open;
//   - a leader that crashes is followed within TTL + 1 s, and so is the return of
//     the database.
type nemesis struct {
	w        *world
	t        *testing.T
	rng      *rand.Rand
	spread   bool // the group begins with runs on all replicas, and may be switched
	mode     bool // that of replicas which start: whether runs are spread
	fast     bool
	replicas []*replica
	target   *release // what is deployed
	old      *release // what was before, and still runs here and there

	backups   []func()
	lateUntil time.Time // when the last late statement has run; of w.mu
	noStart   time.Time // until then no replica may start, see lose
	odd       bool      // this round had an event for which TTL + 1 s is not promised
	direction int       // of the last step of the database's clock
	turned    time.Time // when it was
	lost      time.Duration
	calmly    bool // clocks are right
}

// soon is TTL + 1 s, by clocks that are slow.
const soon = ttl + ttl/50 + time.Second

func newNemesis(t *testing.T, seed uint64, spread bool) *nemesis {
	rng := rand.New(rand.NewPCG(seed, 0))
	n := &nemesis{w: newWorld(t, slowness(rng)), t: t, rng: rng, spread: spread, mode: spread, fast: rng.IntN(8) == 0}
	if rng.IntN(3) == 0 {
		// Clocks have one rate here, so that what differs was set.
		n.w.limit, n.w.slow = []time.Duration{2 * time.Second, 10 * time.Second, time.Minute, 4 * time.Minute}[rng.IntN(4)], 0
	}
	n.target = newRelease(rng, 4+rng.IntN(6), n.fast)
	n.old = n.target
	n.know(n.target)
	for range 3 {
		n.start()
	}
	return n
}

// slowness is by which part a clock is slow: as far apart as two clocks may be,
// as often as not.
func slowness(rng *rand.Rand) float64 {
	switch rng.IntN(4) {
	case 0:
		return 0
	case 1:
		return 0.01
	}
	return rng.Float64() * 0.01
}

func (n *nemesis) know(r *release) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.w.rows.schedules[notifies.String()] = notifies
	for _, j := range r.jobs {
		n.w.rows.schedules[jobs.ShardsSchedule(j.Name).String()] = jobs.Manual()
		n.w.rows.schedules[j.Schedule.String()] = j.Schedule
	}
}

func (n *nemesis) start() {
	if wait := time.Until(n.noStart); wait > 0 {
		time.Sleep(wait)
	}
	rel := n.target
	if n.rng.IntN(4) == 0 {
		rel = n.old
	}
	wrong := n.span(time.Second)
	if n.rng.IntN(4) == 0 {
		wrong = n.span(20*time.Minute) - 10*time.Minute
	}
	slow := slowness(n.rng)
	if n.w.limit > 0 {
		slow, wrong = 0, n.wrong()
	}
	r := startReplica(n.w, newHost(slow, wrong), rel, n.mode, rand.New(rand.NewPCG(n.rng.Uint64(), 1)))
	n.replicas = append(n.replicas, r)
	n.w.count("started")
	n.w.note("%s starts, release %d, spread %v, clocks slow by %v and wrong by %v", by(r.Owner()), rel.number, n.mode, slow, wrong)
}

// wrong is by how much a host's clock is set wrongly where there is a limit: by less
// than counts, or by much more.
func (n *nemesis) wrong() time.Duration {
	limit := n.w.limit
	switch {
	case n.calmly:
		return 0
	case n.rng.IntN(3) > 0:
		return n.span(limit) - limit/2
	}
	by := 2*limit + n.span(10*time.Minute-2*limit)
	if n.rng.IntN(2) == 0 {
		by = -by
	}
	return by
}

func (n *nemesis) span(most time.Duration) time.Duration {
	return time.Duration(n.rng.Int64N(int64(most)))
}

// tidy forgets replicas that have ended.
func (n *nemesis) tidy() {
	n.replicas = slices.DeleteFunc(n.replicas, (*replica).isOver)
}

// well are the replicas that are to stay.
func (n *nemesis) well() []*replica {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.replicas), func(r *replica) bool { return r.dead || !r.left.IsZero() })
}

// victim is the leader, as often as not.
func (n *nemesis) victim() *replica {
	if n.rng.IntN(2) == 0 {
		for _, r := range n.replicas {
			if r.State().Role == election.Leading {
				return r
			}
		}
	}
	return n.replicas[n.rng.IntN(len(n.replicas))]
}

// events are what can happen, each with how often it comes.
var events = map[string]int{
	"cut": 5, "denied": 3, "all denied": 1, "fading": 8, "hung": 5, "lossy": 10, "all cut": 2, "all hung": 2, "all lossy": 3, "healed": 5,
	"killed": 4, "killed in between": 6, "shut down": 3, "resigned": 2,
	"stopped": 4, "asleep": 3, "frozen": 4, "stopped in between": 4, "frozen in between": 2,
	"signal cut": 4, "restarted": 2, "stepped": 5, "host stepped": 3, "log blocked": 3,
	"backup": 4, "failed over": 3, "promoted": 5, "lease deleted": 1, "group deleted": 1,
	"switched": 2, "paused": 2, "triggered": 3, "cancelled": 2, "deployed": 3, "rolled": 4, "rolled back": 1,
}

func (n *nemesis) event() {
	total := 0
	for _, weight := range events {
		total += weight
	}
	at := n.rng.IntN(total)
	for _, name := range slices.Sorted(maps.Keys(events)) {
		if at -= events[name]; at < 0 {
			if name == "switched" && !n.spread {
				return
			}
			victim := n.victim()
			n.w.note("%s is to be %s", by(victim.Owner()), name)
			if n.do(name, victim) {
				n.w.count(name)
			}
			return
		}
	}
}

// live lets trouble and calm alternate for a time.
func (n *nemesis) live(length time.Duration) {
	for time.Since(n.w.began) < length && !n.t.Failed() {
		for again := true; again && !n.t.Failed(); again = n.rng.IntN(4) > 0 {
			n.trouble()
			n.heal()
			n.leads("all was whole again")
		}
		n.calm()
	}
}

func (n *nemesis) trouble() {
	n.odd, n.calmly = false, false
	n.w.note("trouble")
	for range 1 + n.rng.IntN(8) {
		n.tidy()
		if len(n.replicas) == 0 || n.rng.IntN(10) == 0 && len(n.replicas) < 6 {
			n.start()
		}
		synctest.Wait()
		n.event()
		time.Sleep(n.span(15 * time.Second))
	}
}

// heal ends all faults: at least two replicas, none of which stops, and no late statements.
func (n *nemesis) heal() {
	n.w.note("all is made whole")
	synctest.Wait()
	for _, r := range n.replicas {
		r.link.heal()
		r.log.free()
		r.wake()
		if n.rng.IntN(2) == 0 && !n.justWoke(r) {
			r.host.correct()
		}
	}
	n.settle()
	well := n.well()
	for len(well) < 2 {
		n.start()
		well = n.well()
	}
	for _, r := range n.replicas {
		if !slices.Contains(well, r) {
			<-r.done
		}
	}
	n.tidy()
	for len(n.replicas) < 2 {
		n.start()
	}
	n.correct()
	// By then, unanswered statements have timed out.
	n.w.mu.Lock()
	late := n.lateUntil
	n.w.mu.Unlock()
	time.Sleep(max(time.Until(late), ttl/5) + time.Millisecond)
}

// settle ends a switch of the mode: the group has that of the replicas that start, and each other one is replaced.
func (n *nemesis) settle() {
	if !n.spread {
		return
	}
	s, err := n.w.Store.Load(n.t.Context(), group)
	if err == nil && s.Opened.Token != 0 && s.Opened.Spread != n.mode { // rows went back
		n.odd = true
		n.w.note("the mode is set to %v: %v", n.mode, n.w.SetSpread(n.t.Context(), group, n.mode))
	}
	for _, r := range n.well() {
		if r.mode != n.mode {
			n.odd = true // none may lead until the new ones have started
			r.stop()
			n.start()
		}
	}
}

// correct sets all clocks right where there is a limit to what they may differ by,
// when all have seen that they did.
func (n *nemesis) correct() {
	if n.w.limit == 0 {
		return
	}
	n.odd = true
	time.Sleep(max(ttl+grace+time.Millisecond, time.Until(n.turned.Add(3*ttl+10*time.Second))))
	for _, r := range n.replicas {
		if errors.Is(r.Health().Database, scheduler.ErrSkew) {
			n.w.count("stands back")
		}
		r.host.correct()
	}
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if n.w.stepped == 0 {
		return
	}
	n.direction, n.turned = 1, time.Now()
	if n.w.stepped > 0 {
		n.direction = -1
	}
	n.w.stepped = 0
}

// justWoke reports that a wall clock is not to be set now, see [host.stand].
func (n *nemesis) justWoke(r *replica) bool {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return r.justWoke()
}

// leads waits for a leader, for as long as that may take.
func (n *nemesis) leads(since string) {
	bound := soon
	if n.odd {
		bound = 5 * ttl
	}
	time.Sleep(bound)
	synctest.Wait()
	switch leaders := n.w.leaders(); {
	case len(leaders) > 1:
		n.w.failf("%d leaders", len(leaders))
	case len(leaders) == 0:
		for _, r := range n.replicas {
			n.w.note("%s: %+v", by(r.Owner()), r.Health())
		}
		n.w.failf("no leader, %v after %s (odd: %v)", bound, since, n.odd)
	case n.odd:
		n.w.count("in the end")
	default:
		n.w.count("in time: " + since)
	}
	n.odd = false
	n.answer()
	n.calmly = true
}

// answer plays the operator: after a message that the ledger went back, it decides
// how to go on. Replicas find out one after the other, and each may pause the group.
func (n *nemesis) answer() {
	for _, r := range n.replicas {
		if r.State().Role != election.Leading || !errors.Is(r.Health().Leader, scheduler.ErrRestored) {
			continue
		}
		resume, what := n.w.Resume, "resumed after a restore"
		if n.rng.IntN(2) == 0 {
			resume, what = n.w.ResumeSkipping, "resumed after a restore, skipping"
		}
		if resume(n.t.Context(), group, "") == nil {
			n.w.count(what)
		}
	}
}

// calm lets time pass in peace, and then has one thing happen in it.
func (n *nemesis) calm() {
	time.Sleep(2 * time.Minute)
	restore := n.w.backup()
	n.w.mu.Lock()
	before, acquired := n.w.rows.clone(), n.w.counts["acquired"]
	n.w.peace = true
	n.w.mu.Unlock()
	most := 3 * time.Hour
	if n.fast {
		most = 10 * time.Minute
	}
	time.Sleep(n.span(most))
	synctest.Wait()
	n.w.mu.Lock()
	n.w.peace = false
	if n.w.counts["acquired"] != acquired {
		n.w.failf("a lease was taken while all was well")
	}
	n.w.mu.Unlock()
	n.dealtWith()
	n.tidy()
	if n.t.Failed() {
		return
	}
	switch leader := n.w.leaders()[0]; n.rng.IntN(6) {
	case 0, 1:
		leader.kill()
		n.leads("the leader crashed")
	case 2:
		n.away(2 * time.Minute)
		n.leads("the database was back")
	case 3:
		n.restored(before, restore)
	case 4:
		for _, r := range n.replicas {
			r.kill()
		}
		time.Sleep(n.span(6 * time.Hour))
		for range 2 {
			n.start()
		}
		n.leads("all had crashed")
	}
}

// restored restores a backup while all is well, and checks that a replica notices, also where
// that has happened before, however it was answered.
func (n *nemesis) restored(before *books, restore func()) {
	n.w.mu.Lock()
	counts, pauses := n.w.limit == 0 && n.w.rows.countsAgainst(before), n.w.counts["paused by a scheduler"]
	n.w.mu.Unlock()
	if !counts || !n.lose(n.rng.IntN(2) == 0, restore) {
		return
	}
	time.Sleep(5 * ttl)
	synctest.Wait()
	s, err := n.w.Store.Load(n.t.Context(), group)
	n.w.mu.Lock()
	isAnswered := n.w.counts["paused by a scheduler"] > pauses // by chance: an operator ends a pause of before
	n.w.mu.Unlock()
	if err != nil || !s.Paused && !isAnswered {
		n.w.failf("no replica has noticed a restore: %v", err)
		return
	}
	n.w.count("a restore was noticed")
	n.leads("a restore")
}

// away has the database away for a while.
func (n *nemesis) away(most time.Duration) {
	for _, r := range n.replicas {
		r.link.always(func() fault { return fault{name: "away", Fault: faulty.Fault{Err: errLink}} })
	}
	time.Sleep(n.span(most))
	for _, r := range n.replicas {
		r.link.heal()
	}
}

// end ends all faults, checks that nothing is left, and stops all replicas.
func (n *nemesis) end() {
	for _, job := range append(n.names(), "") {
		_ = n.w.Resume(n.t.Context(), group, job) // the ledger may not know it
	}
	n.old = n.target
	for _, r := range slices.Clone(n.replicas) { // all have the same release
		synctest.Wait()
		r.stop()
		<-r.done
		n.start()
	}
	n.tidy()
	synctest.Wait()
	for _, r := range n.replicas {
		r.host.correct()
	}
	n.w.mu.Lock()
	n.w.stepped = time.Duration(float64(time.Since(n.w.began)) * n.w.slow)
	n.w.mu.Unlock()
	if !n.t.Failed() {
		time.Sleep(8 * time.Hour)
		synctest.Wait()
		n.dealtWith()
		n.over()
	}
	for _, r := range n.replicas {
		r.stop()
	}
	for _, r := range n.replicas {
		<-r.done
	}
	time.Sleep(2 * time.Minute) // what is late
}

func (n *nemesis) names() (names []string) {
	for _, j := range n.target.jobs {
		names = append(names, j.Name)
	}
	return names
}
