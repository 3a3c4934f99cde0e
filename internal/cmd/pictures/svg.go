package main

import (
	"fmt"
	"html"
	"strings"
)

// The colours: lines and text, what leads, what follows, what is refused.
const (
	ink    = "#1f2933"
	faint  = "#7b8794"
	paper  = "#ffffff"
	panel  = "#f5f7fa"
	leads  = "#0b6e4f"
	light  = "#d8f0e6"
	stops  = "#b45309"
	refuse = "#b91c1c"
)

// svg is a picture in the making.
type svg struct {
	strings.Builder
}

// newSVG begins a picture. The text says what it shows to readers who cannot
// see it.
func newSVG(width, height int, title, text string) *svg {
	p := new(svg)
	p.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="Helvetica, Arial, sans-serif" font-size="13">`,
		width, height, width, height)
	p.add(`<title>%s</title>`, html.EscapeString(title))
	p.add(`<desc>%s</desc>`, html.EscapeString(text))
	p.add(`<defs>`)
	for _, colour := range []string{ink, faint, leads, stops, refuse} {
		p.add(`<marker id="head-%s" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" fill="%s"/></marker>`,
			colour[1:], colour)
	}
	p.add(`</defs>`)
	p.add(`<rect width="%d" height="%d" rx="8" fill="%s"/>`, width, height, paper)
	return p
}

func (p *svg) add(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// done returns the picture.
func (p *svg) done() string { return p.String() + "</svg>\n" }

func (p *svg) box(x, y, width, height float64, fill, stroke string) {
	p.add(`<rect x="%g" y="%g" width="%g" height="%g" rx="6" fill="%s" stroke="%s"/>`, x, y, width, height, fill, stroke)
}

// text writes a line; anchor is start, middle or end.
func (p *svg) text(x, y float64, anchor, colour, line string) {
	p.add(`<text x="%g" y="%g" text-anchor="%s" fill="%s">%s</text>`, x, y, anchor, colour, html.EscapeString(line))
}

func (p *svg) bold(x, y float64, anchor, colour, line string) {
	p.add(`<text x="%g" y="%g" text-anchor="%s" fill="%s" font-weight="bold">%s</text>`, x, y, anchor, colour, html.EscapeString(line))
}

func (p *svg) code(x, y float64, colour, line string) {
	p.add(`<text x="%g" y="%g" fill="%s" font-family="Menlo, Consolas, monospace" font-size="12" xml:space="preserve">%s</text>`, x, y, colour, html.EscapeString(line))
}

func (p *svg) line(x1, y1, x2, y2 float64, colour string, dashed bool) {
	p.add(`<line x1="%g" y1="%g" x2="%g" y2="%g" stroke="%s"%s/>`, x1, y1, x2, y2, colour, dashes(dashed))
}

func (p *svg) arrow(x1, y1, x2, y2 float64, colour string, dashed bool) {
	p.add(`<line x1="%g" y1="%g" x2="%g" y2="%g" stroke="%s" stroke-width="1.5" marker-end="url(#head-%s)"%s/>`,
		x1, y1, x2, y2, colour, colour[1:], dashes(dashed))
}

func dashes(dashed bool) string {
	if dashed {
		return ` stroke-dasharray="5 4"`
	}
	return ""
}
