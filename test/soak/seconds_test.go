//go:build linux

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

func TestSeconds(t *testing.T) {
	t.Parallel()
	var s seconds
	s.add(nil)
	if ran, missing, doubled := s.total(); ran+missing+doubled != 0 {
		t.Errorf("of nothing: %d, %d, %d", ran, missing, doubled)
	}
	s.add([]secondTick{{0, 1000}, {0, 1001}, {1, 1004}, {0, 1004}})
	s.add([]secondTick{{0, 1001}, {1, 1003}, {2, 998}, {1, 1005}}) // by another worker, later
	ran, missing, doubled := s.total()
	if ran != 7 || missing != 2 || doubled != 1 {
		t.Errorf("%d run, %d missing, %d doubled; want 7, 2 and 1", ran, missing, doubled)
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	record := func(unix int64, state jobs.State) jobs.Record {
		return jobs.Record{Key: jobs.Key{Job: "second-00", Tick: time.Unix(unix, 0).UTC()}, State: state, Attempt: 1}
	}
	good := []jobs.Record{record(1002, jobs.Succeeded), record(1001, jobs.Succeeded), record(1000, jobs.Succeeded)}
	if wrong := differences(good, 1000, 3); wrong != nil {
		t.Errorf("of good ones: %q", wrong)
	}
	if wrong := differences(append(slices.Clone(good), record(1003, jobs.Waiting)), 1000, 3); wrong != nil {
		t.Errorf("with one that is left to the next leader: %q", wrong)
	}
	byHand := record(1001, jobs.Succeeded)
	byHand.Trigger = 7
	for _, c := range []struct {
		want    string
		records []jobs.Record
	}{
		{"00:16:41Z is there 0 times", slices.Delete(slices.Clone(good), 1, 2)},
		{"00:16:41Z is there 2 times", append(slices.Clone(good), good[1])},
		{"00:16:42Z: interrupted", append(slices.Clone(good[1:]), record(1002, jobs.Interrupted))},
		{"00:16:42Z: waiting", append(slices.Clone(good[1:]), record(1002, jobs.Waiting))},
		{"00:16:43Z, running, which did not run", append(slices.Clone(good), record(1003, jobs.Running))},
		{"00:16:41Z, succeeded, which did not run", append(slices.Clone(good), byHand)},
	} {
		wrong := differences(c.records, 1000, 3)
		if len(wrong) != 1 || !strings.Contains(wrong[0], c.want) {
			t.Errorf("got %q, want one with %q", wrong, c.want)
		}
	}
}
