package redisstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// wire is a connection without TLS, whose beginning it looks at. A server that has no connection left says so unasked,
// and closes; the client takes that for the answer to its first command, and reports how the next one fails. A server
// that says nothing and closes may expect TLS.
type wire struct {
	net.Conn
	spoken atomic.Bool           // the server has said something
	why    atomic.Pointer[error] // it does not want the client; what is read later fails by that, since the client passes over errors as it looks for messages
}

// fullAnswer is what a server says that has no connection left.
const fullAnswer = "ERR max number of clients reached"

// fullWait is how long to wait for that answer once a write has failed: it was sent before the connection was closed.
const fullWait = 100 * time.Millisecond

var (
	errFull = errors.New(fullAnswer)
	// errUnwanted: the server has said nothing, or that was lost.
	errUnwanted = errors.New("the server closes the connection at once, as a port does that expects TLS, or one that has no connection left")
)

// Read implements [net.Conn].
func (w *wire) Read(p []byte) (int, error) {
	if why := w.why.Load(); why != nil {
		return 0, *why
	}
	n, err := w.Conn.Read(p)
	if w.spoken.Load() {
		return n, err
	}
	switch {
	case bytes.HasPrefix(p[:n], []byte("-"+fullAnswer)):
		err = errFull
	case n > 0:
		w.spoken.Store(true)
		return n, err
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		err = fmt.Errorf("%w: %w", err, errUnwanted)
	default:
		return n, err
	}
	w.why.Store(&err)
	return 0, err
}

// Write implements [net.Conn].
func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	if err == nil || w.spoken.Load() || w.SetReadDeadline(time.Now().Add(fullWait)) != nil {
		return n, err
	}
	if _, why := w.Read(make([]byte, len(fullAnswer)+1)); w.why.Load() != nil {
		err = why
	}
	return n, err
}

// SyscallConn implements [syscall.Conn], by which the client finds out whether an idle connection is still there.
func (w *wire) SyscallConn() (syscall.RawConn, error) {
	conn, ok := w.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return conn.SyscallConn()
}
