package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/cronlease/cronlease/internal/retry"
)

const (
	// leastInterval keeps a terminal that is left open from being a burden.
	leastInterval = 500 * time.Millisecond
	// topAnswer is how long a frame waits for the database.
	topAnswer = 5 * time.Second
)

// topCommand is worker top.
type topCommand struct {
	target   target
	interval time.Duration
	count    int
}

func newTop() *cobra.Command {
	var top topCommand
	command := &cobra.Command{
		Use:   "top",
		Short: "Show who leads and what the jobs do, again and again",
		Long: `Show who leads, which workers there are, the last terms, and the jobs: first those
that run or wait, then those that are overdue or fail, then those that are due next.
On a terminal it goes on until Ctrl-C. Through a pipe or into a file it prints one
frame, or as many as --count says. While the database is away it says so, and shows
what it had last. It reads only.`,
		Example: `  worker top --config worker.yaml
  worker top --count 1 | head -4
  worker top --count 60 --interval 1m >>minutes.txt`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if top.interval < leastInterval {
				return usagef(command, "--interval %v: at least %v", top.interval, leastInterval)
			}
			if top.count < 0 {
				return usagef(command, "--count %d: must not be negative", top.count)
			}
			db, group, err := top.target.open(command)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			screen, drawn := terminal(command.OutOrStdout())
			if top.count == 0 && !drawn {
				top.count = 1
			}
			board := newTopBoard(db, group, &top.target)
			if drawn {
				return top.draw(command.Context(), board, screen)
			}
			return top.print(command.Context(), board, command.OutOrStdout())
		},
	}
	top.target.addFlags(command, true)
	command.Flags().DurationVar(&top.interval, "interval", 2*time.Second, "time between two frames")
	command.Flags().IntVar(&top.count, "count", 0, "how many frames to show; 0: on a terminal until Ctrl-C, otherwise one")
	return command
}

// print writes frames one after the other, with all jobs.
func (top *topCommand) print(ctx context.Context, board *topBoard, out io.Writer) error {
	for n := range top.count {
		if n > 0 {
			if !top.rest(ctx) {
				return nil // Ctrl-C is how it ends
			}
			if _, err := fmt.Fprintln(out); err != nil {
				return err
			}
		}
		board.look(ctx)
		if _, err := io.WriteString(out, strings.Join(board.lines(0, 0), "\n")+"\n"); err != nil {
			return err
		}
	}
	return board.failed // such as a database that was never there
}

// rest waits for the next frame. It returns false when ctx has ended.
func (top *topCommand) rest(ctx context.Context) bool { return retry.Sleep(ctx, top.interval) == nil }

const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // another screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	toTop       = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// draw shows frames in the place of each other.
func (top *topCommand) draw(ctx context.Context, board *topBoard, screen *os.File) error {
	if _, err := io.WriteString(screen, enterScreen); err != nil {
		return err
	}
	defer func() { _, _ = io.WriteString(screen, leaveScreen) }() // a terminal that is gone needs nothing
	for n := 0; top.count == 0 || n < top.count; n++ {
		if n > 0 && !top.rest(ctx) {
			return nil
		}
		board.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		width, height, err := term.GetSize(int(screen.Fd()))
		if err != nil {
			width, height = 80, 24
		}
		if _, err := io.WriteString(screen, frame(board.lines(width, height))); err != nil {
			return err
		}
	}
	return board.failed
}

// frame is what replaces the lines of a screen. Only its own control characters are in it.
func frame(lines []string) string {
	var text strings.Builder
	text.WriteString(toTop)
	for i, line := range lines {
		if i > 0 {
			text.WriteString("\r\n")
		}
		if safe := (escaping{}).escape(nil, []byte(line)); safe != nil {
			line = string(safe)
		}
		text.WriteString(line + clearLine)
	}
	text.WriteString(clearBelow)
	return text.String()
}

// cutTo cuts a line to a width; zero: it has any.
func cutTo(line string, width int) string {
	if width <= 0 {
		return line
	}
	runes := []rune(line)
	if len(runes) > width {
		return string(runes[:max(width-1, 0)]) + "…"
	}
	return line
}

// ago writes a span for people: two units at most.
func ago(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}
