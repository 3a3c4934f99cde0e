package rounds_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/rounds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOf(t *testing.T) {
	for text, want := range map[string]int{"": 3, "1": 3, "20": 60} {
		t.Setenv("CRONLEASE_ROUNDS", text)
		if got := rounds.Of(t, 3); got != want {
			t.Errorf("CRONLEASE_ROUNDS=%s: %d rounds, want %d", text, got, want)
		}
	}
}

func TestSeedsDifferAndAreReplayed(t *testing.T) {
	t.Setenv("CRONLEASE_ROUNDS", "2")
	t.Setenv("CRONLEASE_SEED", "")
	seeds := append(rounds.Seeds(t, 30), rounds.Seed(t))
	slices.Sort(seeds)
	if n := len(slices.Compact(seeds)); n != 21 && n != 61 { // with the race detector and without
		t.Errorf("%d different seeds", n)
	}
	t.Setenv("CRONLEASE_SEED", "18446744073709551615")
	if seeds, seed := rounds.Seeds(t, 5), rounds.Seed(t); len(seeds) != 1 || seeds[0] != 1<<64-1 || seed != 1<<64-1 {
		t.Errorf("got %d and %d, want the given seed alone", seeds, seed)
	}
}

func TestPick(t *testing.T) {
	t.Setenv("CRONLEASE_SEED", "")
	all := []string{"a", "b", "c", "d"}
	picked := map[string]int{}
	for range 1000 {
		some := rounds.Pick(t, all, 2)
		if len(some) != 2 || !slices.IsSorted(some) {
			t.Fatalf("picked %q, want two in their order", some)
		}
		picked[some[0]+some[1]]++
	}
	if len(picked) != 6 {
		t.Errorf("picked %v, want all pairs", picked)
	}
	t.Setenv("CRONLEASE_ROUNDS", "2")
	if some := rounds.Pick(t, all, 2); !slices.Equal(some, all) {
		t.Errorf("picked %q in two rounds, want all", some)
	}
}

func TestWhatIsNoNumberFails(t *testing.T) {
	for variable, text := range map[string]string{"CRONLEASE_ROUNDS": "0", "CRONLEASE_SEED": "-1"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, text)
			f := &failing{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				rounds.Seeds(f, 1)
			}()
			<-done
			if f.text == "" {
				t.Errorf("%s=%s is taken", variable, text)
			}
		})
	}
}

// failing is a test that notes how it fails.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
