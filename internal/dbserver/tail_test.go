package dbserver

import (
	"io"
	"strings"
	"testing"
)

func TestTailFindsWhatIsWrittenInPieces(t *testing.T) {
	t.Parallel()
	for _, pieces := range [][]string{
		{"ready"}, {"it is ready now"}, {"it is re", "ady now"}, {"r", "e", "a", "d", "y"},
		{strings.Repeat(".", tailSize-2) + "re", "ady"},
	} {
		log := &tail{wanted: "ready", found: make(chan struct{})}
		for i, piece := range pieces {
			select {
			case <-log.found:
				t.Errorf("%q: found before piece %d", pieces, i)
			default:
			}
			write(t, log, piece)
		}
		select {
		case <-log.found:
		default:
			t.Errorf("%.40q: not found", pieces)
		}
		write(t, log, "ready") // again, which is of no interest
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	var log tail
	write(t, &log, "first")
	write(t, &log, strings.Repeat(".", tailSize-4))
	write(t, &log, "last\n")
	got := log.String()
	if strings.HasPrefix(got, "first") || !strings.HasSuffix(got, "last") || len(got) > tailSize {
		t.Errorf("kept %d bytes: %.10s...%s", len(got), got, got[len(got)-10:])
	}
}

func write(t *testing.T, log *tail, text string) {
	t.Helper()
	if n, err := io.WriteString(log, text); n != len(text) || err != nil {
		t.Fatalf("write: %d, %v", n, err)
	}
}
