package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// endDrainBySignal has the second SIGTERM or SIGINT end the drain. When there is none
// to end, and from the third one on, such a signal ends the process, as the second one
// does without a drain: see main.
func endDrainBySignal(ctx context.Context, end func() bool) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	stopped := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for first := true; ; first = false {
			select {
			case s := <-signals:
				if first && stoppedBySignal(ctx) {
					continue // it is this one
				}
				signal.Stop(signals)
				if !end() {
					endBy(s)
				}
				return
			case <-stopped:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(stopped)
		<-ended
	}
}

// stoppedBySignal waits until ctx has ended, and reports whether a signal has ended it.
// Nothing else gives it a cause of its own, and errors.Is takes that for Canceled too.
func stoppedBySignal(ctx context.Context) bool {
	<-ctx.Done()
	return context.Cause(ctx) != context.Canceled //nolint:errorlint // see above
}

// endBy ends this process as the signal does that nothing handles.
func endBy(s os.Signal) {
	if self, err := os.FindProcess(os.Getpid()); err != nil || self.Signal(s) != nil {
		os.Exit(1) //nolint:revive // Windows cannot send it
	}
}
