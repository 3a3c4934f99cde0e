package execjob

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// own are the children that this process has started itself, and waits for.
var own = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

// startOwn calls start, which starts a child, and keeps the child from being
// reaped by [ReapOrphans] until disown is called.
func startOwn(start func() (pid int, err error)) error {
	own.Lock()
	defer own.Unlock()
	pid, err := start()
	if err == nil {
		own.pids[pid] = true
	}
	return err
}

func disown(pid int) {
	own.Lock()
	defer own.Unlock()
	delete(own.pids, pid)
}

// ReapOrphans frees the children that have ended and that this process has not
// started, until ctx ends. It is for the first process of a container: it
// becomes the parent of every process whose own parent has died, such as the job
// of a guard that was killed, and their entries would fill the process table.
func ReapOrphans(ctx context.Context) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	defer signal.Stop(died)
	// The list of children can miss one while another is reaped, and after the last
	// death no signal leads to another look.
	again := time.NewTicker(10 * time.Second)
	defer again.Stop()
	for {
		reapOrphans()
		select {
		case <-died:
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

func reapOrphans() {
	// While a child is started, it is not known yet whose it is.
	own.Lock()
	defer own.Unlock()
	pids, err := children()
	if err != nil {
		return // the next look finds them
	}
	for _, pid := range pids {
		if !own.pids[pid] {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}
