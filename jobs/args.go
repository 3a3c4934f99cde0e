package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxArgs is how large the arguments of a run are at most, in bytes of JSON.
const MaxArgs = 64 << 10

// Request asks a ledger for a run beside the schedule.
type Request struct {
	// Args are the arguments, a JSON value; nil for none.
	Args json.RawMessage
	// Tick is the run's tick. Zero: the database's present instant.
	Tick time.Time
	// Trigger is the number of the run's key. Zero: the ledger chooses one that no run
	// of the tick has. A request whose tick and number are those of a run that there is
	// changes nothing, so that it can be repeated.
	Trigger uint64
	// Backfill is as in [Record].
	Backfill string
	// Note is for the audit ([AuditEntry].Note): it says what is asked for.
	Note string
}

// CheckArgs says what keeps a text from being the arguments of a run: it has to be one
// JSON value, in UTF-8, of at most [MaxArgs] bytes. The error shows nothing of it, since
// arguments may hold secrets.
func CheckArgs(args []byte) error {
	var syntax *json.SyntaxError
	var value json.RawMessage
	switch err := json.Unmarshal(args, &value); {
	case len(args) > MaxArgs:
		return fmt.Errorf("jobs: arguments of %d bytes: at most %d", len(args), MaxArgs)
	case !utf8.Valid(args):
		return errors.New("jobs: arguments: not UTF-8")
	case errors.As(err, &syntax):
		return fmt.Errorf("jobs: arguments: not JSON, at offset %d", syntax.Offset)
	case err != nil:
		return errors.New("jobs: arguments: not JSON")
	}
	return nil
}

// encodeArgs returns a value as arguments; nil has none.
func encodeArgs(value any) (json.RawMessage, error) {
	var raw []byte
	switch v := value.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		raw = v
	default:
		var err error
		if raw, err = json.Marshal(value); err != nil {
			return nil, fmt.Errorf("jobs: arguments of type %T: %w", value, err)
		}
	}
	if err := CheckArgs(raw); err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, errors.New("jobs: arguments: not JSON")
	}
	return compact.Bytes(), nil
}

// ArgsOf returns the arguments of a run as a T, decoded as [json.Unmarshal] does: fields
// that T does not have are left out, so that the jobs of a pipeline can share arguments.
// A run without arguments has the zero T. The error is an [*ArgsError], and permanent:
// another attempt has the same arguments.
func ArgsOf[T any](run Run) (T, error) { return decodeArgs[T](run, false) }

// StrictArgsOf is ArgsOf, and a field that T does not have is an error.
func StrictArgsOf[T any](run Run) (T, error) { return decodeArgs[T](run, true) }

func decodeArgs[T any](run Run, strict bool) (T, error) {
	var args, none T
	if len(run.Args) == 0 {
		return none, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(run.Args))
	if strict {
		decoder.DisallowUnknownFields()
	}
	if err := decoder.Decode(&args); err != nil {
		return none, Permanent(argsError[T](run, decoder.InputOffset(), err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return none, Permanent(&ArgsError{Job: run.Job, Offset: decoder.InputOffset(), Reason: "more than one value"})
	}
	return args, nil
}

// ArgsError says that the arguments of a run do not fit. It shows nothing of their
// values; the error that it wraps may.
type ArgsError struct {
	Job    string
	Offset int64 // in bytes
	Reason string
	err    error
}

func (e *ArgsError) Error() string {
	return fmt.Sprintf("jobs: arguments of job %q, at offset %d: %s", e.Job, e.Offset, e.Reason)
}

// Unwrap returns the decoder's error. Its text may quote a value.
func (e *ArgsError) Unwrap() error { return e.err }

func argsError[T any](run Run, offset int64, err error) error {
	e := &ArgsError{Job: run.Job, Offset: offset, Reason: fmt.Sprintf("does not fit a %T", *new(T)), err: err}
	var mismatch *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &mismatch):
		e.Offset, e.Reason = mismatch.Offset, fmt.Sprintf("expected a value of type %v", mismatch.Type)
		if mismatch.Field != "" {
			e.Reason += " in " + mismatch.Field
		}
	case errors.As(err, &syntax):
		e.Offset, e.Reason = syntax.Offset, "not JSON"
	default:
		// The decoder has no type for this error, and its text names the field alone.
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			e.Reason = "unknown field " + field
		}
	}
	return e
}
