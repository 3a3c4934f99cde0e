package torture

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

var (
	length = flag.Duration("torture.for", 0, "how long each kind of database is tortured; 0: not at all, there is make torture for that")
	on     = flag.String("torture.on", strings.Join(kinds, ","), "the kinds of database")
	seed   = flag.Uint64("torture.seed", 0, "the seed of the first round of each kind; 0: by the time")
	span   = flag.Duration("torture.round", 150*time.Second, "how long a round lasts before its history is checked")
	only   = flag.String("torture.faults", "", "a regular expression: only faults whose kind matches it")
	mode   = flag.String("torture.mode", "both", "who runs the jobs: leader, spread, or by chance one of both in each round")
	keep   = flag.String("torture.keep", "", "a folder for the histories of all rounds; those with a violation are kept in any case")
)

// wanted are the kinds of faults that were asked for.
var wanted = regexp.MustCompile("")

// tally is what happened on one kind of database.
type tally struct {
	rounds  int
	seeds   []uint64
	count   map[string]int
	bit     map[string]int
	backs   []back
	summary Summary
	wrong   []string
}

// Real players on real servers, real faults, and a check of all that was recorded: see the package.
func TestTorture(t *testing.T) {
	t.Parallel()
	if *length == 0 {
		return
	}
	wanted = regexp.MustCompile(*only)
	first := *seed
	if first == 0 {
		first = uint64(time.Now().Unix()) //nolint:gosec // it is positive
	}
	for _, kind := range strings.Split(*on, ",") {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			total := &tally{count: map[string]int{}, bit: map[string]int{}}
			end := time.Now().Add(*length)
			const enough = 5 // failed rounds
			for n, failed := first, 0; failed < enough && (total.rounds == 0 || time.Until(end) > *span/3); n++ {
				left := min(time.Until(end), *span)
				if !t.Run(fmt.Sprint("seed=", n), func(t *testing.T) { play(t, kind, n, left, total) }) {
					failed++
				}
			}
			total.print(t)
			// A round ends while the second or third chance of a fault is still to come.
			const chances = 3
			for name, n := range total.count {
				if total.bit[name] == 0 && n >= chances {
					t.Errorf("%q happened %d times and had no effect: it proves nothing", name, n)
				}
			}
		})
	}
}

// play plays one round of about that length.
func play(t *testing.T, kind string, seed uint64, length time.Duration, total *tally) {
	total.rounds++
	total.seeds = append(total.seeds, seed)
	begin := time.Now()
	r := newRound(t, kind, seed)
	until := time.Now().Add(max(length-time.Since(begin), *span/3)) // the servers may take long to start
	for _, s := range r.slots {
		s.start()
	}
	if !r.settle("the start", patience) {
		r.broken("no run within %v of the start", patience)
	}
	r.backs = nil // that was none
	from := time.Now()
	r.torture(until, total)
	to := r.calm()
	history, err := r.history(t.Context(), from, to)
	total.backs = append(total.backs, r.backs...)
	if err != nil {
		r.broken("the history cannot be checked: %v", err)
	} else {
		summary, violations := Check(history)
		total.summary.Add(summary)
		for _, v := range violations {
			t.Errorf("%v", v)
			total.wrong = append(total.wrong, v.What)
		}
	}
	for _, trouble := range r.troubles {
		t.Errorf("not as expected: %s", trouble)
		total.wrong = append(total.wrong, trouble)
	}
	if t.Failed() || *keep != "" {
		t.Logf("the history: %s", r.save(t, history))
	}
}

// torture lets faults happen: each kind once, by itself, and again while it has had no effect; then two at a time.
func (r *round) torture(until time.Time, total *tally) {
	d := r.database
	lateAt := time.Now().Add(time.Until(until) * 2 / 3)
	var waiting []fault
	// take takes the first one that may happen now and that fits.
	take := func(fits func(fault) bool) (fault, bool) {
		i := slices.IndexFunc(waiting, func(f fault) bool { return fits(f) && (f.may == nil || f.may(r)) })
		if i < 0 {
			return fault{}, false
		}
		f := waiting[i]
		waiting = slices.Delete(waiting, i, i+1)
		return f, true
	}
	for time.Now().Before(until) && !r.t.Failed() {
		if f, is := d.late(); is && time.Now().After(lateAt) {
			r.strike(total, f)
			continue
		}
		f, ok := take(func(fault) bool { return true })
		if !ok {
			waiting = deck(d, r.random)
			continue
		}
		struck := []fault{f}
		if total.bit[f.name] > 0 && r.random.IntN(2) == 0 {
			if g, ok := take(func(g fault) bool { return g.class != f.class && total.bit[g.name] > 0 }); ok {
				struck = append(struck, g)
			}
		}
		r.strike(total, struck...)
		if total.bit[f.name] == 0 {
			waiting = append(waiting, f)
		}
	}
	// What has had no effect yet gets another chance: chance decides how long a fault lasts.
	for _, f := range deck(d, r.random) {
		for try := 0; try < 5 && total.count[f.name] > 0 && total.bit[f.name] == 0 && !r.t.Failed(); try++ {
			r.strike(total, f)
		}
	}
}

// strike injects the faults at the same time, and waits until a leader is back after the last one.
func (r *round) strike(total *tally, struck ...fault) {
	bits := make([]func() bool, len(struck))
	var work sync.WaitGroup
	for i, f := range struck {
		random := rand.New(rand.NewPCG(r.random.Uint64(), 0))
		work.Go(func() {
			r.note(Inject, f.name)
			bits[i] = f.do(r, random)
			r.note(Heal, f.name)
		})
	}
	work.Wait()
	// TTL + 1 s, the next tick, and twice as much again for a machine that is busy.
	limit := 3 * (r.ttl + 2*time.Second)
	if r.database.isGalera() {
		limit = patience // its nodes have to find each other first
	}
	r.mu.Lock()
	limit += max(0, time.Until(r.denied))
	r.mu.Unlock()
	names := make([]string, len(struck))
	for i, f := range struck {
		names[i] = f.name
	}
	if after := strings.Join(names, ", and "); !r.settle(after, limit) {
		r.t.Errorf("no leader was back within %v of %s", limit, after)
	}
	for i, f := range struck {
		total.count[f.name]++
		if bits[i]() {
			total.bit[f.name]++
		}
	}
}

// calm ends the round: all that is due gets done, and the players end. It returns up to which tick that is.
func (r *round) calm() time.Time {
	to := time.Now().Add(-time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.over(ctx, to); err != nil {
		r.broken("%v after the last fault: %v", patience, err)
	}
	var ends sync.WaitGroup
	for _, s := range r.slots {
		ends.Go(s.terminate)
	}
	ends.Wait()
	r.work.Wait()
	return to
}

// save writes the history into a file.
func (r *round) save(t *testing.T, h History) string {
	t.Helper()
	folder := *keep
	if folder == "" {
		folder = os.TempDir()
	}
	path := filepath.Join(folder, strings.NewReplacer("/", "-", "=", "-").Replace("cronlease-"+t.Name())+".json")
	text, err := json.Marshal(h)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
	return path
}

// print prints what happened.
func (total *tally) print(t *testing.T) {
	t.Helper()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	faults, kinds := 0, []string{}
	for name, n := range total.count {
		faults += n
		kinds = append(kinds, name)
	}
	slices.Sort(kinds)
	fmt.Fprintf(w, "\n%d rounds, seeds %d to %d, %d faults\n", total.rounds, total.seeds[0], total.seeds[len(total.seeds)-1], faults)
	fmt.Fprintln(w, "fault\tcount\thad an effect")
	for _, name := range kinds {
		fmt.Fprintf(w, "%s\t%d\t%d\n", name, total.count[name], total.bit[name])
	}
	_ = w.Flush() // into memory
	slices.SortFunc(total.backs, func(a, b back) int { return cmp.Compare(a.took, b.took) })
	if n := len(total.backs); n > 0 {
		at := func(i int) time.Duration { return total.backs[i].took.Round(time.Millisecond) }
		fmt.Fprintf(&text, "from the healing of a fault to the next run: p50 %v, p99 %v\n", at(n/2), at(n*99/100))
		for i := n - 1; i >= 0 && i >= n-3; i-- {
			fmt.Fprintf(&text, "\t%v after %s\n", at(i), total.backs[i].after)
		}
	}
	fmt.Fprintf(&text, "%v\n", total.summary)
	for _, wrong := range total.wrong { // once more, for readers who see only the end
		fmt.Fprintf(&text, "wrong: %s\n", wrong)
	}
	t.Log(text.String())
}
