package zkstore_test

import (
	"fmt"
	"testing"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// large returns a term whose ledger has that many runs of a hundred jobs.
func large(b *testing.B, runs int) *bench {
	b.Helper()
	l := newBench(b, shared.Addr(), fmt.Sprintf("/bench%d", names.Add(1)))
	for from := 0; from < runs; from += 500 {
		var claims []store.Claim
		for n := from; n < min(runs, from+500); n++ {
			k := at(n)
			k.Job = fmt.Sprint("job", n%100)
			claims = append(claims, store.Claim{Key: k, State: jobs.Skipped})
		}
		_, err := l.Claim(b.Context(), l.h, newID(), claims)
		l.ok(err)
	}
	return l
}

// A run is claimed and ends, beside a history.
func BenchmarkRun(b *testing.B) {
	for _, history := range []int{100, 10_000} {
		b.Run(fmt.Sprint("history=", history), func(b *testing.B) {
			l := large(b, history)
			for n := 0; b.Loop(); n++ {
				r := l.run(at(n))
				_, err := l.Move(b.Context(), l.h, []store.Move{moveOf(r, jobs.Succeeded)})
				l.ok(err)
			}
		})
	}
}

// A replica that knows nothing reads a ledger.
func BenchmarkFirstLoad(b *testing.B) {
	l := large(b, 10_000)
	for b.Loop() {
		b.StopTimer()
		other := open(b, shared.Addr(), fmt.Sprintf("/bench%d", names.Load()))
		if err := other.Check(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		_, err := other.Load(b.Context(), l.h.Group)
		l.ok(err)
	}
}

func BenchmarkBeat(b *testing.B) {
	l := newBench(b, shared.Addr(), fmt.Sprintf("/bench%d", names.Add(1)))
	for n := uint64(1); b.Loop(); n++ {
		beat, err := l.Beat(b.Context(), l.h.Owner, n+1, store.Renewal{Group: "group", Token: l.h.Token, Heartbeat: n}, 0)
		l.ok(err)
		if !beat.Renewed {
			b.Fatal("not renewed")
		}
	}
}
