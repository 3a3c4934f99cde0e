package locks

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// line makes a queue of one process from a text: w and r wait, W and R have the
// lock with token 1.
func line(text string) queue {
	q := queue{Processes: []process{{Group: "locks/a", Token: 1}}}
	for i, kind := range text {
		p := place{ID: fmt.Sprintf("locks/a.%d", i), Read: strings.ContainsRune("rR", kind)}
		if strings.ContainsRune("RW", kind) {
			p.Granted = 1
		}
		q.Places = append(q.Places, p)
	}
	return q
}

func (q queue) text() string {
	var b strings.Builder
	for _, p := range q.Places {
		kind := "w"
		if p.Read {
			kind = "r"
		}
		if p.Granted > 0 {
			kind = strings.ToUpper(kind)
		}
		b.WriteString(kind)
	}
	return b.String()
}

func TestQueueGrants(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, after string }{
		{"", ""},
		{"w", "W"},
		{"r", "R"},
		{"W", "W"},
		{"Ww", "Ww"},
		{"Wr", "Wr"},
		{"ww", "Ww"},
		{"rrr", "RRR"},
		{"Rr", "RR"},
		{"Rwr", "Rwr"},
		{"RRwrw", "RRwrw"},
		{"rwr", "Rwr"},
		{"wrr", "Wrr"},
		{"rrwr", "RRwr"},
	} {
		q := line(c.before)
		granted := q.grant(7, 70)
		if q.text() != c.after {
			t.Errorf("%q becomes %q, want %q", c.before, q.text(), c.after)
		}
		for _, p := range granted {
			if p.Granted != 7 || p.Got != 70 || !reflect.DeepEqual(*q.find(p.ID), p) {
				t.Errorf("%q: was given %+v", c.before, p)
			}
		}
		if want := strings.Count(c.after, "W") + strings.Count(c.after, "R") - strings.Count(c.before, "W") - strings.Count(c.before, "R"); len(granted) != want {
			t.Errorf("%q: %d were given it, want %d", c.before, len(granted), want)
		}
		if again := q.grant(8, 80); len(again) > 0 {
			t.Errorf("%q: %d were given it twice", c.before, len(again))
		}
	}
}

func TestQueueFree(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line        string
		write, read bool
	}{
		{"", true, true},
		{"W", false, false},
		{"w", false, false},
		{"R", false, true},
		{"RR", false, true},
		{"Rw", false, false},
	} {
		q := line(c.line)
		if q.free(false) != c.write || q.free(true) != c.read {
			t.Errorf("%q: free for a writer %v, for a reader %v", c.line, q.free(false), q.free(true))
		}
	}
}

// modelled is a place in a naive model of a queue.
type modelled struct {
	id    string
	read  bool
	of    process
	token uint64
}

// entitled reports whether a place holds the lock, by the definition alone.
func entitled(line []modelled, at int) bool {
	for _, before := range line[:at] {
		if !before.read || !line[at].read {
			return false
		}
	}
	return true
}

// Any sequence of joining, leaving, dying processes and grants, with the row
// written and read between any two, is what the model says.
func TestQueueModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var (
			q       queue
			model   []modelled
			number  int
			version uint64 // of the row
			highest uint64 // token ever granted
		)
		processes := make([]process, 4)
		for i := range processes {
			processes[i] = process{Group: fmt.Sprint("locks/", i/2), Token: uint64(1 + i%2), Owner: fmt.Sprint("o", i), TTL: time.Second, Address: fmt.Sprint("b", i)}
		}
		remove := func(t *rapid.T, gone func(modelled) bool) {
			before := len(model)
			ids := map[string]bool{}
			for _, m := range model {
				if gone(m) {
					ids[m.id] = true
				}
			}
			model = slices.DeleteFunc(model, gone)
			if changed := q.keep(func(_ process, p place) bool { return !ids[p.ID] }); changed != (len(model) < before) {
				t.Fatalf("keep reports a change: %v", changed)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				number++
				m := modelled{fmt.Sprintf("id.%d", number), rapid.Bool().Draw(t, "read"), rapid.SampledFrom(processes).Draw(t, "process"), 0}
				if free := len(model) == 0 || m.read && !slices.ContainsFunc(model, func(o modelled) bool { return !o.read }); q.free(m.read) != free {
					t.Fatalf("free(%v): %v", m.read, !free)
				}
				model = append(model, m)
				q.join(m.of, place{ID: m.id, Read: m.read, Granted: 99}) // a new place is not granted, whatever its fields are
			},
			"leave": func(t *rapid.T) {
				if len(model) == 0 {
					return // there is no place to remove
				}
				id := rapid.SampledFrom(model).Draw(t, "who").id
				remove(t, func(m modelled) bool { return m.id == id })
			},
			"die": func(t *rapid.T) {
				dead := rapid.SampledFrom(processes).Draw(t, "process")
				remove(t, func(m modelled) bool { return m.of.sessionID() == dead.sessionID() })
			},
			"grant": func(t *rapid.T) {
				version++
				var want []string
				for i := range model {
					if model[i].token == 0 && entitled(model, i) {
						model[i].token = version
						want = append(want, model[i].id)
					}
				}
				var got []string
				for _, p := range q.grant(version, 1) {
					if p.Granted <= highest {
						t.Fatalf("token %d after %d", p.Granted, highest)
					}
					got = append(got, p.ID)
				}
				if len(got) > 0 {
					highest = version
				}
				if !slices.Equal(got, want) {
					t.Fatalf("given to %v, want %v", got, want)
				}
			},
			"write and read": func(t *rapid.T) {
				row := q.encode()
				if (row == nil) != (len(model) == 0) {
					t.Fatalf("row %q of %d places", row, len(model))
				}
				back, err := decode("x", row)
				if err != nil {
					t.Fatal(err)
				}
				q = back
			},
			"copy": func(t *rapid.T) {
				old := q
				q = q.clone()
				for i := range old.Places {
					old.Places[i] = place{}
				}
				for i := range old.Processes {
					old.Processes[i] = process{}
				}
			},
			"": func(t *rapid.T) {
				if len(q.Places) != len(model) {
					t.Fatalf("%d places, want %d", len(q.Places), len(model))
				}
				used := map[int]bool{}
				writers, readers := 0, 0
				for i, p := range q.Places {
					m := model[i]
					if p.ID != m.id || p.Read != m.read || p.Granted != m.token || q.Processes[p.Process].sessionID() != m.of.sessionID() {
						t.Fatalf("place %d is %+v of %+v, want %+v", i, p, q.Processes[p.Process], m)
					}
					if q.find(p.ID) != &q.Places[i] {
						t.Fatalf("find(%q)", p.ID)
					}
					used[p.Process] = true
					switch {
					case p.Granted == 0:
					case p.Read:
						readers++
					default:
						writers++
					}
				}
				if writers > 1 || writers > 0 && readers > 0 {
					t.Fatalf("%d writers beside %d readers", writers, readers)
				}
				if len(used) != len(q.Processes) {
					t.Fatalf("%d processes, of which %d have a place", len(q.Processes), len(used))
				}
				for i, p := range q.Processes {
					if slices.IndexFunc(q.Processes, func(o process) bool { return o.sessionID() == p.sessionID() }) != i {
						t.Fatalf("process %v occurs twice", p.sessionID())
					}
				}
			},
		})
	})
}

func TestQueueRoundTrip(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{`"`, `\`, `\"id\":\"`, "</script>", "\x00", "\xff", "\u2028"}))
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		for i := range rapid.IntRange(1, 4).Draw(t, "processes") {
			q.Processes = append(q.Processes, process{
				Group: fmt.Sprint("locks/", i), Token: rapid.Uint64().Draw(t, "token"), Owner: strings.ToValidUTF8(text.Draw(t, "owner"), ""),
				Started: rapid.Int64().Draw(t, "started"), TTL: time.Duration(rapid.Int64().Draw(t, "TTL")), Address: strings.ToValidUTF8(text.Draw(t, "address"), ""),
			})
		}
		for i := range rapid.IntRange(1, 6).Draw(t, "places") {
			q.Places = append(q.Places, place{
				ID: fmt.Sprint("locks/a.", i), Granted: rapid.Uint64().Draw(t, "granted"), Read: rapid.Bool().Draw(t, "read"),
				Since: rapid.Int64().Draw(t, "since"), Got: rapid.Int64().Draw(t, "got"), For: time.Duration(rapid.Int64().Draw(t, "for")),
				Label: strings.ToValidUTF8(text.Draw(t, "label"), ""), Process: rapid.IntRange(0, len(q.Processes)-1).Draw(t, "process"),
			})
		}
		back, err := decode("x", q.encode())
		if err != nil || !reflect.DeepEqual(q, back) {
			t.Fatalf("%+v becomes %+v, %v", q, back, err)
		}
	})
}

// The row contains a place's mark while the place holds the lock, and not while it
// waits, after it was granted the lock under another token, or once it is gone,
// whatever labels, owners and addresses contain.
func TestMarkCannotBeForged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var marks [][]byte
		for id := range 12 {
			for token := range uint64(4) {
				marks = append(marks, place{ID: fmt.Sprintf("locks/a.%d", id), Granted: token}.mark())
			}
		}
		forged := rapid.Custom(func(t *rapid.T) string {
			mark := string(rapid.SampledFrom(marks).Draw(t, "mark"))
			return rapid.SampledFrom([]string{mark, `"` + mark, `\` + mark, strings.ReplaceAll(mark, `"`, `\"`), mark[1:], `x"},{` + mark + `"x":"`}).Draw(t, "form")
		})
		var q queue
		q.Processes = []process{{Group: "locks/a", Token: 1, Owner: forged.Draw(t, "owner"), Address: forged.Draw(t, "address")}}
		for i := range rapid.IntRange(1, 12).Draw(t, "places") {
			q.Places = append(q.Places, place{ID: fmt.Sprintf("locks/a.%d", i), Granted: rapid.Uint64Range(0, 3).Draw(t, "granted"), Read: rapid.Bool().Draw(t, "read"), Label: forged.Draw(t, "label")})
		}
		row := q.encode()
		for id := range 12 {
			for token := range uint64(4) {
				wanted := place{ID: fmt.Sprintf("locks/a.%d", id), Granted: token}
				p := q.find(wanted.ID)
				if has := bytes.Contains(row, wanted.mark()); has != (p != nil && p.Granted == token) {
					t.Fatalf("mark %s in the row: %v\n%s", wanted.mark(), has, row)
				}
			}
		}
	})
}

// A row that is larger than any of this package is refused, and takes little
// memory: few bytes of JSON can become many.
func TestOversizedRows(t *testing.T) {
	t.Parallel()
	list := func(n int) string { return strings.Repeat("{},", n) + "{}" }
	for _, row := range []string{
		`{"processes":[{}],"places":[` + list(1_000_000) + `]}`,
		`{"places":[{}],"processes":[` + list(1_000_000) + `]}`,
		`{"processes":[{}],"places":[{}]}` + strings.Repeat(" ", rowMost),
		`{"processes":[{}],"places":{}}` + strings.Repeat(" ", rowSmall),
	} {
		q, err := decode("stock", []byte(row))
		if err == nil || !strings.Contains(err.Error(), "repair or delete it") || cap(q.Places)+cap(q.Processes) > 0 {
			t.Errorf("a row of %d bytes: %d and %d, %v", len(row), cap(q.Processes), cap(q.Places), err)
		}
	}
	small := `{"processes":[{}],"places":[{}]}`
	if q, err := decode("stock", []byte(small+strings.Repeat(" ", rowMost-len(small)))); err != nil || len(q.Places) != 1 {
		t.Errorf("a row of %d bytes: %v", rowMost, err)
	}
	// The largest one that can be written can be read. Labels are a small part of it.
	text := strings.Repeat("<", 128) // six bytes each in JSON
	var q queue
	for i := range placesMost {
		q.join(process{Group: fmt.Sprint("locks/", i, text)[:128], Token: math.MaxUint64, Owner: text, Started: math.MinInt64, TTL: math.MaxInt64, Address: text},
			place{ID: fmt.Sprint(i, text), Read: true, Since: math.MinInt64, Got: math.MinInt64, For: math.MaxInt64, Label: text})
	}
	q.clearFresh()
	row := q.encode()
	if n := strings.Count(string(row), `"label"`); n != labelsMost/MaxLabel {
		t.Errorf("%d places have a label of %d bytes", n, MaxLabel)
	}
	back, err := decode("stock", row)
	if err != nil || !reflect.DeepEqual(q, back) {
		t.Errorf("a row of %d bytes: %v", len(row), err)
	}
}

func TestMalformedRows(t *testing.T) {
	t.Parallel()
	for _, row := range []string{
		"x",
		"{",
		`[]`,
		`{"processes":[],"places":[{"id":"a","granted":1,"process":0}]}`,
		`{"processes":[{"group":"g","token":1}],"places":[{"id":"a","process":1}]}`,
		`{"processes":[{"group":"g","token":1}],"places":[{"id":"a","process":-1}]}`,
		`{"processes":[{"group":"g","token":-1}],"places":[]}`,
		`{"processes":[{"group":"g","token":1}],"places":[]} and more`,
	} {
		if _, err := decode("stock", []byte(row)); err == nil || !strings.Contains(err.Error(), `"stock"`) || !strings.Contains(err.Error(), "repair or delete it") {
			t.Errorf("row %s: %v", row, err)
		}
	}
	for _, row := range []string{"", `{"processes":[],"places":[]}`} {
		if q, err := decode("stock", []byte(row)); err != nil || len(q.Places) > 0 {
			t.Errorf("row %q: %+v, %v", row, q, err)
		}
	}
}

// A process is in the queue once, with the newest address.
func TestJoinKeepsTheAddress(t *testing.T) {
	t.Parallel()
	var q queue
	a := process{Group: "locks/a", Token: 1, Address: "one"}
	q.join(a, place{ID: "1"})
	a.Address = ""
	q.join(a, place{ID: "2"})
	if len(q.Processes) != 1 || q.Processes[0].Address != "one" {
		t.Errorf("%+v", q.Processes)
	}
	a.Address = "two"
	q.join(a, place{ID: "3"})
	if len(q.Processes) != 1 || q.Processes[0].Address != "two" {
		t.Errorf("%+v", q.Processes)
	}
}

// A queue of processes a to c: which are ahead of a place, and which of them can be
// woken.
func TestAheadAndAddresses(t *testing.T) {
	t.Parallel()
	var q queue
	for i, owner := range []string{"a", "b", "a", "c"} {
		q.join(process{Group: "locks/" + owner, Token: 1}, place{ID: fmt.Sprint(i)})
	}
	q.grant(7, 70)
	for id, want := range map[string][]string{"0": nil, "1": {"locks/a"}, "2": {"locks/a", "locks/b"}, "3": {"locks/a", "locks/b"}, "": {"locks/a", "locks/b", "locks/c"}} {
		var got []string
		for _, p := range q.ahead(id) {
			got = append(got, p.Group)
		}
		if !slices.Equal(got, want) {
			t.Errorf("ahead of %q: %q, want %q", id, got, want)
		}
	}
	addresses := func() string {
		var b []string
		for _, p := range q.Processes {
			b = append(b, p.Address)
		}
		return strings.Join(b, ",")
	}
	for _, step := range []struct {
		of      sessionID
		address string
		changed bool
		want    string
	}{
		{sessionID{"locks/a", 1}, "one", true, "one,,"}, // it holds the lock, and waits for it once more
		{sessionID{"locks/a", 1}, "one", false, "one,,"},
		{sessionID{"locks/a", 2}, "two", false, "one,,"}, // another session of that process
		{sessionID{"locks/c", 1}, "", false, "one,,"},
		{sessionID{"locks/c", 1}, "three", true, "one,,three"},
	} {
		if changed := q.setAddress(step.of, step.address); changed != step.changed || addresses() != step.want {
			t.Errorf("the address of %v is %q: %v, %q; want %v, %q", step.of, step.address, changed, addresses(), step.changed, step.want)
		}
	}
	q.keep(func(_ process, p place) bool { return p.ID != "2" })
	if !q.setAddress(sessionID{"locks/a", 1}, "one") || addresses() != ",,three" {
		t.Errorf("a process that does not wait has an address: %q", addresses())
	}
}
