package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
)

// A running worker takes requests from worker reload over a socket of this machine.
// A request is one line, requestCheck or requestReload, and its answer one line of JSON.
const (
	requestCheck  = "check"
	requestReload = "reload"
)

// requestTime bounds what is sent over the socket, not the work between.
const requestTime = 10 * time.Second

// acceptPause is how long a worker that could not take a connection lets it wait.
const acceptPause = time.Second

// answer is what a worker answers.
type answer struct {
	OK   bool   `json:"ok"`
	Text string `json:"text"` // what changes, or everything that is wrong
}

// reloadOnHangup reloads all on SIGHUP, until the function that it returns is called.
func reloadOnHangup(all members) (stop func()) {
	done := make(chan struct{})
	go func() { // a file on a network that is away must not hold up the end
		for {
			select {
			case <-hangups:
				for _, m := range all {
					_, _ = m.reloads.reload(true) // the log has it
				}
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

// listen reloads for worker reload, until the function that it returns is called. Without
// the socket the worker does its work, and SIGHUP reloads it.
func (r *reloader) listen(log *zap.Logger) (stop func()) {
	socket, err := listenForReloads(r.path, os.Getpid())
	if err != nil {
		log.Warn("worker reload cannot reach this worker; SIGHUP can", zap.Error(err))
	}
	if socket == nil {
		return func() {}
	}
	done := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() { r.serve(socket, log, done) })
	return func() {
		close(done)
		_ = socket.Close()
		wait.Wait()
	}
}

// serve answers requests until the socket is closed.
func (r *reloader) serve(socket net.Listener, log *zap.Logger, done <-chan struct{}) {
	for {
		connection, err := socket.Accept()
		switch {
		case err == nil:
			go r.answer(connection) // one that sends nothing must not hold up the others, nor the end
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		log.Warn("worker reload cannot reach this worker for now; SIGHUP can", zap.Error(err))
		select {
		case <-time.After(acceptPause): // such as for a free file descriptor
		case <-done:
		}
	}
}

// answer answers one request.
func (r *reloader) answer(connection net.Conn) {
	defer connection.Close()
	var a answer
	var err error
	if err = checkAsker(connection); err == nil {
		_ = connection.SetDeadline(time.Now().Add(requestTime))
		lines := bufio.NewScanner(connection)
		if !lines.Scan() || lines.Text() != requestCheck && lines.Text() != requestReload {
			return // it is no worker reload
		}
		a.Text, err = r.reload(lines.Text() == requestReload)
	}
	a.OK = err == nil
	if err != nil {
		a.Text = err.Error()
	}
	_ = connection.SetDeadline(time.Now().Add(requestTime))
	_ = json.NewEncoder(connection).Encode(a)
}

// checkAsker reports whether the other side may reload this worker: a process of its
// user, or of root.
func checkAsker(connection net.Conn) error {
	user, err := peerUser(connection)
	if err == nil && user != 0 && user != os.Geteuid() {
		err = fmt.Errorf("the worker runs as user %d: only that user and root may reload it", os.Geteuid())
		if os.Geteuid() == 0 {
			err = errors.New("the worker runs as root: only root may reload it")
		}
	}
	return err
}
