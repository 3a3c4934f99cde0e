package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// plot shows how a cost grows, on MariaDB; both axes are logarithmic.
type plot struct{ unit, title string }

var plots = []plot{
	{"statements", "Statements of one operation"},
	{"commits", "Commits of one operation"},
	{"bytes", "Bytes of one operation, both ways"},
}

func (p plot) file() string { return "performance-" + p.unit + ".svg" }

func (p plot) draw(r *results) string {
	const left, top, width, height = 70.0, 50.0, 460.0, 300.0
	low, high := math.Inf(1), math.Inf(-1)
	for _, o := range operations {
		for _, n := range o.sizes {
			if v := o.get(r, dialects[0].name, n, p.unit); v > 0 {
				low, high = min(low, math.Floor(math.Log10(v))), max(high, math.Ceil(math.Log10(v)))
			}
		}
	}
	if math.IsInf(low, 0) {
		low, high = 0, 1
	}
	if low == high {
		high++
	}
	x := func(n float64) float64 { return left + width*math.Log10(n)/3 }
	y := func(v float64) float64 { return top + height*(high-math.Log10(v))/(high-low) }
	var s strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	words := func(at, down float64, anchor, colour, text string) {
		add(`<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`, at, down, anchor, colour, html.EscapeString(text))
	}
	add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 840 410" width="840" height="410" role="img" font-family="Helvetica, Arial, sans-serif" font-size="13">`)
	add(`<title>%s</title>`, p.title)
	add(`<desc>%s against the number of groups, replicas, jobs, workers or waiters, on logarithmic axes. The table of costs has the values.</desc>`, p.title)
	add(`<rect width="840" height="410" rx="8" fill="#ffffff"/>`)
	add(`<text x="%g" y="28" font-weight="bold" fill="#1f2933">%s</text>`, left, p.title)
	for e := 0.0; e <= 3; e++ {
		n := math.Pow(10, e)
		add(`<line x1="%.1f" y1="%g" x2="%.1f" y2="%g" stroke="#e4e7eb"/>`, x(n), top, x(n), top+height)
		words(x(n), top+height+20, "middle", "#7b8794", number(n))
	}
	for e := low; e <= high; e++ {
		v := math.Pow(10, e)
		add(`<line x1="%g" y1="%.1f" x2="%g" y2="%.1f" stroke="#e4e7eb"/>`, left, y(v), left+width, y(v))
		words(left-8, y(v)+4, "end", "#7b8794", number(v))
	}
	words(left+width/2, top+height+42, "middle", "#1f2933", "how many there are")
	row := 0.0
	for _, o := range operations {
		var points []string
		for _, n := range o.sizes {
			if v := o.get(r, dialects[0].name, n, p.unit); v > 0 {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(float64(n)), y(v)))
			}
		}
		if len(points) == 0 {
			continue
		}
		dashes := ""
		if o.name == "look" { // which may lie on the line of the heartbeat
			dashes = ` stroke-dasharray="6 5"`
		}
		add(`<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>`, strings.Join(points, " "), o.colour, dashes)
		for _, point := range points {
			at, down, _ := strings.Cut(point, ",")
			add(`<circle cx="%s" cy="%s" r="3" fill="%s"/>`, at, down, o.colour)
		}
		add(`<line x1="550" y1="%g" x2="575" y2="%g" stroke="%s" stroke-width="2"%s/>`, top+10+row*24, top+10+row*24, o.colour, dashes)
		words(582, top+14+row*24, "start", "#1f2933", o.what+", by "+o.of)
		row++
	}
	return s.String() + "</svg>\n"
}
