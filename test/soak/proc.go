//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// descriptorsOf counts the open descriptors of a process.
func descriptorsOf(pid int) (int, error) {
	folder, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0, err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	return len(names), err
}

// residentOf returns how much memory a process occupies, in bytes.
func residentOf(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("read the memory of process %d: %q", pid, text)
	}
	pages, err := strconv.Atoi(fields[1])
	return pages * os.Getpagesize(), err
}
