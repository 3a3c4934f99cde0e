package main

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
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
// their process. Any user may connect to such a socket, so both sides look at who the
// other one is.

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
	return net.Listen("unix", prefix+strconv.Itoa(pid))
}

// runningWorkers are the sockets of the workers on this machine that run with the
// file, by their process.
func runningWorkers(config string) (map[int]string, error) {
	prefix, err := socketPrefix(config)
	if err != nil {
		return nil, err
	}
	table, err := os.Open("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	defer table.Close()
	workers := map[int]string{}
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		name := fields[len(fields)-1]
		if process, ok := strings.CutPrefix(name, prefix); ok {
			if pid, err := strconv.Atoi(process); err == nil {
				workers[pid] = name
			}
		}
	}
	return workers, lines.Err()
}

// checkPeer reports whether the other side of a connection may be trusted: a process of
// this user, or of root; root trusts all.
func checkPeer(connection net.Conn) error {
	socket, ok := connection.(*net.UnixConn)
	if !ok {
		return errors.New("no Unix socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	if !slices.Contains([]int{0, os.Geteuid()}, int(peer.Uid)) {
		return fmt.Errorf("the worker runs as user %d: only that user and root may reload it", os.Geteuid())
	}
	return nil
}
