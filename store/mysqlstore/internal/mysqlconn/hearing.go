package mysqlconn

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// hearing is what is known of a server while one connection to it is made. A login is given up when the
// server is silent, and not when it has taken long: it is some ten round trips, which take seconds in a
// slow network, and a server that stands still is left as soon on a fast one.
type hearing struct {
	silence time.Duration // that ends the login; 0: none does
	began   time.Time
	last    atomic.Int64 // when something was heard, as a [time.Duration] since began
	reached atomic.Bool  // the server may have a session of a login that failed

	port atomic.Pointer[string] // of this side, of the last connection
}

type hearingKey struct{}

// listen returns a context with a hearing, and which ends once the server was silent for that long.
func listen(ctx context.Context, silence time.Duration) (context.Context, context.CancelFunc) {
	h := &hearing{silence: silence, began: time.Now()}
	return h.bound(context.WithValue(ctx, hearingKey{}, h), 1)
}

// hearingOf returns the hearing of a context, or one that ends nothing.
func hearingOf(ctx context.Context) *hearing {
	if h, ok := ctx.Value(hearingKey{}).(*hearing); ok {
		return h
	}
	return &hearing{began: time.Now()}
}

// session returns what the server may have of the connection.
func (h *hearing) session() *session {
	if port := h.port.Load(); port != nil {
		return newSession(*port)
	}
	return newSession("")
}

// note notes that something was heard.
func (h *hearing) note() { h.last.Store(int64(time.Since(h.began))) }

// share is the silence that one of so many servers may have; 0: any.
func (h *hearing) share(of int) time.Duration { return h.silence / time.Duration(of) }

// bound returns a context that ends after a share of the silence.
func (h *hearing) bound(ctx context.Context, of int) (context.Context, context.CancelFunc) {
	h.note()
	ctx, cancel := context.WithCancelCause(ctx)
	limit := h.share(of)
	if limit == 0 {
		return ctx, func() { cancel(nil) }
	}
	var timer *time.Timer
	timer = time.AfterFunc(time.Hour, func() {
		if silent := time.Since(h.began) - time.Duration(h.last.Load()); silent < limit {
			timer.Reset(limit - silent)
			return
		}
		cancel(fmt.Errorf("no answer within %v: %w", limit, context.DeadlineExceeded))
	})
	timer.Reset(limit)
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// heard is a connection whose hearing notes what is read.
type heard struct {
	net.Conn
	raw     syscall.Conn
	hearing *hearing
}

// SyscallConn implements [syscall.Conn]: it lets the driver see whether the server has closed the connection.
func (c *heard) SyscallConn() (syscall.RawConn, error) { return c.raw.SyscallConn() }

// Read implements [net.Conn].
func (c *heard) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.hearing.note()
	return n, err
}

// dial returns a function that dials and has the hearing note what is read, where that can be told.
func (h *hearing) dial(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(ctx context.Context, network, addr string) (net.Conn, error) {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		raw, ok := conn.(syscall.Conn)
		if err != nil || !ok {
			return conn, err
		}
		h.note()
		if _, port, err := net.SplitHostPort(conn.LocalAddr().String()); err == nil {
			h.port.Store(&port)
		}
		return &heard{conn, raw, h}, nil
	}
}
