//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// workerVariable makes this program a worker.
const workerVariable = "CRONLEASE_SOAK_WORKER"

// groupName is the group that the workers contend for.
const groupName = "soak"

// orders is the first line that a worker reads. The DSN is not among its arguments, where all users of the machine
// could read it.
type orders struct {
	DSN    string
	Label  string
	Number int // of the process, among all of the run
	Seed   uint64
	TTL    time.Duration
}

// What a worker is asked, a line each. It answers each with a report.
const (
	askReport = "report"
	askResign = "resign"
	askStacks = "stacks"
)

// report is an answer.
type report struct {
	Goroutines int
	Heap       uint64 // bytes, right after a collection
	Resigned   bool   // it led, and does not any more
	Counts     counts
	// Left is set in the last report: how many goroutines are left once all is closed, above what there was at the
	// start.
	Left int
	// Stacks says where the goroutines are, if it was asked for, and in the last report if some are left.
	Stacks string
}

// worker is a worker process: what cmd/worker makes of a configuration file, with jobs in Go, and the users of locks.
type worker struct {
	orders    orders
	store     *mysqlstore.Store
	locks     *locks.Client
	scheduler *scheduler.Scheduler
	tally     *tally
	log       *zap.Logger
}

// work is a worker process, from its orders to the end of its input. Everything has been closed then, which the last
// report tells of.
func work(in io.Reader, out io.Writer) error {
	before := runtime.NumGoroutine()
	w := &worker{tally: newTally()}
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.Join(errors.New("no orders"), lines.Err())
	}
	if err := json.Unmarshal(lines.Bytes(), &w.orders); err != nil {
		return fmt.Errorf("read the orders: %w", err)
	}
	answers := json.NewEncoder(out)
	err := w.run(lines, answers)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	left := runtime.NumGoroutine() - before
	for left > 0 && pause(ctx, 10*time.Millisecond) { // some end a moment after a Close
		left = runtime.NumGoroutine() - before
	}
	last := w.report() // collects garbage: a finalizer at work then would count as a goroutine
	if last.Left = left; left > 0 {
		last.Stacks = stacks()
	}
	return errors.Join(err, answers.Encode(last))
}

// run opens everything, answers until the end of the input, and closes everything.
func (w *worker) run(lines *bufio.Scanner, answers *json.Encoder) (err error) {
	// As a worker logs, but for what is done with it.
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zapcore.InfoLevel)
	w.log = zap.New(core, zap.Hooks(w.tally.logged))
	timing, err := lease.Timing{TTL: w.orders.TTL}.Complete()
	if err != nil {
		return err
	}
	if w.store, err = mysqlstore.Open(w.orders.DSN); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.store.Close()) }()
	w.scheduler, err = scheduler.New(w.store, groupName, scheduler.WithTiming(timing), scheduler.WithLabel(w.orders.Label),
		scheduler.WithLogger(w.log), scheduler.WithObserver(func(s election.State) {
			if s.Role == election.Leading {
				w.tally.led()
			}
		}))
	if err != nil {
		return err
	}
	if w.locks, err = locks.New(w.store, locks.WithTiming(timing), locks.WithLabel(w.orders.Label), locks.WithLogger(w.log)); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), timing.TTL)
		defer cancel()
		err = errors.Join(err, w.locks.Close(ctx))
	}()
	if err = w.scheduler.Add(w.jobs()...); err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(context.Background())
	var beside sync.WaitGroup
	ended := make(chan error, 1)
	beside.Go(func() { ended <- w.scheduler.Run(ctx) })
	for i := range users {
		beside.Go(func() { w.user(ctx, i) })
	}
	err = w.answer(lines, answers)
	cancel()
	beside.Wait()
	return errors.Join(err, <-ended)
}

// answer answers until the end of the input.
func (w *worker) answer(lines *bufio.Scanner, answers *json.Encoder) error {
	for lines.Scan() {
		var (
			resigned bool
			where    string
			err      error
		)
		switch lines.Text() {
		case askReport:
		case askStacks:
			where = stacks()
		case askResign:
			if resigned, err = w.resign(); err != nil {
				return fmt.Errorf("resign: %w", err)
			}
		default:
			return fmt.Errorf("asked for %q", lines.Text())
		}
		r := w.report()
		r.Resigned, r.Stacks = resigned, where
		if err := answers.Encode(r); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
	return lines.Err()
}

// resign steps down if this worker leads.
func (w *worker) resign() (done bool, err error) {
	if w.scheduler.State().Role != election.Leading {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit/2)
	defer cancel()
	err = w.scheduler.Resign(ctx)
	if errors.Is(err, election.ErrNotLeading) {
		return false, nil
	}
	return err == nil, err
}

// stacks says where the goroutines are, the most frequent places first.
func stacks() string {
	var text strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&text, 1) // a builder returns no error
	return text.String()
}

// report measures this process.
func (w *worker) report() report {
	runtime.GC()
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(samples)
	return report{
		Goroutines: runtime.NumGoroutine(),
		Heap:       samples[0].Value.Uint64(),
		Counts:     w.tally.report(),
	}
}
