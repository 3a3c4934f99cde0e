package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/memstore"
)

var noon = time.Date(2027, 3, 15, 12, 0, 0, 0, time.UTC)

func TestFormats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want string }{
		{took(0), "<1 ms"}, {took(340 * time.Millisecond), "340 ms"}, {took(1250 * time.Millisecond), "1.2 s"}, {took(59 * time.Second), "59 s"},
		{took(2*time.Minute + 5*time.Second), "2 min 5 s"}, {took(3 * time.Hour), "3 h"}, {took(50 * time.Hour), "2 d 2 h"}, {took(-time.Second), "−1 s"},
		{ago(noon, noon.Add(-90*time.Second)), "1 min ago"}, {ago(noon, noon.Add(90*time.Second)), "in 1 min"}, {ago(noon, noon), "now"},
		{instant(noon, noon.Add(-time.Hour)), "11:00:00"}, {instant(noon, noon.Add(-24*time.Hour)), "Mar 14 12:00"}, {instant(noon, noon.AddDate(-1, 0, 0)), "2026-03-15 12:00"},
		{instant(noon, time.Time{}), "–"}, {count(1234567), "1\u2009234\u2009567"}, {count(-1000), "−1\u2009000"}, {count(7), "7"},
		{shortOwner("web/host/1/abc"), "web/host/1"}, {visible("a\u202eb\x00\xff\n"), "a\\u202eb\\u0000\\xff\n"}, {visible("alice\u3164"), "alice\\u3164"}, {oneLine("\n one\ntwo\n"), " one two"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// What a request asks for in vain is the default, and no link leads further than the present.
func TestSpan(t *testing.T) {
	t.Parallel()
	end := noon.Add(-time.Hour)
	s := readSpan(url.Values{"zoom": {"6h"}, "end": {"1805104800000000"}}, noon)
	if s.follows || !s.to.Equal(time.UnixMicro(1805104800000000)) || s.to.Sub(s.from) != 6*time.Hour {
		t.Errorf("%+v", s)
	}
	for _, wrong := range []string{"", "x", "-1", "99999999999999999", "9223372036854775807"} {
		if s := readSpan(url.Values{"zoom": {wrong}, "end": {wrong}}, noon); !s.follows || s.zoom != defaultZoom || !s.to.After(noon) || s.at(noon) < 90 {
			t.Errorf("%q: %+v", wrong, s)
		}
	}
	s = span{from: end.Add(-time.Hour), to: end, zoom: 2}
	if to, follows := s.zoomed(0, noon); follows || to.Sub(end) != -29*time.Minute-30*time.Second {
		t.Errorf("a minute in the middle ends at %v, follows %v", to, follows)
	}
	if _, follows := s.zoomed(4, noon); !follows {
		t.Error("a day around the middle ends after now, and does not follow it")
	}
}

func TestLateness(t *testing.T) {
	t.Parallel()
	of := func(change func(r *jobs.Record)) jobs.Record {
		r := jobs.Record{Key: jobs.Key{Job: "a", Tick: noon}, State: jobs.Succeeded, Attempt: 1, Claimed: noon, Started: noon, Finished: noon.Add(time.Minute)}
		change(&r)
		return r
	}
	for _, c := range []struct {
		name string
		r    jobs.Record
		late time.Duration
	}{
		{"on time", of(func(*jobs.Record) {}), 0},
		{"a little", of(func(r *jobs.Record) { r.Started = noon.Add(5 * time.Second) }), 0},
		{"late", of(func(r *jobs.Record) { r.Claimed, r.Started = noon.Add(17*time.Second), noon.Add(17*time.Second) }), 17 * time.Second},
		{"put off by its jitter", of(func(r *jobs.Record) { r.Due, r.Started = noon.Add(time.Minute), noon.Add(time.Minute) }), 0},
		{"in its third attempt", of(func(r *jobs.Record) { r.Attempt, r.Started = 3, noon.Add(time.Hour) }), 0},
		{"triggered", of(func(r *jobs.Record) { r.Trigger, r.Started = 1, noon.Add(time.Hour) }), 0},
		{"skipped", of(func(r *jobs.Record) { r.State, r.Claimed = jobs.Skipped, noon.Add(time.Hour) }), 0},
	} {
		late, is := lateBy(c.r)
		if is != (c.late > 0) || is && late != c.late {
			t.Errorf("%s: %v, %v", c.name, late, is)
		}
	}
}

// Each state has a glyph and a class of its own, so that colour is never all that tells them apart.
func TestMarksDiffer(t *testing.T) {
	t.Parallel()
	text, err := files.ReadFile("templates/glyphs.html")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]jobs.State{}
	for s := jobs.Running; s <= jobs.Interrupted; s++ {
		m := markOf(s)
		if before, ok := seen[m.Mark]; ok {
			t.Errorf("%v and %v have the same glyph", before, s)
		}
		seen[m.Mark] = s
		if !strings.Contains(string(text), `<g id="m-`+m.Mark+`">`) {
			t.Errorf("%v: there is no glyph %q", s, m.Mark)
		}
	}
}

// Where there are many runs they are counted, and what went wrong in a part is drawn even if it is one of thousands.
func TestHeapsShowTrouble(t *testing.T) {
	t.Parallel()
	s := readSpan(url.Values{"zoom": {"1d"}}, noon)
	h := heap{from: noon.Add(-time.Hour), to: noon.Add(-45 * time.Minute)}
	h.runs[jobs.Succeeded], h.runs[jobs.TimedOut] = 5000, 1
	l := lane{job: "a", heaps: heaps{[]heap{h}, noon.Add(-2 * time.Hour)}}
	drawn := string(l.draw(s, noon, nil, runURL, func(from, to time.Time) string { return "?closer" }))
	for _, want := range []string{`class="heap s-ok"`, `class="heap s-fail"`, `#m-time`, `href="?closer"`, "1 timed out", `class="cut"`} {
		if !strings.Contains(drawn, want) {
			t.Errorf("there is no %s in %s", want, drawn)
		}
	}
}

// In a long time, only the runs of those jobs are read that are shown one by one.
func TestLanesOfALongTime(t *testing.T) {
	t.Parallel()
	source := &crowded{runs: map[string]int{"many": 100, "few": 2}}
	p, err := newPage("billing", source, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &viewer{page: p, ctx: t.Context(), now: noon}
	names := []string{"few", "many"}
	for i := range perPage - len(names) {
		names = append(names, fmt.Sprintf("none-%d", i))
	}
	for _, zoom := range []string{"1h", "7d"} {
		source.asked = nil
		lanes, err := v.lanes(readSpan(url.Values{"zoom": {zoom}}, noon), names)
		if err != nil {
			t.Fatal(err)
		}
		if few, many := lanes[0], lanes[1]; len(few.runs) != 2 || len(few.heaps.all) != 0 || len(many.runs) != 0 || many.heaps.total() != 100 {
			t.Errorf("%s: %d runs and %d counted, %d and %d: want those of the first, and the others counted", zoom, len(few.runs), few.heaps.total(), len(many.runs), many.heaps.total())
		}
		if read := slices.Contains(source.asked, "many"); read != (zoom == "1h") || !slices.Contains(source.asked, "few") {
			t.Errorf("%s: the runs of %q are read", zoom, source.asked)
		}
	}
}

// crowded is a source with runs in the last hour.
type crowded struct {
	Source
	runs  map[string]int
	asked []string // whose newest runs were asked for
}

func (c *crowded) Newest(_ context.Context, of jobs.Newest) (map[string][]jobs.Record, error) {
	c.asked = of.Jobs
	all := map[string][]jobs.Record{}
	for _, name := range of.Jobs {
		for i := range min(c.runs[name], of.Limit) {
			all[name] = append(all[name], jobs.Record{Key: jobs.Key{Job: name, Tick: noon.Add(-time.Duration(i) * time.Second)}, State: jobs.Succeeded})
		}
	}
	return all, nil
}

func (c *crowded) Counts(_ context.Context, f jobs.CountFilter) (counts jobs.Counts, err error) {
	for _, name := range f.Jobs {
		if n := c.runs[name]; n > 0 {
			counts.List = append(counts.List, jobs.Count{Job: name, From: f.Since, State: jobs.Succeeded, Runs: n})
		}
	}
	return counts, nil
}

// Readings are shared by all that ask within a second: a view that changed one would change the next one's.
func TestViewsLeaveSharedReadings(t *testing.T) {
	t.Parallel()
	db := memstore.New()
	d := &database{Group: jobs.NewGroup(db, "billing"), store: db, name: "billing"}
	source := &termed{Source: d}
	for i := range 3 {
		source.terms = append(source.terms, jobs.Term{Token: uint64(9 - i), Owner: string(rune('a' + i)), Began: noon.Add(time.Duration(-i) * time.Hour)})
	}
	p, err := newPage("billing", source, d)
	if err != nil {
		t.Fatal(err)
	}
	v := &viewer{page: p, ctx: t.Context(), now: noon.Add(time.Hour)}
	for range 3 {
		terms, err := v.terms(span{from: noon.Add(-5 * time.Hour), to: noon})
		if err != nil || len(terms) != 3 || terms[0].token != 7 || terms[2].token != 9 || !terms[0].ended.Equal(terms[1].began) {
			t.Fatalf("%+v, %v", terms, err)
		}
	}
}

// termed is a source with some terms.
type termed struct {
	Source
	terms []jobs.Term // the newest first
}

func (s *termed) Terms(context.Context, jobs.TermFilter) ([]jobs.Term, error) { return s.terms, nil }

// The overview says why the replica that shows it cannot take part.
func TestOverviewSaysWhatIsWrongWithTheDatabase(t *testing.T) {
	t.Parallel()
	db := memstore.New()
	d := &database{Group: jobs.NewGroup(db, "billing"), store: db, name: "billing"}
	p, err := newPage("billing", d, d)
	if err != nil {
		t.Fatal(err)
	}
	p.health = func() scheduler.Health {
		return scheduler.Health{Health: election.Health{Database: errors.New("Error 1290:\n<read-only>")}}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
	r.RemoteAddr = "127.0.0.1:1"
	p.ServeHTTP(w, r)
	if want := "cannot use the database, or must not: Error 1290: &lt;read-only&gt;."; w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A lock whose row cannot be read is named, and hides no other.
func TestLocksThatCannotBeRead(t *testing.T) {
	t.Parallel()
	db := memstore.New()
	reading, err := db.ReadLocks(t.Context(), "broken")
	if err != nil {
		t.Fatal(err)
	}
	const held = `{"processes":[{"group":"locks/1","owner":"web/a/1/x","token":7}],"places":[{"id":"p","granted":7,"process":0}]}`
	for name, row := range map[string]string{"broken": "{", "stock": held} {
		write := store.LockWrite{Name: name, Version: reading.Floor + 7, Queue: []byte(row)}
		if done, err := db.WriteLocks(t.Context(), reading.Server, []store.LockWrite{write}); err != nil || !done[0] {
			t.Fatal(done, err)
		}
	}
	d := &database{Group: jobs.NewGroup(db, "billing"), store: db, name: "billing"}
	p, err := newPage("billing", d, d)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/locks", nil)
	r.RemoteAddr = "127.0.0.1:1"
	p.ServeHTTP(w, r)
	for _, want := range []string{"the row of &#34;broken&#34; cannot be read", "cannot be read</td>", "web/a/1"} {
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %q: %d %s", want, w.Code, w.Body)
		}
	}
}

// A job whose trouble lies behind that of a noisier one has a row of its own, as one that fails.
func TestTroubleBehindNoise(t *testing.T) {
	t.Parallel()
	p, err := newPage("billing", &crowded{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.late.last, p.late.known = aged[late]{late{failing: map[string]time.Time{"noisy": noon, "quiet": noon.Add(-time.Hour)}}, time.Now()}, true
	v := &viewer{page: p, ctx: t.Context(), now: noon, begun: time.Now()}
	var noise []troubleRow
	for range 20 {
		noise = append(noise, v.troubleOf("noisy"))
	}
	got := v.troubles(noise)
	if len(got.Rows) != maxTrouble || !got.More || got.Rows[maxTrouble-1].Job != "quiet" || got.Rows[maxTrouble-1].Last.Exact() != exact(noon.Add(-time.Hour)) {
		t.Errorf("%+v", got)
	}
	if got := v.troubles(nil); len(got.Rows) != 2 || got.More {
		t.Errorf("%+v", got)
	}
}
