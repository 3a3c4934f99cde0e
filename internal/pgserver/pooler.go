package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/serverprocess"
)

// ErrNoPooler says that this machine has no pooler.
var ErrNoPooler = errors.New("no pgbouncer: run scripts/install-databases, or set CRONLEASE_PGBOUNCER")

// Pooler is a private pgbouncer before a server.
type Pooler struct{ *serverprocess.Process }

// FindPooler returns the program: that of CRONLEASE_PGBOUNCER, or pgbouncer of PATH, or what scripts/install-databases
// prepared. The error names the reason if that of CRONLEASE_PGBOUNCER cannot be used.
func FindPooler() (string, error) {
	names := append([]string{"pgbouncer"}, dbserver.Prepared("CRONLEASE_PGBOUNCER_DIR", "pgbouncer", "pgbouncer")...)
	return serverprocess.Find("CRONLEASE_PGBOUNCER", names, ErrNoPooler)
}

// NewPooler returns a pooler before the server that listens there, in a mode of pgbouncer: session, transaction or statement.
// It starts nothing.
func NewPooler(program string, to *Server, mode string) *Pooler {
	command := func(at serverprocess.Place) (*exec.Cmd, error) {
		config := filepath.Join(at.Folder, "pgbouncer.ini")
		text := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
default_pool_size = 10
max_client_conn = 200
logfile = %s
pidfile =
`, portOf(to.Addr()), user, at.Port, mode, filepath.Join(at.Folder, "log"))
		cmd := exec.Command(program, config)
		unprivileged(cmd)
		return cmd, os.WriteFile(config, []byte(text), 0o600)
	}
	return &Pooler{serverprocess.New("pgbouncer", command, func(ctx context.Context, at serverprocess.Place, _ int) bool {
		c, err := pgx.Connect(ctx, urlOf(at.Addr(), "postgres")+"&default_query_exec_mode=exec")
		if err != nil {
			return false
		}
		return c.Close(ctx) == nil
	})}
}

// URL is that of a database behind the pooler.
func (p *Pooler) URL(database string) string { return urlOf(p.Addr(), database) }
