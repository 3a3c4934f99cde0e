package execjob

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killedWithGuard is what a worker kills of a job when its guard was killed.
const killedWithGuard = "session"

// guardAttributes gives each guard a session of its own, with the guard's number.
// The worker knows that number from the start. It learns the number of the job's
// process group from the guard, which may be killed before it has told.
func guardAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// killOrphans kills what is left of a job whose guard was killed: its process
// group, if that is known, and its session. It returns when all of that is dead.
//
// The number of a session cannot become another's while it has a process.
func killOrphans(session, group int) {
	// Nothing keeps the number of a group whose last process has ended: in a worker
	// that was suspended meanwhile, it may be another's. No process has it while the
	// group lives on without its first one.
	if of, err := unix.Getsid(group); group > 0 && (err != nil || of == session) {
		_ = syscall.Kill(-group, syscall.SIGKILL) // ESRCH: already gone
	}
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for killSession(session) > 0 {
		<-again.C
	}
}

// killSession kills the processes of a session as far as this one may (not those of
// sudo), and returns how many it was that were alive. They may have started others
// meanwhile.
func killSession(session int) (alive int) {
	all, err := processes()
	if err != nil {
		return 0 // no /proc: nothing tells which they are
	}
	for _, p := range all {
		if p.session != session || p.dead {
			continue
		}
		// The number may be another process's by now. From here on it stays with its
		// process, where the kernel has pidfd_open (Linux 5.3).
		process, err := os.FindProcess(p.pid)
		if err != nil {
			continue
		}
		if now, err := unix.Getsid(p.pid); err == nil && now == session && process.Kill() == nil {
			alive++
		}
		_ = process.Release()
	}
	return alive
}

// processInfo is what /proc tells of a process.
type processInfo struct {
	pid, parent, session int
	dead                 bool // and not reaped yet
}

// processes returns all processes that this one can see.
func processes() ([]processInfo, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []processInfo
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		// proc_pid_stat(5): pid (name) state parent group session ... threads ..., and
		// the name may hold anything.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		const state, parent, session, threads = 0, 1, 3, 17
		if len(fields) <= threads {
			continue
		}
		number := func(field int) int {
			n, _ := strconv.Atoi(fields[field]) // the kernel writes numbers
			return n
		}
		// A process whose first thread has ended is a Z too, and lives on in the others.
		dead := fields[state] == "X" || fields[state] == "Z" && number(threads) <= 1
		all = append(all, processInfo{pid: pid, parent: number(parent), session: number(session), dead: dead})
	}
	return all, nil
}
