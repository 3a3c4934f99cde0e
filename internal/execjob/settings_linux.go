package execjob

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CheckUser says why programs cannot run as a user, or cannot be stopped then.
func CheckUser(name string) error {
	_, _, err := lookUp(name)
	return err
}

// lookUp returns a user, and the numbers that its programs run under.
func lookUp(name string) (*user.User, *syscall.Credential, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return nil, nil, fmt.Errorf("read the capabilities: %w", err)
	}
	// Without CAP_KILL nothing could stop them.
	for _, capability := range []int{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL} {
		if have[0].Effective&(1<<capability) == 0 {
			return nil, nil, errors.New("a worker needs root for it, or the capabilities CAP_SETUID, CAP_SETGID and CAP_KILL")
		}
	}
	name, group, hasGroup := strings.Cut(name, ":")
	u, err := user.Lookup(name)
	if err != nil {
		if _, bad := strconv.ParseUint(name, 10, 32); bad != nil {
			return nil, nil, err
		}
		if u, err = user.LookupId(name); err != nil {
			if !hasGroup {
				return nil, nil, fmt.Errorf("%w: expected a group behind it, as in %s:100", err, name)
			}
			u = &user.User{Uid: name, Gid: group, HomeDir: "/", Username: name} // in no other groups
		}
	}
	ids := []string{u.Uid, u.Gid}
	if hasGroup {
		ids[1] = group
		if g, err := user.LookupGroup(group); err == nil {
			ids[1] = g.Gid
		} else if _, bad := strconv.ParseUint(group, 10, 32); bad != nil {
			return nil, nil, err
		}
	} else {
		others, err := u.GroupIds()
		if err != nil {
			return nil, nil, fmt.Errorf("read its groups: %w", err)
		}
		ids = append(ids, others...)
	}
	numbers := make([]uint32, len(ids))
	for i, id := range ids {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, nil, err
		}
		numbers[i] = uint32(n)
	}
	return u, &syscall.Credential{Uid: numbers[0], Gid: numbers[1], Groups: numbers[2:]}, nil
}

// CheckLimits returns nil: Linux has them.
func CheckLimits() error { return nil }

// become has the program run as the user, in the groups that it has, and sets the
// variables that are about it.
func become(name string, attributes *syscall.SysProcAttr) error {
	u, credential, err := lookUp(name)
	if err != nil {
		return err
	}
	attributes.Credential = credential
	for _, output := range []*os.File{os.Stdout, os.Stderr} {
		// Otherwise the program could not open /dev/stdout.
		if err := output.Chown(int(credential.Uid), int(credential.Gid)); err != nil && !errors.Is(err, syscall.EPERM) {
			return fmt.Errorf("hand over its output: %w", err)
		}
	}
	return errors.Join(os.Setenv("HOME", u.HomeDir), os.Setenv("USER", u.Username), os.Setenv("LOGNAME", u.Username), os.Unsetenv("SHELL"))
}

// limited returns how to run the program under limits: through this program, which
// becomes it. The guard cannot set them, since it would be under them too.
func limited(l Limits, path string, args []string) (string, []string, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return "", nil, err
	}
	program, err := self()
	return program, append([]string{program, LimitCommand, string(text), path}, args...), err
}

// Limit sets limits on this process and becomes a program: args are those of
// [LimitCommand], and begin with the limits, the program's path and its name.
func Limit(args []string) error {
	var l Limits
	if len(args) < 3 || json.Unmarshal([]byte(args[0]), &l) != nil {
		return errors.New("this command is only for guards")
	}
	env := os.Environ()
	// The memory comes last: this program has more than a job may need.
	for _, limit := range []struct {
		what     string
		resource int
		most     uint64
		beyond   uint64 // of the hard limit
	}{
		{"open_files", unix.RLIMIT_NOFILE, l.OpenFiles, 0},
		{"file_size", unix.RLIMIT_FSIZE, l.FileSize, 0},
		// A second after SIGXCPU comes SIGKILL.
		{"cpu", unix.RLIMIT_CPU, uint64((l.CPU + time.Second - 1) / time.Second), 1},
		{"processes", unix.RLIMIT_NPROC, l.Processes, 0},
		{"memory", unix.RLIMIT_AS, l.Memory, 0},
	} {
		if limit.most == 0 {
			continue
		}
		var now syscall.Rlimit
		if err := syscall.Getrlimit(limit.resource, &now); err != nil {
			return fmt.Errorf("limits: read %s: %w", limit.what, err)
		}
		hard := limit.most + limit.beyond
		if limit.most <= now.Max {
			hard = min(hard, now.Max)
		}
		if err := syscall.Setrlimit(limit.resource, &syscall.Rlimit{Cur: limit.most, Max: hard}); err != nil {
			return fmt.Errorf("limits: set %s to %d, with %d as the most that is allowed here: %w", limit.what, limit.most, now.Max, err)
		}
	}
	return fmt.Errorf("start %s: %w", args[2], syscall.Exec(args[1], args[2:], env))
}
