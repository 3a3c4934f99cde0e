// Package redisserver starts private servers of Redis or Valkey for tests. They listen on loopback only, and end with the process that
// started them.
package redisserver

import (
	"context"
	"errors"
	"os/exec"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/serverprocess"
)

// ErrNoServer says that this machine has no server program.
var ErrNoServer = errors.New("no Redis server: run scripts/install-databases, or set CRONLEASE_REDIS")

// Server is a private server.
type Server struct {
	*serverprocess.Process
	program string
	args    []string
}

// Find returns the server program: that of CRONLEASE_REDIS, or redis-server or valkey-server of PATH, or what scripts/install-databases
// prepared. The error names the reason if that of CRONLEASE_REDIS cannot be used.
func Find() (string, error) {
	names := append([]string{"redis-server", "valkey-server"}, dbserver.Prepared("CRONLEASE_REDIS_DIR", "redis", "redis-server")...)
	return serverprocess.Find("CRONLEASE_REDIS", names, ErrNoServer)
}

// New returns a server that runs the program with additional arguments, which override its own. It starts nothing.
func New(program string, args ...string) *Server {
	return newServer(program, args, func(serverprocess.Place) ([]string, []string, error) {
		return nil, []string{"--save", "", "--appendonly", "yes"}, nil
	})
}

// newServer returns a server whose arguments are those that own returns, before and after those that each has, and args.
func newServer(program string, args []string, own func(serverprocess.Place) (before, after []string, err error)) *Server {
	command := func(at serverprocess.Place) (*exec.Cmd, error) {
		before, after, err := own(at)
		all := append(before, "--bind", "127.0.0.1", "--port", strconv.Itoa(at.Port), "--dir", at.Folder, "--daemonize", "no")
		return exec.Command(program, append(append(all, after...), args...)...), err
	}
	return &Server{serverprocess.New("redis", command, answers), program, args}
}

// answers reports whether that process answers.
func answers(ctx context.Context, at serverprocess.Place, pid int) bool {
	client := redis.NewClient(&redis.Options{Addr: at.Addr(), MaxRetries: -1})
	defer client.Close()
	is, err := client.InfoMap(ctx, "server").Result()
	return err == nil && is["Server"]["process_id"] == strconv.Itoa(pid)
}

// Program is the server program.
func (s *Server) Program() string { return s.program }
