package jobs_test

import (
	"cmp"
	"context"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/jobs"
)

// A group names the actor that has paused it, also when much was asked of its jobs since.
func TestPausedBy(t *testing.T) {
	t.Parallel()
	via := map[string]jobs.Via{"scheduler": jobs.ViaScheduler}
	for _, test := range []struct {
		asked []string // who, what, and of which job
		want  string
	}{
		{nil, ""},
		{[]string{"alice pause a"}, ""},
		{[]string{"alice pause", "bob resume a"}, "alice"},
		{[]string{"alice pause", "bob pause"}, "alice"}, // it was paused already
		{[]string{"alice pause", "bob resume"}, ""},
		{[]string{"alice pause", "bob skip"}, ""},
		{[]string{"alice pause", "bob resume", "bob pause"}, "bob"},
		{[]string{"alice pause", "scheduler pause"}, "scheduler"}, // it was paused already, and is to stay so
		{[]string{"scheduler pause", "alice pause"}, "scheduler"},
		{[]string{"scheduler pause", "alice resume"}, ""},
		{[]string{"scheduler pause a"}, ""},
		{append([]string{"alice pause"}, strings.Split(strings.Repeat("bob pause a,bob resume a,", 1000), ",")[:1999]...), "alice"},
	} {
		g := led(t, "a")
		for _, asked := range test.asked {
			who, what, _ := strings.Cut(asked, " ")
			what, job, _ := strings.Cut(what, " ")
			does := map[string]func(context.Context, string) error{"pause": g.Pause, "resume": g.Resume, "skip": g.ResumeSkipping}[what]
			if err := does(jobs.WithActor(t.Context(), jobs.Actor{Name: who, Via: via[who]}), job); err != nil {
				t.Fatal(err)
			}
		}
		by, err := g.PausedBy(t.Context())
		if by.Name != test.want || test.want != "" && by.Via != cmp.Or(via[test.want], jobs.ViaAPI) || err != nil {
			t.Errorf("after %.100q: %+v, %v, want %q", test.asked, by, err, test.want)
		}
	}
}
