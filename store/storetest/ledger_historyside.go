package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// side is one of the two stores of a history.
type side struct {
	store.Jobs
	ctx     context.Context
	name    string
	group   string
	server  string
	marks   []time.Time // its clock before and after each call
	tokens  []uint64    // of its terms, the first one is nobody's
	changes uint64
	manual  map[int]jobs.Key  // the runs that were asked for
	chosen  map[jobs.Key]bool // the store has chosen their Trigger

	// Nil where the store of the test has none.
	archive  store.Archive
	replicas store.Replicas
	spreads  store.Spreads
}

func isZero(answer any) bool {
	switch v := reflect.ValueOf(answer); v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

// mark reads the clock and the number of changes. Of two instants of different calls, one is earlier.
func (s *side) mark(h *history) {
	pause := func() {
		for begin := time.Now(); time.Since(begin) < 5*time.Microsecond; {
			runtime.Gosched()
		}
	}
	pause()
	c, err := s.Changes(s.ctx, s.group)
	for first := c.Now; err == nil && first.Equal(c.Now) && first.Truncate(time.Millisecond).Equal(first); {
		c, err = s.Changes(s.ctx, s.group) // a clock of milliseconds may not have advanced since the call
	}
	if err != nil {
		h.Fatalf("%s: Changes: %v", s.name, err)
	}
	s.marks, s.changes = append(s.marks, c.Now), c.Number
	pause()
}

// label gives an instant of the database's clock the number of the call in which it was, and leaves planned ones. All
// delays are whole hours, and no history takes one.
func (s *side) label(at time.Time) time.Time {
	first, last := s.marks[0], s.marks[len(s.marks)-1]
	if at.Year() < last.Year()-1 || at.Year() > last.Year()+1 {
		return at.UTC()
	}
	var shift time.Duration
	if at.After(last) {
		shift = (at.Sub(last) + time.Hour - 1).Truncate(time.Hour)
	} else if at.Before(first) {
		shift = -(first.Sub(at) + time.Hour - 1).Truncate(time.Hour)
	}
	at = at.Add(-shift)
	call, exact := slices.BinarySearchFunc(s.marks, at, time.Time.Compare)
	if !exact {
		call--
	}
	return time.Unix(int64(call), 0).UTC().Add(shift)
}

// show prints an answer without what differs by itself.
func (s *side) show(answer any) string {
	if isZero(answer) {
		return "nothing"
	}
	return fmt.Sprintf("%+v", s.relabel(reflect.ValueOf(answer)))
}

// relabel copies a value, with labels for instants, tokens and numbers of runs.
func (s *side) relabel(v reflect.Value) reflect.Value {
	switch one := v.Interface().(type) {
	case time.Time:
		if one.IsZero() {
			return v
		}
		return reflect.ValueOf(s.label(one))
	case jobs.Key:
		if s.chosen[one] {
			return reflect.ValueOf(jobs.Key{Job: one.Job, Tick: s.label(one.Tick), Trigger: math.MaxUint64})
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		c := reflect.New(v.Type()).Elem()
		c.Set(v)
		for i := range c.NumField() {
			if v.Type().Field(i).IsExported() {
				c.Field(i).Set(s.relabel(v.Field(i)))
			}
		}
		return c
	case reflect.Slice:
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			c.Index(i).Set(s.relabel(v.Index(i)))
		}
		return c
	case reflect.Map:
		c := reflect.MakeMap(v.Type())
		for key, value := range v.Seq2() {
			if value.Kind() == reflect.Slice && value.Len() == 0 {
				continue // as if there were none
			}
			c.SetMapIndex(s.relabel(key), s.relabel(value))
		}
		return c
	case reflect.Uint64:
		if term := slices.Index(s.tokens, v.Uint()); term > 0 {
			return reflect.ValueOf(uint64(term)).Convert(v.Type())
		}
	}
	return v
}

// inOrder are open runs, of which those of one tick have no order of their own.
func inOrder(open []jobs.Record) []jobs.Record {
	slices.SortFunc(open, func(a, b jobs.Record) int {
		return cmp.Or(a.Tick.Compare(b.Tick), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Trigger, b.Trigger))
	})
	return open
}

// rows is what a store shows of the group, each thing a line.
func (s *side) rows(h *history) []string {
	var lines []string
	add := func(what string, answer any, err error) {
		if err != nil && !errors.Is(err, jobs.ErrNoRun) {
			h.Fatalf("%s: %s: %v", s.name, what, err)
		}
		lines = append(lines, what+": "+s.show(answer))
	}
	snapshot, err := s.Load(s.ctx, s.group)
	snapshot.Server, snapshot.Cluster, snapshot.Changes, snapshot.Now = "", "", 0, time.Time{}
	open := inOrder(snapshot.Open)
	snapshot.Open = nil
	add("Load", snapshot, err)
	add("open runs", open, nil)
	for _, owner := range append([]string{""}, historyOwners...) {
		if s.spreads != nil {
			snapshot, err := s.spreads.Open(s.ctx, s.group, owner)
			snapshot.Server, snapshot.Cluster, snapshot.Changes, snapshot.Now, snapshot.Open = "", "", 0, time.Time{}, inOrder(snapshot.Open)
			add("Open of "+owner, snapshot, err)
		}
	}
	runs, err := s.Runs(s.ctx, s.group, jobs.Filter{Limit: all})
	add("how many runs", len(runs), err)
	for _, filter := range []jobs.Filter{
		{}, {Job: report}, {Job: cleanup, State: jobs.Skipped}, {State: jobs.Waiting}, {Since: tick(2), Until: tick(4)},
		{Job: report, Since: tick(1), Until: tick(5)}, {State: jobs.Running, Since: tick(2), Until: tick(6)},
	} {
		for filter.Limit = 3; ; { // page by page
			page, err := s.Runs(s.ctx, s.group, filter)
			add("some runs", page, err)
			if len(page) < filter.Limit {
				break
			}
			filter.Behind = page[len(page)-1].Key
		}
	}
	for _, r := range runs {
		add("run", r, nil)
		args, err := s.Args(s.ctx, s.group, r.Key)
		add("its arguments", string(args), err)
		if s.archive != nil {
			attempts, err := s.archive.Attempts(s.ctx, s.group, r.Key)
			add("its attempts", attempts, err)
		}
	}
	if s.archive == nil {
		return lines
	}
	for _, filter := range []jobs.AuditFilter{{Limit: all}, {Limit: 5}, {Job: report, Limit: 3}} {
		for {
			entries, err := s.archive.Audit(s.ctx, s.group, filter)
			for i := range entries {
				filter.Before, entries[i].ID = entries[i].ID, 0
			}
			add("audit", entries, err)
			if len(entries) < filter.Limit {
				break
			}
		}
	}
	terms, err := s.archive.Terms(s.ctx, s.group, jobs.TermFilter{Limit: all})
	add("terms", terms, err)
	names, err := s.archive.Names(s.ctx, s.group)
	add("names", names, err)
	some, err := s.archive.LoadOf(s.ctx, s.group, []string{report, "unknown"})
	some.Server, some.Cluster, some.Changes, some.Now, some.Open = "", "", 0, time.Time{}, inOrder(some.Open)
	add("LoadOf", some, err)
	for _, over := range []bool{false, true} {
		newest, err := s.archive.Newest(s.ctx, s.group, jobs.Newest{Jobs: historyJobs, Over: over, Limit: 2, Since: tick(1)})
		add("newest runs", newest, err)
	}
	return lines
}
