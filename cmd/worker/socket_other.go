//go:build !linux

package main

import (
	"errors"
	"net"
)

// Abstract names of sockets are Linux's.

func listenForReloads(string, int) (net.Listener, error) { return nil, nil }

func runningWorkers(string) (map[int]string, error) {
	return nil, errors.New("worker reload needs Linux: check the file with worker validate, and send SIGHUP to the worker")
}

func checkPeer(net.Conn) error { return nil }
