package main

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The sockets have abstract names, with the path of the configuration file and the
// process: they need no folder that is there and may be written to, and they go with
// their process. Any user may connect to such a socket, and any user may bind such a
// name, so both sides look at who the other one is. A random part keeps others from
// binding the name that a worker is going to have, and lets processes of several
// containers with one network have the same number.

func socketPrefix(config string) (string, error) {
	path, err := filepath.Abs(config)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("@cronlease-worker/%x/", sha256.Sum256([]byte(path)))[:60] + "/", nil
}

// listenForReloads returns the socket of a worker.
func listenForReloads(config string, pid int) (net.Listener, error) {
	prefix, err := socketPrefix(config)
	if err != nil {
		return nil, err
	}
	return net.Listen("unix", fmt.Sprint(prefix, pid, "/", rand.Text()))
}

// runningWorkers are what seem to be the workers on this machine that run with the
// file. The names prove nothing: see [peerUser].
func runningWorkers(config string) ([]runningWorker, error) {
	prefix, err := socketPrefix(config)
	if err != nil {
		return nil, err
	}
	table, err := os.Open("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	defer table.Close()
	return workersIn(table, prefix)
}

// workersIn reads the kernel's table of sockets. The kernel writes the names as they
// are, so any user may put any bytes into it, lines of their own too.
func workersIn(table io.Reader, prefix string) ([]runningWorker, error) {
	var workers []runningWorker
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		// Num: RefCount Protocol Flags Type St Inode Path
		fields := strings.Split(lines.Text(), " ")
		name := fields[len(fields)-1]
		rest, ok := strings.CutPrefix(name, prefix)
		number, _, whole := strings.Cut(rest, "/")
		if pid, err := strconv.Atoi(number); ok && whole && err == nil && pid > 0 {
			workers = append(workers, runningWorker{pid, name})
		}
	}
	slices.SortFunc(workers, func(a, b runningWorker) int {
		return cmp.Or(cmp.Compare(a.pid, b.pid), strings.Compare(a.socket, b.socket))
	})
	return slices.Compact(workers), lines.Err()
}

// peerUser is the user of the process at the other side of a connection: of the one
// that connected, or of the one that listens.
func peerUser(connection net.Conn) (int, error) {
	socket, ok := connection.(*net.UnixConn)
	if !ok {
		return 0, errors.New("no Unix socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, failed); err != nil {
		return 0, err
	}
	return int(peer.Uid), nil
}
