//go:build !linux

package main

import (
	"errors"
	"net"
)

// Abstract names of sockets are Linux's.

func listenForReloads(string, int) (net.Listener, error) { return nil, nil }

func runningWorkers(string) ([]runningWorker, error) {
	return nil, errors.New("worker reload needs Linux: check the file with worker validate, and send SIGHUP to the worker")
}

func peerUser(net.Conn) (int, error) { return 0, errors.New("not on this system") }
