package page

import (
	"html/template"
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// The geometry of the chart of durations, in pixels from the top.
const (
	chartTop    = 18
	chartBottom = 112
)

// durations draws how long the newest runs took, the newest on the right. It is empty for a job that has not run.
func (v *viewer) durations(newest []jobs.Record) (chart template.HTML, words string) {
	type dot struct {
		jobs.Record
		took time.Duration
	}
	var dots []dot
	var most time.Duration
	for _, r := range newest {
		if !r.Started.IsZero() && !r.Finished.Before(r.Started) && r.State.Over() {
			took := r.Finished.Sub(r.Started)
			dots = append(dots, dot{r, took})
			most = max(most, took)
		}
	}
	if len(dots) == 0 {
		return "", ""
	}
	slices.Reverse(dots)
	top := max(most, time.Millisecond)
	p := picture{now: v.now}
	p.add(`<svg class="chart" role="group" aria-label="Durations of the newest runs">`)
	for i, part := range []time.Duration{top, top / 2, 0} {
		y := chartTop + i*(chartBottom-chartTop)/2
		p.add(`<line class="grid" x1="0" x2="100%%" y1="%d" y2="%d"/><text x="0" y="%d">`, y, y, y-4)
		if part > 0 {
			p.text(took(part))
		}
		p.add(`</text>`)
	}
	for i, d := range dots {
		x := 99.0
		if len(dots) > 1 {
			x = 9 + 90*float64(i)/float64(len(dots)-1)
		}
		y := chartBottom - float64(chartBottom-chartTop)*float64(d.took)/float64(top)
		p.href(runURL(d.Key))
		p.title(runWords(d.Record, v.now)...)
		if m := markOf(d.State); d.State == jobs.Succeeded {
			p.add(`<circle class="dot s-ok" cx="%.3f%%" cy="%.1f" r="3"/>`, x, y)
		} else {
			p.glyph(m.Mark, x, 0, y)
		}
		p.add(`</a>`)
	}
	p.add(`</svg>`)
	return template.HTML(p.out.String()), "of the last " + counted(len(dots), "run", "runs") + ", the newest on the right"
}
