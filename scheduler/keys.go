package scheduler

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"strings"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
)

// keys are the concurrency keys of a job's runs that have its room ([jobs.Job].ConcurrencyKey).
type keys struct {
	busy    map[string]int // how many of them have that key: one, unless another leader let more start
	unknown int            // how many have arguments that were not read yet
	reading int            // how many arguments are being read
}

// runKey is the concurrency key of a run.
type runKey struct {
	value  string // as JSON; empty: none
	known  bool   // its arguments were read
	reads  bool   // they are being read
	counts bool   // the run is among the keys of its job
}

// keysAtOnce is how many arguments are read at a time: those of runs that are next in line.
const keysAtOnce = 8

// shift counts a run that moves to another phase.
func (k *keys) shift(r *run, to plan.Phase) {
	switch is := to.HasRoom(); {
	case is && !r.key.counts && r.entry.job.ConcurrencyKey != "":
		r.key.counts = true
		k.count(r, 1)
	case !is && r.key.counts:
		r.key.counts = false
		k.count(r, -1)
	}
}

func (k *keys) count(r *run, by int) {
	if !r.key.known && r.record.HasArgs {
		k.unknown += by
	} else if r.key.value != "" {
		if k.busy == nil {
			k.busy = map[string]int{}
		}
		if k.busy[r.key.value] += by; k.busy[r.key.value] == 0 {
			delete(k.busy, r.key.value)
		}
	}
}

// awaitsKey reports whether a run waits for another one with its key, or until the keys are known: then known is called.
func (t *term) awaitsKey(r *run, known func()) bool {
	e := r.entry
	if e.job.ConcurrencyKey == "" || !r.record.HasArgs || t.role == serves { // the leader has seen to it
		return false
	}
	t.readKey(r, known)
	return !r.key.known || r.key.value != "" && (e.keys.unknown > 0 || e.keys.busy[r.key.value] > 0)
}

// readKeys reads the keys of runs that have the room of a job: another leader has started them.
func (t *term) readKeys(e *entry, known func()) {
	if e.keys.unknown == 0 || t.role == serves {
		return
	}
	for _, r := range e.runs {
		if r.key.counts {
			t.readKey(r, known)
		}
	}
}

// readKey reads the key of a run, unless it is known or being read.
func (t *term) readKey(r *run, known func()) {
	k := &r.entry.keys
	if r.key.known || r.key.reads || !r.record.HasArgs || k.reading >= keysAtOnce {
		return
	}
	r.key.reads = true
	k.reading++
	key, name := r.record.Key, r.entry.job.ConcurrencyKey
	t.beside(func(v *env) {
		args, err := v.args(v.ctx, key)
		if err != nil && !errors.Is(err, jobs.ErrNoRun) { // else it is over
			return // the term is over
		}
		v.do(func(t *term) {
			r.key.reads = false
			k.reading--
			if r.key.counts {
				k.count(r, -1)
			}
			r.key.known, r.key.value = true, keyOf(args, name)
			if r.key.counts {
				k.count(r, 1)
			}
			known()
		})
	})
}

// keyOf is a member of arguments, as JSON that is the same for the same value, however that was written; empty: they
// have none of that name.
func keyOf(args json.RawMessage, name string) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(args, &members) != nil || len(members[name]) == 0 {
		return ""
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(members[name]))
	decoder.UseNumber()
	_ = decoder.Decode(&value) // it was read just now
	text, _ := json.Marshal(plainNumbers(value))
	return string(text)
}

// plainNumbers writes the numbers of a JSON value in one way each.
func plainNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		const most, bits = 100, 256 // 77 digits
		mantissa, _, _ := strings.Cut(strings.ToLower(v.String()), "e")
		small, err := v.Float64()
		switch {
		case !strings.ContainsAny(mantissa, "123456789"):
			return 0
		case err != nil || small == 0 || len(v) > most: // a large exponent takes long to write out
			return value
		}
		f, _, _ := big.ParseFloat(v.String(), 10, bits, big.ToNearestEven) // it was read just now
		return json.RawMessage(f.Text('e', -1))
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = plainNumbers(v[name])
		}
	}
	return value
}
