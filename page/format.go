package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// took writes a duration in at most two units: "340 ms", "1.2 s", "2 min 5 s", "3 h 12 min".
func took(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "−", -d
	}
	switch {
	case d < time.Millisecond:
		return sign + "<1 ms"
	case d < time.Second:
		return fmt.Sprintf("%s%d ms", sign, d.Milliseconds())
	case d < 10*time.Second:
		return sign + strings.TrimSuffix(fmt.Sprintf("%.1f", d.Truncate(100*time.Millisecond).Seconds()), ".0") + " s"
	case d < time.Minute:
		return fmt.Sprintf("%s%d s", sign, int(d.Seconds()))
	case d < time.Hour:
		return sign + units(d, time.Minute, "min", time.Second, "s")
	case d < 24*time.Hour:
		return sign + units(d, time.Hour, "h", time.Minute, "min")
	default:
		return sign + units(d, 24*time.Hour, "d", time.Hour, "h")
	}
}

func units(d, large time.Duration, a string, small time.Duration, b string) string {
	text := fmt.Sprintf("%d %s", d/large, a)
	if rest := d % large / small; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, b)
	}
	return text
}

// coarse is took for what changes by itself: in one unit, so that it is calm.
func coarse(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return fmt.Sprintf("%d d", int(d.Hours())/24)
	}
}

// ago is how far an instant is from now: "12 s ago", "in 3 min", "now".
func ago(now, t time.Time) string {
	switch d := now.Sub(t); {
	case d > -time.Second && d < time.Second:
		return "now"
	case d < 0:
		return "in " + coarse(-d)
	default:
		return coarse(d) + " ago"
	}
}

// instant is a time for people, as short as it can be beside now: "14:05:03", "Nov 21 14:05",
// "2025-11-21 14:05".
func instant(now, t time.Time) string {
	t, now = t.UTC(), now.UTC()
	switch {
	case t.IsZero():
		return "–"
	case t.Year() != now.Year():
		return t.Format("2006-01-02 15:04")
	case t.YearDay() != now.YearDay():
		return t.Format("Jan 2 15:04")
	}
	return t.Format("15:04:05")
}

// exact is an instant in full, to the microsecond where it has any.
func exact(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05.999999") + " UTC"
}

// stamp is an instant for scripts.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// count writes a number with its thousands apart.
func count(n int) string {
	text := strconv.Itoa(n)
	sign := ""
	if n < 0 {
		sign, text = "−", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u2009" + text[i:]
	}
	return sign + text
}

// counted is a number with its noun.
func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + more
}

// shortOwner leaves out what tells two starts of one process apart.
func shortOwner(owner string) string {
	if i := strings.LastIndexByte(owner, '/'); i > 0 {
		return owner[:i]
	}
	return owner
}

// visible shows the characters of a text that a browser would hide, or that would change the
// order of the text around them. html/template escapes what is markup.
func visible(text string) string {
	if plain(text) {
		return text
	}
	var out strings.Builder
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[at])
		case r == '\n' || r == '\t':
			out.WriteRune(r)
		case hides(r) && r > 0xFFFF:
			fmt.Fprintf(&out, `\U%08x`, r)
		case hides(r):
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
		at += size
	}
	return out.String()
}

// plain reports whether a text has printable ASCII alone, as almost all have.
func plain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// oneLine is what a row of a table has room for: the first lines in one, since what an error
// says often begins with the second.
func oneLine(text string) string {
	const most = 200
	text = strings.ReplaceAll(strings.Trim(text, "\n"), "\n", " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return visible(text)
}

// hides reports whether a browser shows a character as nothing, or lets it change the order of
// the text around it.
func hides(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point)
}
