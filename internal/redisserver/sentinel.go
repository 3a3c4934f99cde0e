package redisserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/cronlease/cronlease/internal/serverprocess"
)

// NewSentinel returns a sentinel that watches the primary at an address, under that name, and takes it for dead when it
// has not answered for that long. So many sentinels have to agree. It starts nothing.
func NewSentinel(program, name, primary string, quorum int, downAfter time.Duration) *Server {
	return newServer(program, nil, func(at serverprocess.Place) (before, after []string, err error) {
		host, port, err := net.SplitHostPort(primary)
		if err != nil {
			return nil, nil, err
		}
		path := filepath.Join(at.Folder, "sentinel.conf") // a sentinel writes into it what it learns
		text := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s %[4]d\nsentinel down-after-milliseconds %[1]s %[5]d\nsentinel failover-timeout %[1]s 10000\n",
			name, host, port, quorum, downAfter.Milliseconds())
		return []string{path, "--sentinel"}, nil, os.WriteFile(path, []byte(text), 0o600)
	})
}

// StartReplica starts a server that replicates the running server.
func StartReplica(ctx context.Context, primary *Server, args ...string) (*Server, error) {
	host, port, err := net.SplitHostPort(primary.Addr())
	if err != nil {
		return nil, err
	}
	s := New(primary.program, append([]string{"--replicaof", host + " " + port, "--repl-diskless-sync-delay", "0"}, args...)...)
	return s, s.Start(ctx)
}
