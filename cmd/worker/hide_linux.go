package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cronlease/cronlease/internal/execjob"
)

// hideSecrets keeps what this process knows from the programs of jobs, which run
// as the same user. Where it fails, the worker runs all the same: it is a
// second line of defence; the first is a separate user for such programs.
//
// It makes the kernel deny other processes of the same user access to this
// process's memory, environment and open files, write no core dumps, and let no
// debugger attach. A user that may trace any process (root, CAP_SYS_PTRACE) can still attach; but the
// environment in /proc is gone for such a user too, apart from what a job is told
// anyway.
func hideSecrets() {
	blankEnvironment() // first: the memory cannot be opened afterwards
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// blankEnvironment overwrites the values of variables where the kernel has put
// them at the start, which /proc/PID/environ shows for as long as the process
// lives: [os.Unsetenv] changes only Go's copy. That copy stays, so that variables
// can still be read here.
func blankEnvironment() {
	start, size, ok := environmentArea()
	if !ok {
		return
	}
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer memory.Close()
	area := make([]byte, size)
	if _, err := memory.ReadAt(area, start); err != nil {
		return
	}
	for at := 0; at < len(area); {
		variable, _, _ := bytes.Cut(area[at:], []byte{0})
		if name, value, ok := bytes.Cut(variable, []byte("=")); ok && !execjob.Passed(string(name)) {
			clear(value)
		}
		at += len(variable) + 1
	}
	_, _ = memory.WriteAt(area, start)
}

// environmentArea is where the kernel has put the environment.
func environmentArea() (start, size int64, ok bool) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0, false
	}
	// pid (name) state ..., and the name may hold anything. What follows it are
	// the fields from the third on.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const envStart, envEnd = 50 - 3, 51 - 3
	if len(fields) <= envEnd {
		return 0, 0, false
	}
	start, errStart := strconv.ParseInt(fields[envStart], 10, 64)
	end, errEnd := strconv.ParseInt(fields[envEnd], 10, 64)
	const most = 64 << 20 // more than any kernel takes
	return start, end - start, errStart == nil && errEnd == nil && start > 0 && end > start && end-start < most
}
