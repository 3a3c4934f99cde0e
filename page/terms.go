package page

import (
	"html/template"
	"strconv"
	"strings"
	"time"
)

// term is a term of a leader, as a timeline shows it.
type term struct {
	token uint64
	owner string
	began time.Time
	ended time.Time // zero: it goes on, as far as is known
	why   string    // it ended
	early bool      // it began before the TTL of the one before was over
	// takeover: another owner led before it.
	takeover bool
	// lost: nobody led between the term before and this one for longer than a hand-over takes.
	gap time.Duration
}

// handover is how long nobody leads in a clean hand-over at most, as far as a timeline is concerned.
const handover = time.Second

// drawTerms draws the terms, oldest first, and the times in which nobody led.
func drawTerms(s span, now time.Time, terms []term) template.HTML {
	p := picture{span: s, now: now}
	p.background(terms, nil)
	prefix := sharedLabel(terms)
	for i, t := range terms {
		end := t.ended
		if end.IsZero() {
			end = now
			if i+1 < len(terms) {
				end = terms[i+1].began
			}
		}
		if t.gap > handover {
			p.add(`<g>`)
			p.title("nobody led for " + took(t.gap))
			p.band("lost", t.began.Add(-t.gap), t.began)
			p.add(`</g>`)
		}
		class := "term"
		if i%2 == 0 {
			class = "term even"
		}
		p.add(`<g>`)
		p.title(t.words(now, end)...)
		p.band(class, t.began, end)
		a, b := max(p.at(t.began), 0), min(p.at(end), 100)
		name := strings.TrimPrefix(shortOwner(t.owner), prefix)
		if class, fits := ownerClass(name, b-a); fits {
			p.add(`<svg x="%.3f%%" width="%.3f%%" height="%d"><text class="%s" x="12" y="23">`, a, b-a, laneHeight, class)
			p.text(name)
			p.add(`</text></svg>`)
		}
		if t.takeover && p.at(t.began) >= 0 {
			glyph := "hand"
			if t.gap > handover || t.early {
				glyph = "take"
			}
			p.glyph(glyph, p.at(t.began), 0, laneMiddle)
		}
		p.add(`</g>`)
	}
	if n := len(terms); n > 0 && !terms[n-1].ended.IsZero() && now.Sub(terms[n-1].ended) > handover {
		p.add(`<g>`)
		p.title("nobody leads since " + instant(now, terms[n-1].ended))
		p.band("lost", terms[n-1].ended, now)
		p.add(`</g>`)
	}
	return p.end()
}

// sharedLabel is the label with which the names of all owners begin, as it does where every replica has that of its
// service: it tells none of them apart. It is empty where they differ.
func sharedLabel(terms []term) string {
	shared := ""
	for i, t := range terms {
		label, rest, _ := strings.Cut(t.owner, "/")
		if i > 0 && label+"/" != shared || !strings.Contains(rest, "/") {
			return ""
		}
		shared = label + "/"
	}
	return shared
}

// ownerClass says on lanes of which width in pixels the name of an owner fits into so many percent of it; false: on
// none that is usual. A name that is cut would tell nothing.
func ownerClass(name string, percent float64) (class string, fits bool) {
	const letter, margin = 7.5, 14 // pixels, about
	if percent <= 0 {
		return "", false
	}
	switch needs := (margin + letter*float64(len(name))) * 100 / percent; {
	case needs <= 240:
		return "owner", true
	case needs <= 360:
		return "owner w360", true
	case needs <= 700:
		return "owner w700", true
	}
	return "", false
}

func (p *picture) band(class string, from, to time.Time) {
	a, b := max(p.at(from), 0), min(p.at(to), 100)
	if b > a {
		p.add(`<rect class="%s" x="%.3f%%" width="%.3f%%" y="7" height="%d"/>`, class, a, b-a, laneHeight-14)
	}
}

func (t term) words(now, end time.Time) []string {
	lines := []string{t.owner, "token " + strconv.FormatUint(t.token, 10)}
	if t.ended.IsZero() {
		lines = append(lines, "leads since "+instant(now, t.began)+", for "+took(now.Sub(t.began)))
	} else {
		lines = append(lines, "led from "+instant(now, t.began)+" to "+instant(now, end)+", for "+took(end.Sub(t.began)))
	}
	if t.gap > handover {
		lines = append(lines, "nobody had led for "+took(t.gap))
	}
	if t.early {
		lines = append(lines, "took over early")
	}
	if t.why != "" {
		lines = append(lines, "ended: "+t.why)
	}
	return lines
}
