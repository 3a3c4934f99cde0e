package torture

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// History is what is known of a round: what happened, the tables at its end, and what had to come of it.
type History struct {
	// Events are of all processes, in any order in which those of one process are in its own.
	Events   []Event
	Rows     []Row
	Effects  []Effect
	Policies []Policy
	// Spread: the runs are spread over the players, and their tokens are those of attempts.
	Spread bool
	// TTL and Grace are those of the leases.
	TTL, Grace time.Duration
	// MaxSkew is by how much the clocks of a process and of the database may differ; zero: ticks are judged by the processes'.
	MaxSkew time.Duration
	// From and To are the ticks, in microseconds since 1970 and both included, between which each tick of a job with All
	// has to be in the ledger.
	From, To int64
}

// Policy is what the checks have to know of a job.
type Policy struct {
	Job     string
	Every   time.Duration // its ticks are the multiples of it since 1970
	All     bool          // misfire all: each tick is in the ledger, and none was skipped
	Rerun   bool          // recover rerun, with many retries: each tick has one effect in the end
	Texts   bool          // its ticks are the even seconds or the odd ones, by the schedule of the process that leads
	Effects bool          // its runs store effects
	Serial  bool          // its runs never overlap
}

// ReadEvents calls each for every event that a process has written, one a line, as they come. The last line of a killed
// process may be cut off, and is left out then; anything else that is no event is an error, which names its line.
func ReadEvents(in io.Reader, each func(Event)) error {
	lines := bufio.NewReader(in)
	for n, last := 1, false; !last; n++ {
		line, err := lines.ReadBytes('\n')
		last = errors.Is(err, io.EOF)
		if err != nil && !last {
			return fmt.Errorf("read events: line %d: %w", n, err)
		}
		if last && len(line) == 0 {
			break
		}
		var e Event
		err = decode(line, &e)
		if last && errors.Is(err, io.ErrUnexpectedEOF) {
			break // cut off
		}
		if err != nil {
			return fmt.Errorf("read events: line %d: %.200q: %w", n, line, err)
		}
		each(e)
	}
	return nil
}

// decode reads the one event of a line. What begins like an event and just ends is io.ErrUnexpectedEOF.
func decode(line []byte, e *Event) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(e); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("an empty line")
		}
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than an event")
	}
	if e.Kind == "" {
		return errors.New("an event without a kind")
	}
	return nil
}
