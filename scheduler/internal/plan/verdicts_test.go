package plan

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/cronlease/cronlease/store"
)

const (
	works = store.JobWorks
	fails = store.JobFails
)

func TestRecoveries(t *testing.T) {
	t.Parallel()
	o := NewOrder(true)
	if !o.MayWrite() {
		t.Error("nothing is under way")
	}
	ranks := o.Send([]store.Verdict{works, works, fails, fails, works})
	for i, want := range []bool{true, false, false, false, true} {
		if ranks[i].Recovers != want {
			t.Errorf("end %d recovers: %v", i, ranks[i].Recovers)
		}
	}
	for i, p := range ranks {
		if o.MayWrite() {
			t.Errorf("before the answer to end %d", i)
		}
		o.Written(p, true)
	}
	if !o.MayWrite() || o.failed {
		t.Errorf("%+v", o)
	}
	if p := o.Send([]store.Verdict{works})[0]; p.Recovers {
		t.Error("a job that works recovers")
	}
}

// What the ledger has refused says nothing.
func TestRefusedEnd(t *testing.T) {
	t.Parallel()
	o := NewOrder(false)
	o.Written(o.Send([]store.Verdict{fails})[0], false)
	if p := o.Send([]store.Verdict{works}); p[0].Recovers {
		t.Error("a failure that was refused is recovered from")
	} else {
		o.Written(p[0], true)
	}
	o = NewOrder(false)
	o.Written(o.Send([]store.Verdict{fails})[0], true)
	if p := o.Send([]store.Verdict{works}); !p[0].Recovers {
		t.Error("a failure that was written is not recovered from")
	}
}

// An end that was set aside holds up no others, and its verdict counts only as long as no later one is written.
func TestEndSetAside(t *testing.T) {
	t.Parallel()
	o := NewOrder(false)
	first := o.Send([]store.Verdict{fails})[0]
	o.SetAside(&first)
	o.SetAside(&first) // again
	if !o.MayWrite() || !o.Counts(first) {
		t.Errorf("%+v", o)
	}
	second := o.Send([]store.Verdict{works})[0]
	if !second.Recovers || o.MayWrite() || !o.Counts(first) {
		t.Errorf("%+v, %+v", second, o)
	}
	o.Written(second, true)
	if o.Counts(first) || !o.Counts(second) || o.failed {
		t.Errorf("%+v", o)
	}
	o.Written(first, true)
	if o.failed || o.written != second.number || !o.MayWrite() || o.stuck != 0 {
		t.Errorf("%+v", o)
	}
	third := o.Send([]store.Verdict{works})[0]
	if third.Recovers {
		t.Error("an end that was overtaken says nothing")
	}
}

// Whatever is set aside, refused or overtaken, the verdict that stands is that of the latest end that was written.
func TestOrderProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := NewOrder(rapid.Bool().Draw(t, "failing"))
		ledger, newest := o.failed, 0 // what the ledger has of the job
		var under, aside []Rank
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(under) == 0 && o.MayWrite() {
				var verdicts []store.Verdict
				for range rapid.IntRange(1, 3).Draw(t, "ends") {
					verdicts = append(verdicts, rapid.SampledFrom([]store.Verdict{works, fails}).Draw(t, "verdict"))
				}
				under = o.Send(verdicts)
			}
			write := func(p Rank) {
				moved := rapid.Bool().Draw(t, "moved")
				if moved && o.Counts(p) {
					ledger = !p.works
				}
				if moved {
					newest = max(newest, p.number)
				}
				o.Written(p, moved)
			}
			switch {
			case len(under) > 0 && rapid.Bool().Draw(t, "aside"):
				o.SetAside(&under[0])
				aside, under = append(aside, under[0]), under[1:]
			case len(under) > 0:
				write(under[0])
				under = under[1:]
			case len(aside) > 0:
				write(aside[0])
				aside = aside[1:]
			}
			if o.failed != ledger || o.written != newest || o.MayWrite() != (len(under) == 0) || o.stuck != len(aside) {
				t.Fatalf("%+v: the ledger has %v, of %d", o, ledger, newest)
			}
		}
	})
}
