package redisstore

import (
	"context"
	"embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/*.lua
var sources embed.FS

// script is one operation of the store: the server runs it alone and as a whole. It declares two keys that are never
// there. While a cluster moves a slot, some of its keys are on either server, and a script would take those of the
// other one for missing. Of keys that are missing, each server says in that time that it has none (ASK), or not both
// (TRYAGAIN): so no script runs until all of them have moved.
type script struct{ *redis.Script }

// newScript returns the script of some files.
func newScript(files ...string) script {
	var text strings.Builder
	for _, file := range append([]string{"prelude"}, files...) {
		source, err := sources.ReadFile("scripts/" + file + ".lua")
		if err != nil {
			panic(err)
		}
		text.Write(append(source, '\n'))
	}
	return script{redis.NewScript(text.String())}
}

func newLedgerScript(file string) script { return newScript("ledger", file) }

// run runs a script, whose answer it returns. A script that answers with false has none:
// nil.
func (s *Store) run(ctx context.Context, doing string, of script, args ...any) (any, error) {
	if s.closing.Err() != nil {
		return nil, fmt.Errorf("redisstore: %s: %w", doing, ErrClosed)
	}
	answer, err := ask(ctx, s, func(c redis.UniversalClient) (any, error) {
		return of.Run(ctx, c, []string{s.name, s.name + ":nothing"}, args...).Result()
	})
	switch {
	case isNil(err):
		return nil, nil
	case err != nil:
		return nil, s.failed(ctx, doing, err)
	}
	return answer, nil
}

// isNil reports whether an error is the server's answer nil. An error that contains it is none: sentinels give the same answer for a name
// that they do not know, and the client passes it on with the failed connect.
func isNil(err error) bool {
	return err == redis.Nil //nolint:errorlint // see above
}

// failed is the error of what did not succeed.
func (s *Store) failed(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
		if s.target != nil {
			if pending := s.target.handshake.Load(); pending != nil {
				err = fmt.Errorf("%w (%w)", err, pending)
			}
		}
	}
	return fmt.Errorf("redisstore: %s: %w", doing, s.explain(err))
}

// fields reads an answer of a script: an array, of whose values the first failure is kept.
type fields struct {
	doing  string
	values []any
	err    error
}

func (s *Store) fieldsOf(ctx context.Context, doing string, of script, args ...any) (*fields, error) {
	answer, err := s.run(ctx, doing, of, args...)
	if err != nil {
		return nil, err
	}
	f := &fields{doing: doing}
	f.values = f.array(answer)
	return f, f.err
}

func (f *fields) fail(value any, want string) {
	if f.err == nil {
		f.err = fmt.Errorf("redisstore: %s: the server answered %.80q: expected %s", f.doing, fmt.Sprint(value), want)
	}
}

func (f *fields) array(value any) []any {
	array, ok := value.([]any)
	if !ok {
		f.fail(value, "an array")
	}
	return array
}

// next takes the next value.
func (f *fields) next() any {
	if len(f.values) == 0 {
		f.fail(nil, "more values")
		return nil
	}
	value := f.values[0]
	f.values = f.values[1:]
	return value
}

// nested is an array within.
func (f *fields) nested() *fields { return &fields{doing: f.doing, values: f.array(f.next())} }

// absent reports whether the next value is absent, which that of a row that is there is not.
func (f *fields) absent() bool { return len(f.values) > 0 && f.values[0] == nil }

func (f *fields) text() string {
	value := f.next()
	text, ok := value.(string)
	if !ok {
		f.fail(value, "a text")
	}
	return text
}

func (f *fields) number() uint64 {
	value := f.next()
	switch v := value.(type) {
	case int64:
		return uint64(v)
	case string:
		n, err := strconv.ParseUint(v, 10, 64)
		if err == nil {
			return n
		}
	}
	f.fail(value, "a number")
	return 0
}

// optional is a text that may be absent; empty then.
func (f *fields) optional() string {
	if f.absent() {
		f.next()
		return ""
	}
	return f.text()
}

func (f *fields) flag() bool { return f.text() == "1" }

func (f *fields) instant() time.Time { return time.UnixMicro(int64(f.number())).UTC() }

func (f *fields) duration() time.Duration { return time.Duration(f.number()) * time.Microsecond }

func flag(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// keep takes over the failure of a nested array.
func (f *fields) keep(nested *fields) {
	if f.err == nil {
		f.err = nested.err
	}
}
