package storetest

import (
	"slices"
	"sync"
	"testing"

	"github.com/cronlease/cronlease/internal/rounds"
)

// proof shows that a suite is worth something: each condition of a store has a
// case that fails without it, and each case can fail.
type proof[E any] struct {
	suite suite[E]
	flaws []string // the conditions that a flawed store lacks, one each
	// about returns the topic of a flaw or a case, by its name.
	about   func(name string) string
	harness func(flaw string) Harness
}

// On a busy machine a case may stop looking too soon: it gets several tries.
const tries = 6

func (p proof[E]) eachFlawFailsACase(t *testing.T) {
	each(t, share(t, p.flaws), same, func(t *testing.T, flaw string) {
		for _, c := range slices.Repeat(nearest(p.suite.cases, nameOf, p.about, flaw), tries) {
			if why := failure(t, p.suite, c, p.harness(flaw)); why != "" {
				t.Logf("found by %q: %.300s", c.name, why)
				return
			}
		}
		t.Errorf("no case fails on a store with the flaw %q", flaw)
	})
}

func (p proof[E]) eachCaseFindsAFlaw(t *testing.T) {
	each(t, share(t, p.suite.cases), nameOf, func(t *testing.T, c testCase[E]) {
		for _, flaw := range slices.Repeat(nearest(p.flaws, same, p.about, c.name), tries) {
			if why := failure(t, p.suite, c, p.harness(flaw)); why != "" {
				t.Logf("finds %q: %.300s", flaw, why)
				return
			}
		}
		t.Errorf("case %q finds none of the flaws", c.name)
	})
}

// share is a quarter of them, another one in each run; all with more rounds than `make
// test` does.
func share[T any](t *testing.T, all []T) []T { return rounds.Pick(t, all, (len(all)+3)/4) }

func nameOf[E any](c testCase[E]) string { return c.name }

func same(name string) string { return name }

// each runs a test for each element, several at once even on few processors: they
// mostly wait.
func each[T any](t *testing.T, all []T, name func(T) string, test func(t *testing.T, one T)) {
	t.Helper()
	turns := make(chan struct{}, 8)
	var tests sync.WaitGroup
	for _, one := range all {
		tests.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			t.Run(name(one), func(t *testing.T) { test(t, one) })
		})
	}
	tests.Wait()
}

// nearest puts those first that are about the same as name.
func nearest[T any](all []T, called func(T) string, about func(string) string, name string) []T {
	var near, far []T
	for _, one := range all {
		if about(called(one)) == about(name) {
			near = append(near, one)
		} else {
			far = append(far, one)
		}
	}
	return append(near, far...)
}
