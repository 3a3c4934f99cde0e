package peers

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronlease/cronlease/test/internal/percentiles"
)

// BenchmarkLock is how many locks a second so many workers of one process take and give back, each on a name of its own, and how much
// processor time of the process one of them takes, which other processes hardly change.
func BenchmarkLock(b *testing.B) {
	measureOnServers(b, func(b *testing.B, addr string, openers []opener) {
		var ways []way
		for _, o := range openers {
			if o.name != "redislock-10ms" && o.name != "redsync-10ms" { // nothing waits here
				w := o.open(b, addr)
				w.name = o.name
				ways = append(ways, w)
			}
		}
		for _, workers := range []int{1, 64, mostWorkers} {
			b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) { benchmarkLock(b, ways, workers) })
		}
	})
}

func benchmarkLock(b *testing.B, ways []way, workers int) {
	const turns, turn = 4, 500 * time.Millisecond
	done := make([]int64, len(ways))
	took, used := make([]time.Duration, len(ways)), make([]time.Duration, len(ways))
	run := func(w way, length time.Duration) (int64, time.Duration) {
		var n atomic.Int64
		var all sync.WaitGroup
		begin := time.Now()
		for i := range workers {
			key := fmt.Sprint("worker-", i)
			all.Go(func() {
				for time.Since(begin) < length {
					l, err := w.lock(b.Context(), key)
					if err == nil {
						err = l.unlock(b.Context())
					}
					if err != nil {
						b.Errorf("%s: %v", w.name, err)
						return
					}
					n.Add(1)
				}
			})
		}
		all.Wait()
		return n.Load(), time.Since(begin)
	}
	for _, w := range ways {
		run(w, 200*time.Millisecond) // connections are open, and nodes exist
	}
	for b.Loop() {
		for range turns {
			for i, w := range ways {
				before := processorTime()
				n, t := run(w, turn)
				done[i] += n
				took[i] += t
				used[i] += processorTime() - before
			}
		}
	}
	for i, w := range ways {
		b.ReportMetric(float64(done[i])/took[i].Seconds(), w.name+"-locks/s")
		if used[i] > 0 {
			b.ReportMetric(float64(used[i].Microseconds())/float64(done[i]), w.name+"-cpu-µs/lock")
		}
	}
	b.ReportMetric(0, "ns/op")
}

// processorTime is what this process has used, in steps of 10 ms. It is 0 where there is no /proc.
func processorTime() time.Duration {
	text, err := os.ReadFile("/proc/self/stat")
	_, after, found := strings.Cut(string(text), ") ")
	if f := strings.Fields(after); err == nil && found && len(f) > 12 {
		user, _ := strconv.ParseInt(f[11], 10, 64)
		system, _ := strconv.ParseInt(f[12], 10, 64)
		return time.Duration(user+system) * 10 * time.Millisecond
	}
	return 0
}

// BenchmarkHandOver is how long one process waits from the moment in which another one begins to give the lock back.
func BenchmarkHandOver(b *testing.B) {
	measureOnServers(b, func(b *testing.B, addr string, openers []opener) {
		const times = 20
		took := make([][]time.Duration, len(openers))
		pairs := make([][2]way, len(openers))
		for i, o := range openers {
			pairs[i] = [2]way{o.open(b, addr), o.open(b, addr)}
		}
		for b.Loop() {
			for n := range times {
				for i := range openers {
					took[i] = append(took[i], handOver(b, pairs[i][n%2], pairs[i][1-n%2], time.Duration(150+7*n)*time.Millisecond))
				}
			}
		}
		for i, o := range openers {
			percentiles.Report(b, o.name+"-", took[i])
		}
	})
}

// handOver gives a lock from one to the other once that has waited so long.
func handOver(b *testing.B, from, to way, wait time.Duration) time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	l, err := from.lock(ctx, "handover")
	if err != nil {
		b.Fatal(err)
	}
	got := make(chan time.Time, 1)
	go func() {
		l, err := to.lock(ctx, "handover")
		got <- time.Now()
		if err == nil {
			err = l.unlock(ctx)
		}
		if err != nil {
			b.Error(err)
		}
		close(got)
	}()
	<-time.After(wait)
	begin := time.Now()
	if err := l.unlock(ctx); err != nil {
		b.Fatal(err)
	}
	took := (<-got).Sub(begin)
	<-got
	return took
}
