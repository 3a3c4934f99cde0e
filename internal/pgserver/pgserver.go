// Package pgserver starts private servers of PostgreSQL for tests. They listen on loopback only, and end with the process
// that started them.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/serverprocess"
)

// ErrNoServer says that this machine has no server program.
var ErrNoServer = errors.New("no PostgreSQL server: run scripts/install-databases, or set CRONLEASE_POSTGRES")

// user may do anything on the servers.
const user = "cronlease"

// Server is a private server.
type Server struct{ *serverprocess.Process }

// Find returns the server program: that of CRONLEASE_POSTGRES, or postgres of PATH, or what scripts/install-databases
// prepared, or the newest one of Debian's packages. The error names the reason if that of CRONLEASE_POSTGRES cannot be used.
func Find() (string, error) {
	names := append([]string{"postgres"}, dbserver.Prepared("CRONLEASE_POSTGRES_DIR", "postgres", "postgres")...)
	installed, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	for i := range installed {
		names = append(names, installed[len(installed)-1-i])
	}
	return serverprocess.Find("CRONLEASE_POSTGRES", names, ErrNoServer)
}

// New returns a server that runs the program, which has initdb beside it, with additional settings, such as fsync=off.
// It starts nothing.
func New(program string, settings ...string) *Server {
	command := func(at serverprocess.Place) (*exec.Cmd, error) {
		data, err := create(program, at.Folder)
		args := []string{"-D", data, "-p", strconv.Itoa(at.Port), "-h", "127.0.0.1", "-k", "", "-c", "jit=off"}
		for _, s := range settings {
			args = append(args, "-c", s)
		}
		cmd := exec.Command(program, args...)
		log, logErr := os.OpenFile(filepath.Join(at.Folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		cmd.Stdout, cmd.Stderr = log, log
		unprivileged(cmd)
		return cmd, errors.Join(err, logErr)
	}
	return &Server{serverprocess.New("postgres", command, answers)}
}

// create makes the server's data in a folder, once.
func create(program, folder string) (data string, err error) {
	data = filepath.Join(folder, "data")
	if _, err := os.Stat(data); err == nil {
		return data, nil
	}
	cmd := exec.Command(filepath.Join(filepath.Dir(program), "initdb"), "-D", data, "-U", user, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	unprivileged(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, out)
	}
	return data, nil
}

// URL is that of a database on the server.
func (s *Server) URL(database string) string { return urlOf(s.Addr(), database) }

func urlOf(addr, database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(user), Host: addr, Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

func portOf(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// answers reports whether that process answers.
func answers(ctx context.Context, at serverprocess.Place, pid int) bool {
	written, err := os.ReadFile(filepath.Join(at.Folder, "data", "postmaster.pid"))
	if line, _, _ := strings.Cut(string(written), "\n"); err != nil || line != strconv.Itoa(pid) {
		return false
	}
	c, err := pgx.Connect(ctx, urlOf(at.Addr(), "postgres"))
	if err != nil {
		return false
	}
	return c.Close(ctx) == nil
}
