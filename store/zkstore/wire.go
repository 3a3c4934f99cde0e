package zkstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/go-zookeeper/zk"
)

// wire is the connection to one server. The client believes the lengths and the timeout that it is sent: it panics
// where they are too small, reserves gigabytes where they are the first bytes of another protocol, and waits for a
// server that accepts connections and does nothing, as a suspended one does, for ten times the timeout of the session.
// A wire ends such a connection with an error.
type wire struct {
	net.Conn
	most   time.Duration // for which a read waits
	sasl   *saslUser     // logs in once there is a session; nil: nobody
	failed func(error)   // is told why there is no session

	greeted bool   // the first answer has come, which begins the session
	checked []byte // has been looked at, and not been read yet
	rest    int    // of the answer that is being read
}

// What answers may have, without their lengths.
const (
	headerSize  = 16       // of each answer: its number, zxid and error
	minGreeting = 16       // version, timeout and session
	maxGreeting = 1024     // the password of the session follows, which has 16
	maxAnswer   = 64 << 20 // far above jute.maxbuffer, which bounds nodes, but not the names of those below a node
)

var (
	errForeign = errors.New("what answers is not ZooKeeper: check the port")
	errCloses  = errors.New("the server closes the connection: it has no quorum or has not started yet, takes no more connections (maxClientCnxns), or expects TLS")
	errMute    = errors.New("the server accepts connections and does not answer")
	errRedis   = errors.New("what answers is a Redis server: write redis:// instead of zk://, or check the port")
)

const (
	// redisLine is how long the line may be that a Redis server takes a request for a session for, and redisWait how
	// long to wait until it refuses a longer one.
	redisLine = 64 << 10
	redisWait = 200 * time.Millisecond
)

// SetReadDeadline bounds the deadline.
func (w *wire) SetReadDeadline(at time.Time) error {
	if latest := time.Now().Add(w.most); at.After(latest) {
		at = latest
	}
	return w.Conn.SetReadDeadline(at)
}

// Read implements [net.Conn].
func (w *wire) Read(p []byte) (int, error) {
	if len(w.checked) == 0 && w.rest == 0 {
		greeting := !w.greeted
		if err := w.next(); err != nil {
			if greeting {
				if errors.Is(err, os.ErrDeadlineExceeded) && w.isRedis() {
					err = errRedis
				}
				w.failed(reasonOf(err))
			}
			return 0, err
		}
	}
	if len(w.checked) > 0 {
		n := copy(p, w.checked)
		w.checked = w.checked[n:]
		return n, nil
	}
	n, err := w.Conn.Read(p[:min(len(p), w.rest)])
	w.rest -= n
	return n, err
}

// next reads the length of the next answer. Of the first one, it reads all.
func (w *wire) next() error {
	head := make([]byte, 4, 4+minGreeting)
	if _, err := io.ReadFull(w.Conn, head); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(head)
	if w.greeted {
		if length < headerSize || length > maxAnswer {
			return fmt.Errorf("%w: an answer of %d bytes", errForeign, length)
		}
		w.checked, w.rest = head, int(length)
		return nil
	}
	if length < minGreeting || length > maxGreeting {
		return errForeign
	}
	greeting := append(head, make([]byte, length)...)
	if _, err := io.ReadFull(w.Conn, greeting[4:]); err != nil {
		return err
	}
	timeout, session := int32(binary.BigEndian.Uint32(greeting[8:])), binary.BigEndian.Uint64(greeting[12:])
	if session != 0 && timeout <= 0 {
		return errForeign
	}
	if session != 0 && w.sasl != nil {
		if err := w.login(); err != nil {
			return err
		}
	}
	w.greeted, w.checked = true, greeting
	return nil
}

// isRedis reports whether a server that says nothing is one of Redis, which waits for the end of the line.
func (w *wire) isRedis() bool {
	if w.SetDeadline(time.Now().Add(redisWait)) != nil {
		return false
	}
	if _, err := w.Write(make([]byte, redisLine)); err != nil {
		return false
	}
	answer := make([]byte, 4)
	_, err := io.ReadFull(w.Conn, answer)
	return err == nil && string(answer) == "-ERR"
}

// login logs the user in, before the client hears of its session.
func (w *wire) login() error {
	if err := w.SetWriteDeadline(time.Now().Add(w.most)); err != nil {
		return err
	}
	if err := w.sasl.login(w.Conn); err != nil {
		return err
	}
	return w.SetWriteDeadline(time.Time{})
}

// reasonOf says what an error means by which a connection ends before there is a session.
func reasonOf(err error) error {
	alert := (*net.OpError)(nil)
	switch {
	case errors.Is(err, errForeign), errors.Is(err, errRedis), errors.Is(err, zk.ErrAuthFailed):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errMute
	case errors.As(err, &alert) && alert.Op == "remote error": // by TLS 1.3, a server looks at the client's certificate after the handshake
		return fmt.Errorf("TLS: %w", err)
	}
	return errCloses
}
