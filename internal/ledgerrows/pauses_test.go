package ledgerrows_test

import (
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
)

func TestParsePauses(t *testing.T) {
	t.Parallel()
	at := func(n int64) time.Time { return time.UnixMicro(1_700_000_000_000_000 + n).UTC() }
	const (
		one   = "01700000000000000-01700000000000001,"
		two   = "01700000000000002-01700000000000003,"
		open  = "01700000000000004-"
		older = "00000000000000000-01700000000000001,"
	)
	for _, test := range []struct {
		text   string
		paused bool
		want   []jobs.Pause
	}{
		{"", false, nil},
		{one + two, false, []jobs.Pause{{Began: at(0), Ended: at(1)}, {Began: at(2), Ended: at(3)}}},
		{one + open, true, []jobs.Pause{{Began: at(0), Ended: at(1)}, {Began: at(4)}}},
		{older, false, []jobs.Pause{{Ended: at(1)}}},
		// Paused or resumed by a program that does not keep the list.
		{"", true, []jobs.Pause{{}}},
		{one, true, []jobs.Pause{{Began: at(0), Ended: at(1)}, {}}},
		{one + open, false, []jobs.Pause{{Began: at(0), Ended: at(1)}}},
	} {
		if got := ledgerrows.ParsePauses(test.text, test.paused); !slices.Equal(got, test.want) {
			t.Errorf("%q, paused %t: %v, want %v", test.text, test.paused, got, test.want)
		}
		if again := ledgerrows.ParsePauses(ledgerrows.FormatPauses(test.want), test.paused); !slices.Equal(again, test.want) {
			t.Errorf("%v is written and read as %v", test.want, again)
		}
	}
	if len(one) != ledgerrows.PausesWidth {
		t.Errorf("a pause has %d bytes, not %d", len(one), ledgerrows.PausesWidth)
	}
}
