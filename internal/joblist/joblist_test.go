package joblist_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cronlease/cronlease/internal/joblist"
	"github.com/cronlease/cronlease/jobs"
)

func decode(t *testing.T, parts [][]byte) map[string]jobs.ScheduleHash {
	t.Helper()
	list := map[string]jobs.ScheduleHash{}
	for _, part := range parts {
		if len(part) > 400<<10 {
			t.Errorf("a part of %d bytes", len(part))
		}
		if err := joblist.Decode(part, list); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// The most that a replica may have, with names that cannot be made shorter.
func TestManyLongNames(t *testing.T) {
	t.Parallel()
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._"
	list := map[string]jobs.ScheduleHash{}
	for len(list) < 10_000 {
		name := make([]byte, 128)
		for i := range name {
			name[i] = letters[rand.N(len(letters))]
		}
		list[string(name)] = jobs.ScheduleHash(rand.Uint64())
	}
	if got := decode(t, joblist.Encode(jobs.Replica{Jobs: list})); !maps.Equal(got, list) {
		t.Errorf("%d jobs became %d others", len(list), len(got))
	}
}

func TestNoJobs(t *testing.T) {
	t.Parallel()
	parts := joblist.Encode(jobs.Replica{})
	if got := decode(t, parts); len(parts) != 1 || len(got) != 0 {
		t.Errorf("no jobs became %d parts and %v", len(parts), got)
	}
}

func TestDamagedParts(t *testing.T) {
	t.Parallel()
	part := joblist.Encode(jobs.Replica{Jobs: map[string]jobs.ScheduleHash{"a": 1, "report": 2}})[0]
	for name, bad := range map[string][]byte{
		"empty":          nil,
		"another format": append([]byte{9}, part[1:]...),
		"cut":            part[:len(part)-3],
		"not compressed": {1, 2, 3, 4},
	} {
		if err := joblist.Decode(bad, map[string]jobs.ScheduleHash{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Of replicas that are being written, some parts are of the list before, or missing.
func TestOnlyCompleteReplicas(t *testing.T) {
	t.Parallel()
	row := func(owner string, list uint64, part, parts int) joblist.Row {
		return joblist.Row{Replica: jobs.Replica{Owner: owner, List: list}, Part: part, Parts: parts}
	}
	got := joblist.Complete([]joblist.Row{
		row("c", 1, 0, 1),
		row("a", 2, 0, 2), row("a", 2, 1, 2), row("a", 1, 2, 3), // shorter than before
		row("first", 2, 0, 2), row("first", 1, 1, 2),
		row("second", 1, 0, 2), row("second", 2, 1, 2),
		row("missing", 1, 0, 2), row("no first", 1, 1, 2),
		row("damaged", 1, 0, math.MaxInt), // which takes no time
	})
	if len(got) != 2 || got[0].Owner != "a" || got[1].Owner != "c" {
		t.Errorf("complete are %s, want a and c", fmt.Sprint(got))
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(joblist.Encode(jobs.Replica{Jobs: map[string]jobs.ScheduleHash{"a": 1}})[0])
	f.Fuzz(func(t *testing.T, part []byte) {
		list := map[string]jobs.ScheduleHash{}
		if joblist.Decode(part, list) == nil {
			if got := decode(t, joblist.Encode(jobs.Replica{Jobs: list})); !maps.Equal(got, list) {
				t.Errorf("%v became %v", list, got)
			}
		}
	})
}

// Rows of more parts than a list can have are no list, and take no memory.
func TestTooManyParts(t *testing.T) {
	t.Parallel()
	text := joblist.Encode(jobs.Replica{Jobs: map[string]jobs.ScheduleHash{"job": 1}})[0]
	const many = joblist.MostParts + 1
	parts := joblist.NewParts(1)
	var rows []joblist.Row
	for i := range many {
		parts.Add(i, many, 1, text)
		rows = append(rows, joblist.Row{Replica: jobs.Replica{Owner: "a", List: 1}, Part: i, Parts: many})
	}
	if got := parts.Jobs(); len(got) > 0 {
		t.Errorf("%v", got)
	}
	if got := joblist.Complete(rows); len(got) > 0 {
		t.Errorf("%v", got)
	}
}
