package config

import (
	"fmt"
	"math/bits"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/execjob"
)

var limitFields = []field[execjob.Limits]{
	{"memory", func(v value, l *execjob.Limits) { l.Memory = readSize(v) }},
	{"file_size", func(v value, l *execjob.Limits) { l.FileSize = readSize(v) }},
	{"open_files", func(v value, l *execjob.Limits) { l.OpenFiles = uint64(readCount(v, maxOpen)) }},
	{"processes", func(v value, l *execjob.Limits) { l.Processes = uint64(readCount(v, maxOpen)) }},
	{"cpu", func(v value, l *execjob.Limits) {
		if d := readDuration(v); d > 0 && d < time.Second {
			v.report("must be at least 1s")
		} else {
			l.CPU = d
		}
	}},
}

const maxOpen = 1_000_000_000

var (
	umaskForm = regexp.MustCompile(`^0?[0-7]{3}$`)
	userForm  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}\$?(:[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63})?$`)
	sizeForm  = regexp.MustCompile(`^([0-9]{1,18})([KMGT]?)$`)
)

func readFolder(v value) string {
	const what = "the absolute path of a folder such as /var/lib/report"
	t, ok := readText(v, what)
	switch {
	case !ok:
		return ""
	case !filepath.IsAbs(t.expanded) || strings.ContainsRune(t.expanded, 0):
		t.bad("expected %s", what)
		return ""
	}
	return t.expanded
}

func readUmask(v value) *int {
	const what = "three octal digits such as 027"
	t, ok := readText(v, what)
	if !ok {
		return nil
	}
	n, err := strconv.ParseInt(t.expanded, 8, 32)
	if err != nil || !umaskForm.MatchString(t.expanded) {
		t.bad("expected %s", what)
		return nil
	}
	mask := int(n)
	return &mask
}

func readUser(v value) string {
	const what = "a user such as report, report:staff or 1000:1000"
	t, ok := readText(v, what)
	switch {
	case !ok:
		return ""
	case !userForm.MatchString(t.expanded):
		t.bad("expected %s", what)
		return ""
	}
	return t.expanded
}

// readSize reads a number of bytes. It returns zero after it has reported.
func readSize(v value) uint64 {
	const what = "a number of bytes above zero, such as 512M or 2G"
	t, ok := readText(v, what)
	if !ok {
		return 0
	}
	size, err := parseSize(t.expanded)
	if err != nil || size == 0 {
		t.bad("expected %s", what)
		return 0
	}
	return size
}

// parseSize reads bytes, with K, M, G or T for powers of 1024.
func parseSize(s string) (uint64, error) {
	match := sizeForm.FindStringSubmatch(s)
	if match == nil {
		return 0, fmt.Errorf("no size: %s", quote(s))
	}
	n, err := strconv.ParseUint(match[1], 10, 63)
	shift := 10 * (strings.Index("KMGT", match[2]) + 1)
	if match[2] == "" {
		shift = 0
	}
	if err != nil || bits.Len64(n)+shift > 62 {
		return 0, fmt.Errorf("too large: %s", quote(s))
	}
	return n << shift, nil
}
