package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// Two workers share the runs of a group that is spread, and the group is switched while it is at work.
func TestSpread(t *testing.T) {
	t.Parallel()
	plain := configure(t, `
  - {name: a, every: 1s, exec: ["true"]}
  - {name: b, every: 1s, exec: ["true"]}
  - {name: long, manual: true, exec: [sleep, "6"]}
`)
	text, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimSuffix(plain, ".yaml") + "-spread.yaml"
	if err := os.WriteFile(path, append(text, "\nspread: true\n"...), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, args := range [][]string{{}, {"yes"}, {"on", "off"}} {
		if r := command(t, append([]string{"spread", "--config", path}, args...)...); exitCode(r.err) != 2 || !strings.Contains(r.err.Error(), "expected on or off") {
			t.Errorf("spread %q: %+v", args, r)
		}
	}

	workers := []*worker{startWorker(t, "run", "--config", path), startWorker(t, "run", "--config", path)}
	for _, w := range workers {
		w.await("a run on each worker", func(line map[string]any) bool { return line["msg"] == "run succeeded" })
	}
	if r := command(t, "spread", "on", "--json", "--config", path); r.err != nil || r.stdout != `{"group":"billing","spread":true,"leads":true}`+"\n" {
		t.Errorf("a group that is spread already: %+v", r)
	}
	// While a run goes on, the leader does not hand over: a switch that is taken back has not happened.
	if r := command(t, "trigger", "long", "--config", path); r.err != nil {
		t.Errorf("trigger: %+v", r)
	}
	began := make(chan struct{}, len(workers))
	for _, w := range workers {
		go func() {
			if w.comesTo(about("long", "run started")) {
				began <- struct{}{}
			}
		}()
	}
	select {
	case <-began:
	case <-time.After(limit):
		t.Fatal("the run has not begun")
	}
	if r := command(t, "spread", "off", "--wait", "500ms", "--config", path); exitCode(r.err) != 1 {
		t.Errorf("while a run goes on: %+v", r)
	}
	if r := command(t, "spread", "on", "--wait", "500ms", "--config", path); r.err != nil {
		t.Errorf("taken back: %+v", r)
	}
	if r := command(t, "spread", "off", "--wait", "500ms", "--config", path); exitCode(r.err) != 1 {
		t.Errorf("off, again: %+v", r)
	}
	r := command(t, "spread", "off", "--wait", "1s", "--config", path) // once more, and it has not happened
	if exitCode(r.err) != 1 || !strings.Contains(r.err.Error(), "no worker of that mode has begun to lead within 1s") {
		t.Errorf("without a worker of that mode: %+v", r)
	}
	leader := startWorker(t, "run", "--config", plain)
	leader.awaitMessage("leading")
	leader.await("a run", about("a", "run succeeded"))
	if r := command(t, "trigger", "long", "--config", path); r.err != nil {
		t.Errorf("trigger: %+v", r)
	}
	if r := command(t, "spread", "on", "--config", path); r.err != nil || r.stdout != "billing: its runs are spread over its workers\n" {
		t.Errorf("back: %+v", r)
	}
	for _, record := range decode[[]runRecord](t, command(t, "runs", "--json", "--limit", "1000", "--config", path)) {
		if record.State == "interrupted" || record.State == "cancelled" {
			t.Errorf("got %+v", record)
		}
	}
	started := map[string]int{} // an attempt that was assigned, and withdrawn by the switch, has not
	for _, w := range append(workers, leader) {
		if code := w.stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		for _, line := range w.lines {
			if line["msg"] == "run started" {
				started[fmt.Sprint(line["job"], line["tick"])]++
			}
		}
	}
	for run, times := range started {
		if times > 1 {
			t.Errorf("%s started %d times", run, times)
		}
	}
}

// A worker that comes to an idle group gets its part of what is due next.
func TestSpreadIdle(t *testing.T) {
	t.Parallel()
	path := configure(t, `
  - {name: a, manual: true, overlap: allow, exec: ["true"]}
`)
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString("\nspread: true\n")
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	first := startWorker(t, "run", "--config", path)
	first.awaitMessage("leading")
	trigger := func() error { return command(t, "trigger", "a", "--wait", "--config", path).err }
	for began := time.Now(); trigger() != nil; { // the first worker has its session afterwards
		if time.Since(began) > limit {
			t.Fatal("the first worker does not run what is triggered")
		}
	}
	second := startWorker(t, "run", "--config", path)
	second.awaitMessage("started")
	began, ran := time.Now(), make(chan bool)
	go func() {
		second.await("a run", about("a", "run succeeded"))
		close(ran)
	}()
	for n := 0; ; n++ {
		select {
		case <-ran:
			t.Logf("after %v and %d runs", time.Since(began), n)
			return
		default:
		}
		if time.Since(began) > 7*time.Second { // a look at the roster comes after 10 s
			t.Fatal("the second worker is given nothing")
		}
		if err := trigger(); err != nil {
			t.Fatal(err)
		}
	}
}
