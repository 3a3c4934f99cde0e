package dbtest

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// Refused waits until no process listens on the address. The end of a connection alone would prove little: a server also
// closes those that do not log in.
func Refused(tb testing.TB, addr string) {
	tb.Helper()
	for end := time.Now().Add(30 * time.Second); ; {
		conn, err := net.Dial("tcp", addr)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err == nil {
			_ = conn.SetReadDeadline(end) // fails only on a closed connection
			_, err = io.Copy(io.Discard, conn)
			conn.Close()
		}
		if os.IsTimeout(err) || time.Now().After(end) {
			tb.Fatalf("the server at %s still runs", addr)
		}
	}
}
