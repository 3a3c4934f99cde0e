package main

import (
	"bufio"
	"encoding/json"
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

// answer is what a worker answers.
type answer struct {
	OK   bool   `json:"ok"`
	Text string `json:"text"` // what changes, or everything that is wrong
}

// listen reloads on SIGHUP and for worker reload, until the function that it returns is
// called. Without the socket the worker does its work, and SIGHUP reloads it.
func (r *reloader) listen(log *zap.Logger) (stop func()) {
	var wait sync.WaitGroup
	done := make(chan struct{})
	wait.Go(func() {
		for {
			select {
			case <-hangups:
				_, _ = r.reload(true) // the log has it
			case <-done:
				return
			}
		}
	})
	socket, err := listenForReloads(r.runner.config, os.Getpid())
	if err != nil {
		log.Warn("worker reload cannot reach this worker; SIGHUP can", zap.Error(err))
	} else if socket != nil {
		wait.Go(func() {
			for {
				connection, err := socket.Accept()
				if err != nil {
					return
				}
				go r.answer(connection) // one that sends nothing must not hold up the others, nor the end
			}
		})
	}
	return func() {
		close(done)
		if socket != nil {
			_ = socket.Close()
		}
		wait.Wait()
	}
}

// answer answers one request.
func (r *reloader) answer(connection net.Conn) {
	defer connection.Close()
	var a answer
	var err error
	if err = checkPeer(connection); err == nil {
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
