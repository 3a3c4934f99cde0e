package page

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// The geometry of a lane, in pixels. Across, everything is in percent, so that a lane is as
// wide as the window lets it be and its glyphs keep their shape.
const (
	laneHeight = 38
	laneMiddle = 19
	barHeight  = 10
	heapTop    = 8
	heapBottom = 30
)

// lateness is from when on a start counts as late. Up to there, a tick is on time for
// its misfire policy, too.
const lateness = 5 * time.Second

// picture writes an SVG. It is the only place that writes markup by hand, because a timeline
// has thousands of shapes: numbers are formatted here, and each text goes through text.
type picture struct {
	out strings.Builder
	span
	now time.Time
}

func (p *picture) add(format string, args ...any) { fmt.Fprintf(&p.out, format, args...) }

// text writes a text that anyone may have written.
func (p *picture) text(s string) { p.out.WriteString(html.EscapeString(visible(s))) }

func (p *picture) title(lines ...string) {
	p.out.WriteString("<title>")
	for i, line := range lines {
		if i > 0 {
			p.out.WriteByte('\n')
		}
		p.text(line)
	}
	p.out.WriteString("</title>")
}

func (p *picture) href(to string) {
	p.out.WriteString(`<a href="`)
	p.out.WriteString(html.EscapeString(to))
	p.out.WriteString(`" tabindex="-1">`)
}

// glyph draws a mark on a patch of paper, dx pixels beside x percent.
func (p *picture) glyph(name string, x, dx, y float64) {
	p.add(`<g class="s-%s" transform="translate(%.1f %.1f)"><circle class="halo" cx="%.3f%%" r="7.5"/><use href="#m-%s" x="%.3f%%"/></g>`, name, dx, y, x, name, x)
}

func (p *picture) line(class string, t time.Time) {
	x := p.at(t)
	p.add(`<line class="%s" x1="%.3f%%" x2="%.3f%%" y1="0" y2="%d"/>`, class, x, x, laneHeight)
}

// stretch draws a rectangle as high as the lane.
func (p *picture) stretch(class string, from, to time.Time) {
	a, b := max(p.at(from), 0), min(p.at(to), 100)
	if b > a {
		p.add(`<rect class="%s" x="%.3f%%" width="%.3f%%" height="%d"/>`, class, a, b-a, laneHeight)
	}
}

// axis draws the axis of a span.
func axis(s span, now time.Time) template.HTML {
	p := picture{span: s, now: now}
	p.add(`<svg class="axis" aria-hidden="true">`)
	for i, t := range s.lines() {
		x := s.at(t)
		class := ""
		if i%2 == 1 {
			class = ` class="odd"`
		}
		anchor, shift := "middle", 0
		switch {
		case x < 7:
			anchor, shift = "start", -1
		case x > 97:
			continue
		}
		layout := s.layout
		if s.step < 24*time.Hour && t.Equal(t.Truncate(24*time.Hour)) {
			layout = "Mon 2"
		}
		p.add(`<line x1="%.3f%%" x2="%.3f%%" y1="16" y2="20"/><text%s x="%.3f%%" dx="%d" y="12" text-anchor="%s">%s</text>`, x, x, class, x, shift, anchor, t.Format(layout))
	}
	if x := s.at(now); x >= 0 && x <= 100 {
		p.add(`<line class="now" x1="%.3f%%" x2="%.3f%%" y1="12" y2="20"/>`, x, x)
	}
	p.add(`</svg>`)
	return template.HTML(p.out.String())
}

// background draws what each lane has: the lines of the axis, the future, takeovers, pauses and now.
func (p *picture) background(terms []term, pauses []jobs.Pause) {
	p.add(`<svg class="lane" role="presentation">`)
	if p.now.Before(p.to) {
		p.stretch("future", p.now, p.to)
	}
	for _, t := range p.lines() {
		p.line("grid", t)
	}
	for _, pause := range pauses {
		end := pause.Ended
		if end.IsZero() {
			end = p.to
		}
		p.stretch("pause", pause.Began, end)
	}
	for _, t := range terms {
		if t.takeover && t.began.After(p.from) && t.began.Before(p.to) {
			p.line("take", t.began)
		}
	}
}

func (p *picture) end() template.HTML {
	if x := p.at(p.now); x >= 0 && x <= 100 {
		p.line("now", p.now)
	}
	p.add(`</svg>`)
	return template.HTML(p.out.String())
}

// lane is what a timeline shows of a job.
type lane struct {
	job    string
	runs   []jobs.Record
	heaps  heaps
	next   []time.Time
	pauses []jobs.Pause
}

// heaps are the runs of a job in a span, counted.
type heaps struct {
	all []heap
	// cut is from when on they are complete; zero: from the beginning.
	cut time.Time
}

func (h heaps) total() (n int) {
	for _, of := range h.all {
		n += of.total()
	}
	return n
}

// heap is how many runs of a job there are in a part of a span, by their state.
type heap struct {
	from, to time.Time
	runs     [jobs.Interrupted + 1]int
}

func (h heap) total() (n int) {
	for _, of := range h.runs {
		n += of
	}
	return n
}

// draw draws a lane. link returns the address of a run, and into that of a closer look at a part.
func (l lane) draw(s span, now time.Time, terms []term, link func(jobs.Key) string, into func(from, to time.Time) string) template.HTML {
	p := picture{span: s, now: now}
	p.background(terms, l.pauses)
	last := math.Inf(-1)
	for _, t := range l.next {
		x := s.at(t)
		if x-last < 0.4 {
			break // they would be a bar
		}
		last = x
		if t.After(now) && t.Before(s.to) {
			p.add(`<line class="s-wait" stroke="currentColor" x1="%.3f%%" x2="%.3f%%" y1="%d" y2="%d"/>`, x, x, laneMiddle-3, laneMiddle+3)
		}
	}
	if cut := l.heaps.cut; !cut.IsZero() {
		p.add(`<g>`)
		p.title("there are too many runs to count those before " + instant(now, cut))
		p.stretch("cut", s.from, cut)
		p.add(`</g>`)
	}
	p.heaps(l.heaps.all, into)
	p.runs(l.runs, link)
	return p.end()
}

// heaps draws one bar for each part of the span. Across, they are in thousandths.
func (p *picture) heaps(heaps []heap, into func(from, to time.Time) string) {
	if len(heaps) == 0 {
		return
	}
	most := 0
	for _, h := range heaps {
		most = max(most, h.total())
	}
	var good, bad, other strings.Builder
	box := func(to *strings.Builder, x, width, bottom, height float64) {
		fmt.Fprintf(to, "M%.2f %.1fh%.2fv-%.1fh-%.2fz", x, bottom, width, height, width)
	}
	for _, h := range heaps {
		total := h.total()
		if total == 0 {
			continue
		}
		a, b := max(10*p.at(h.from), 0), min(10*p.at(h.to), 1000)
		width := max((b-a)*0.86, 0.5)
		all := (heapBottom - heapTop) * max(math.Sqrt(float64(total)/float64(most)), 0.3)
		wrong, aside := 0, h.runs[jobs.Cancelled]+h.runs[jobs.Skipped]+h.runs[jobs.Waiting]
		for _, s := range troubled {
			wrong += h.runs[s]
		}
		part := func(n int) float64 {
			if n == 0 {
				return 0
			}
			return max(all*float64(n)/float64(total), 3)
		}
		high, aside1 := part(wrong), part(aside)
		if rest := all - high - aside1; wrong+aside < total {
			rest = max(rest, 2)
			box(&good, a, width, heapBottom, rest)
			box(&other, a, width, heapBottom-rest, aside1)
			box(&bad, a, width, heapBottom-rest-aside1, high)
		} else {
			box(&other, a, width, heapBottom, aside1)
			box(&bad, a, width, heapBottom-aside1, high)
		}
	}
	p.add(`<svg width="100%%" height="%d" viewBox="0 0 1000 %d" preserveAspectRatio="none">`, laneHeight, laneHeight)
	for _, of := range []struct {
		class string
		path  *strings.Builder
	}{{"ok", &good}, {"cancel", &other}, {"fail", &bad}} {
		if of.path.Len() > 0 {
			p.add(`<path class="heap s-%s" d="%s"/>`, of.class, of.path.String())
		}
	}
	p.add(`</svg>`)
	last := math.Inf(-1)
	for _, h := range heaps {
		state, is := h.worst()
		if !is {
			continue
		}
		x := p.at(h.from.Add(h.to.Sub(h.from) / 2))
		p.href(into(h.from, h.to))
		p.title(h.words(p.now)...)
		if x-last > 1.6 { // or the glyphs would cover one another
			p.glyph(markOf(state).Mark, x, 0, heapTop+2)
			last = x
		} else {
			p.add(`<rect class="halo" fill-opacity="0" x="%.3f%%" width="%.3f%%" height="%d"/>`, p.at(h.from), p.at(h.to)-p.at(h.from), laneHeight)
		}
		p.add(`</a>`)
	}
}

// worst is the worst state that an operator should look at.
func (h heap) worst() (jobs.State, bool) {
	for _, s := range troubled {
		if h.runs[s] > 0 {
			return s, true
		}
	}
	return 0, false
}

func (h heap) words(now time.Time) []string {
	lines := []string{instant(now, h.from) + " to " + instant(now, h.to)}
	for s := jobs.Running; s <= jobs.Interrupted; s++ {
		if n := h.runs[s]; n > 0 {
			lines = append(lines, count(n)+" "+markOf(s).Text)
		}
	}
	return lines
}

// bar is where a run is drawn.
type bar struct {
	jobs.Record
	start, end time.Time
	row        int
}

// maxRows is how many runs of a job are drawn above one another when they overlap.
const maxRows = 3

func (p *picture) bars(runs []jobs.Record) (all []bar, rows int) {
	for _, r := range runs {
		start, end := startOf(r), r.Finished
		if !r.State.Over() || end.Before(start) {
			end = max2(start, p.now)
		}
		if r.State == jobs.Skipped {
			start, end = r.Tick, r.Tick
		}
		all = append(all, bar{Record: r, start: start, end: end})
	}
	slices.SortStableFunc(all, func(a, b bar) int { return cmp.Or(a.start.Compare(b.start), a.Tick.Compare(b.Tick)) })
	var busy [maxRows]time.Time
	for i := range all {
		row := 0
		for row < maxRows-1 && busy[row].After(all[i].start) {
			row++
		}
		busy[row] = max2(busy[row], all[i].end)
		all[i].row, rows = row, max(rows, row+1)
	}
	return all, rows
}

func max2(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// startOf is when a run began, as far as it has.
func startOf(r jobs.Record) time.Time {
	switch {
	case !r.Started.IsZero():
		return r.Started
	case !r.Claimed.IsZero():
		return r.Claimed
	}
	return r.Tick
}

// lateBy is how long after its planned instant a run of the schedule was begun, if that is
// more than usual. A run that was put off on purpose is planned for later than its tick.
func lateBy(r jobs.Record) (time.Duration, bool) {
	if r.Trigger != 0 || r.State == jobs.Skipped || r.Claimed.IsZero() {
		return 0, false
	}
	planned, began := r.Tick, r.Claimed
	if r.Attempt <= 1 && !r.Started.IsZero() {
		began = r.Started
		if r.Due.Sub(r.Claimed) > time.Second {
			planned = r.Due
		}
	}
	late := began.Sub(planned)
	return late, late > lateness
}

func (p *picture) runs(runs []jobs.Record, link func(jobs.Key) string) {
	all, rows := p.bars(runs)
	height, step := float64(barHeight), 0.0
	if rows > 1 {
		height, step = 6, 8
	}
	for _, r := range all {
		y := laneMiddle + step*(float64(r.row)-float64(rows-1)/2)
		m := markOf(r.State)
		a, b := p.at(r.start), p.at(r.end)
		p.href(link(r.Key))
		p.title(runWords(r.Record, p.now)...)
		if _, late := lateBy(r.Record); late {
			tick := p.at(r.Tick)
			p.add(`<line class="whisker" x1="%.3f%%" x2="%.3f%%" y1="%.1f" y2="%.1f"/><line class="whisker" x1="%.3f%%" x2="%.3f%%" y1="%.1f" y2="%.1f"/>`,
				tick, a, y, y, tick, tick, y-height/2, y+height/2)
		}
		if r.Attempt > 1 && r.Claimed.Before(r.start) { // the attempts before, and the waits between them
			p.add(`<rect class="bar before s-%s" x="%.3f%%" width="%.3f%%" y="%.1f" height="3"/>`, m.Mark, p.at(r.Claimed), max(a-p.at(r.Claimed), 0.02), y-1.5)
		}
		if r.State != jobs.Skipped {
			a1, b1 := max(a, -1), min(b, 101)
			p.add(`<rect class="bar s-%s" x="%.3f%%" width="%.3f%%" y="%.1f" height="%.1f"/>`, m.Mark, a1, max(b1-a1, 0.02), y-height/2, height)
		}
		if r.Missed > 0 && r.State != jobs.Skipped {
			p.glyph("miss", a, -12, y)
		}
		if r.State != jobs.Succeeded && (r.State != jobs.Running || b-a > 2) {
			p.glyph(m.Mark, min(b, 99), 0, y)
		}
		p.add(`</a>`)
	}
}

// runWords describe a run to who points at it.
func runWords(r jobs.Record, now time.Time) []string {
	state := markOf(r.State).Text
	if r.Attempt > 1 {
		state += fmt.Sprintf(", attempt %d", r.Attempt)
	}
	if !r.Started.IsZero() && !r.Finished.IsZero() {
		state += ", took " + took(r.Finished.Sub(r.Started))
	} else if r.State == jobs.Running && !r.Started.IsZero() {
		state += " for " + took(now.Sub(r.Started))
	}
	lines := []string{r.Job + "  " + instant(now, r.Tick), state}
	if late, is := lateBy(r); is {
		lines = append(lines, "started "+took(late)+" late")
	}
	if r.Missed > 0 {
		what := "missed before it"
		if r.State == jobs.Skipped {
			what = "skipped before it"
		}
		lines = append(lines, counted(r.Missed, "tick", "ticks")+" "+what)
	}
	if r.Error != "" {
		lines = append(lines, oneLine(r.Error))
	}
	return lines
}
