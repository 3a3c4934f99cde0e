package zkstore_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/redisserver"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/zkstore"
)

// foreign starts what is not ZooKeeper, and returns its address.
func foreign(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
				_, _ = io.Copy(io.Discard, conn) // until the client leaves
			}()
		}
	}()
	return listener.Addr().String()
}

// request reads a request.
func request(conn net.Conn) []byte {
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		return make([]byte, 8)
	}
	body := make([]byte, binary.BigEndian.Uint32(head))
	_, _ = io.ReadFull(conn, body)
	return body
}

// greet answers the request for a session.
func greet(conn net.Conn, timeout int32) {
	request(conn)
	answer := binary.BigEndian.AppendUint32(nil, 37)
	answer = binary.BigEndian.AppendUint32(answer, 0)
	answer = binary.BigEndian.AppendUint32(answer, uint32(timeout))
	answer = binary.BigEndian.AppendUint64(answer, 77)
	answer = binary.BigEndian.AppendUint32(answer, 16)
	_, _ = conn.Write(append(answer, make([]byte, 17)...))
}

// What is not ZooKeeper, or says what makes no sense, is named, and does no harm to the process.
func TestForeignServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		serve func(net.Conn)
		says  string
	}{
		"HTTP": {func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 100))
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}, "not ZooKeeper"},
		"MySQL":              {func(conn net.Conn) { _, _ = io.WriteString(conn, "\x4a\x00\x00\x00\x0a8.0.36\x00aaaaaaaaaaaaaaaa") }, "not ZooKeeper"},
		"a session of 0 ms":  {func(conn net.Conn) { greet(conn, 0) }, "not ZooKeeper"},
		"a session of -5 ms": {func(conn net.Conn) { greet(conn, -5) }, "not ZooKeeper"},
		"no room for a header": {func(conn net.Conn) {
			greet(conn, 1000)
			xid := request(conn)[:4]
			_, _ = conn.Write(append(append([]byte{0, 0, 0, 5}, xid...), 0))
		}, "connection closed|no server of the ensemble answers"},
		"an answer of 4 GB": {func(conn net.Conn) {
			greet(conn, 1000)
			request(conn)
			_, _ = conn.Write([]byte{0xff, 0xff, 0xff, 0xf0, 1, 2, 3, 4})
		}, "connection closed|no server of the ensemble answers"},
		"a closed connection": {func(conn net.Conn) { _ = conn.Close() }, "no quorum"},
		"no answer":           {func(net.Conn) {}, "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := zkstore.Open("zk://user:secret@"+foreign(t, c.serve), zkstore.WithSessionTimeout(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			says := regexp.MustCompile(c.says) // the second of two if the client has not come back in time
			if err := s.Check(t.Context()); err == nil || errors.Is(err, lease.ErrSetup) || !says.MatchString(err.Error()) || strings.Contains(err.Error(), "secret") {
				t.Errorf("Check: %v, expected %q", err, c.says)
			}
		})
	}
}

// A Redis server, which waits for the end of a line, is named with the cure.
func TestRedisServer(t *testing.T) {
	t.Parallel()
	program, err := redisserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	server := redisserver.New(program)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := zkstore.Open("zk://"+server.Addr(), zkstore.WithSessionTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if f := s.Examine(t.Context(), 0)[0]; f.Grade != store.Problem || !strings.Contains(f.Text, "is a Redis server") || !strings.Contains(f.Cure, "write redis:// instead of zk://") {
		t.Errorf("%+v", f)
	}
}

// A name that is unknown is a server that is away: the others serve, and the client tries it again.
func TestUnknownHost(t *testing.T) {
	t.Parallel()
	s := open(t, "name.invalid,"+shared.Addr(), "/unknown")
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check with one name that is unknown: %v", err)
	}
	s, err := zkstore.Open("zk://name.invalid", zkstore.WithSessionTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for begin := time.Now(); time.Since(begin) < 3*time.Second; { // the client is replaced after two timeouts
		if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "name.invalid") {
			t.Fatalf("Check with an unknown name: %v", err)
		}
	}
}
