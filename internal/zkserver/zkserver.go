// Package zkserver starts private servers of ZooKeeper for tests, single ones and ensembles. They listen on loopback only, and end with the
// process that started them.
package zkserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/serverprocess"
)

// ErrNoServer says that this machine has no server program.
var ErrNoServer = errors.New("no ZooKeeper server: run scripts/install-databases, or set CRONLEASE_ZOOKEEPER")

// Server is a private server.
type Server struct {
	*serverprocess.Process
	member *member
}

// member is what a server of an ensemble knows of it.
type member struct {
	id    int
	lines string // of the configuration
}

// Find returns the server program, which takes the path of a configuration: that of CRONLEASE_ZOOKEEPER, or what scripts/install-databases
// prepared. The error names the reason if that of CRONLEASE_ZOOKEEPER cannot be used.
func Find() (string, error) {
	return serverprocess.Find("CRONLEASE_ZOOKEEPER", dbserver.Prepared("CRONLEASE_ZOOKEEPER_DIR", "zookeeper", "zookeeper-server"), ErrNoServer)
}

// New returns a server that stands alone, whose Java machine has additional flags, such as -Dzookeeper.forceSync=no. It starts nothing.
func New(program string, flags ...string) *Server {
	s := &Server{}
	s.Process = serverprocess.New("zookeeper", func(at serverprocess.Place) (*exec.Cmd, error) {
		path, err := s.configure(at)
		cmd := exec.Command(program, path)
		cmd.Env = append(os.Environ(), "JVMFLAGS=-Xmx128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "+strings.Join(flags, " "))
		return cmd, err
	}, s.answers)
	return s
}

// NewEnsemble returns the servers of an ensemble of that size. It starts nothing.
func NewEnsemble(program string, size int, flags ...string) []*Server {
	var lines strings.Builder
	for id := range size {
		fmt.Fprintf(&lines, "server.%d=127.0.0.1:%d:%d\n", id+1, dbserver.RandomPort(), dbserver.RandomPort())
	}
	servers := make([]*Server, size)
	for id := range servers {
		servers[id] = New(program, flags...)
		servers[id].member = &member{id: id + 1, lines: lines.String() + "initLimit=20\nsyncLimit=10\n"}
	}
	return servers
}

// configure writes the configuration. Ticks of half a second allow sessions that expire after one.
func (s *Server) configure(at serverprocess.Place) (path string, err error) {
	lines := fmt.Sprintf("tickTime=500\nmaxSessionTimeout=60000\nmaxClientCnxns=0\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=*\n",
		filepath.Join(at.Folder, "data"), at.Port)
	id := "0"
	if s.member != nil {
		lines += s.member.lines
		id = strconv.Itoa(s.member.id)
	}
	path = filepath.Join(at.Folder, "zoo.cfg")
	return path, errors.Join(os.MkdirAll(filepath.Join(at.Folder, "data"), 0o700), os.WriteFile(path, []byte(lines), 0o600),
		os.WriteFile(filepath.Join(at.Folder, "data", "myid"), []byte(id), 0o600))
}

// answers reports whether the server runs. A single one serves then. One of an ensemble tells nothing before the others are there, and may
// have to wait for them: see [Server.Mode].
func (s *Server) answers(ctx context.Context, at serverprocess.Place, _ int) bool {
	conf, err := ask(ctx, at.Addr(), "conf")
	if err != nil || s.member != nil {
		return err == nil
	}
	return strings.Contains(conf, at.Folder) && modeOf(ctx, at.Addr()) == "standalone"
}

// ask sends one of the words that servers answer.
func ask(ctx context.Context, addr, word string) (string, error) {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

func modeOf(ctx context.Context, addr string) string {
	answer, err := ask(ctx, addr, "srvr")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(answer) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode)
		}
	}
	return ""
}

// Mode is "standalone", "leader" or "follower", and empty while the server serves nobody.
func (s *Server) Mode(ctx context.Context) string { return modeOf(ctx, s.Addr()) }

// Lose makes a server that does not run lose its data.
func (s *Server) Lose() error { return os.RemoveAll(filepath.Join(s.Folder(), "data")) }
