package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// maxEvents is how many events the board keeps.
const maxEvents = 12

// board is redrawn in place on a terminal.
type board struct {
	out    io.Writer
	size   func() (width, height int)
	events []string
	height int // of what is drawn
	drawn  time.Time
	dirty  bool
}

func (b *board) event(line string) {
	if b.events = append(b.events, line); len(b.events) > maxEvents {
		b.events = b.events[1:]
	}
	b.dirty = true
}

const (
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
	bold       = "\x1b[1m"
	plain      = "\x1b[0m"
)

// draw redraws the board, at most ten times a second.
func (b *board) draw(s *show, now time.Time) {
	if !b.dirty && now.Sub(b.drawn) < 100*time.Millisecond {
		return
	}
	width, height := b.size()
	lines := b.lines(s, now)
	if most := max(1, height-1); len(lines) > most {
		lines = lines[:most]
	}
	var text strings.Builder
	if b.height > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", b.height)
	}
	for _, line := range lines {
		style := ""
		if strings.HasPrefix(line, "*") {
			style = bold
		}
		text.WriteString("\r" + style + cut(line, width-1) + plain + clearLine + "\n")
	}
	text.WriteString(clearBelow)
	_, _ = io.WriteString(b.out, text.String()) // a terminal that is gone ends the demo by a signal
	b.height, b.drawn, b.dirty = len(lines), now, false
}

// lines is the board's text.
func (b *board) lines(s *show, now time.Time) []string {
	lasted := now.Sub(s.began)
	head := fmt.Sprintf("cronlease demo  %v", lasted.Truncate(time.Second))
	if s.For > 0 {
		head += fmt.Sprintf(" of %v", s.For)
	}
	lines := []string{head + "  (Ctrl-C ends it)", "", fmt.Sprintf("  %-10s %-8s %-22s %-18s %s", "worker", "pid", "state", "token", "heartbeat")}
	for _, r := range s.replicas {
		lines = append(lines, s.replicaLine(r, now))
	}
	lines = append(lines, "", "  ticks: "+s.ticksLine(), "")
	for _, event := range b.events {
		lines = append(lines, "  "+event)
	}
	for range maxEvents - len(b.events) {
		lines = append(lines, "")
	}
	return append(lines, "", "  "+s.tally.summary(s.began, now).counts())
}

func (s *show) replicaLine(r *replica, now time.Time) string {
	if r.process == nil {
		return fmt.Sprintf("  %-10s %-8s not running", r.name, "-")
	}
	has := ""
	if s.work != nil {
		has = "  " + s.work.of(r)
	}
	if !r.owns(s.leader.Owner) || !s.leader.Held() {
		return fmt.Sprintf("  %-10s %-8d %-22s %-18s %-8s%s", r.name, r.process.pid(), "follows", "", "", has)
	}
	age := s.leader.Age + now.Sub(s.lookedAt)
	return fmt.Sprintf("* %-10s %-8d %-22s %-18d %.1fs ago%s", r.name, r.process.pid(), "LEADS", s.leader.Token, age.Seconds(), has)
}

// ticksLine shows the last ticks, newest first, each with the number of the
// replica where it ran.
func (s *show) ticksLine() string {
	var line strings.Builder
	for i := len(s.recent) - 1; i >= 0; i-- {
		r := s.recent[i]
		fmt.Fprintf(&line, "%s on %s  ", r.tick.Format("15:04:05"), r.replica)
	}
	if line.Len() == 0 {
		return "none yet"
	}
	return line.String()
}

// cut cuts a line to a width.
func cut(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:width])
}
