package dbserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/subprocess"
)

// startLimit is how long a server may take to accept connections; it needs about a second.
const startLimit = 2 * time.Minute

// redoSize is the size of the redo log. It has to be the same when the data folder is created.
const redoSize = "32M"

// Ports are taken from below Linux's range for outgoing connections (32768 and up), so that no client's connection
// occupies the port while its server is down.
const (
	firstPort = 20000
	lastPort  = 32000
	portTries = 20
)

// What a server's log says.
const (
	logReady     = ": ready for connections" // a node of Galera also says something like it before
	logPortTaken = "Do you already have another"
)

var (
	// ErrRunning says that the server already runs.
	ErrRunning = errors.New("dbserver: the server runs already")
	// ErrNotRunning says that the server does not run: not started yet, ended, or crashed.
	ErrNotRunning = errors.New("dbserver: the server does not run")
	// ErrClosed says that Close has been called.
	ErrClosed = errors.New("dbserver: the server is closed")
)

// Server is a private database server. Its methods may be called from several goroutines; they happen one at a time.
type Server struct {
	program program
	args    []string

	mu      sync.Mutex // guards all below
	folder  string     // empty until the first Start
	port    int        // 0 until the first Start
	process *process   // nil when not started
	closed  bool

	member   *member       // of a cluster; nil for a server by itself
	faketime string        // the library that fakes the clock; empty when it is the machine's
	offset   time.Duration // of the fake clock from the machine's
}

// program is a server program on this machine.
type program struct {
	path, kind, version string
}

// New returns a server that will run the given program (see [Find]) with additional options, which override its own.
// It asks the program for its kind, and starts nothing.
func New(ctx context.Context, path string, args ...string) (*Server, error) {
	kind, version, err := identify(ctx, path)
	if err != nil {
		return nil, err
	}
	return &Server{program: program{path, kind, version}, args: slices.Clone(args)}, nil
}

// Kind returns [MariaDB] or [MySQL], also for the program of [NewMariaDB].
func (s *Server) Kind() string { return s.program.kind }

// Version returns what the program says about its version.
func (s *Server) Version() string { return s.program.version }

// Addr returns the server's address, host:port. It is known after the first Start and stays the same.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr()
}

func (s *Server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// DSN returns a data source name for github.com/go-sql-driver/mysql: root, without a password. The database may be
// empty.
func (s *Server) DSN(database string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dsn(database)
}

func (s *Server) dsn(database string) string {
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.DBName = "root", "tcp", s.addr(), database
	return config.FormatDSN()
}

// Folder returns the server's temporary folder; it is empty before the first Start.
func (s *Server) Folder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.folder
}

// Pid returns the id of the server's process, or 0 when it does not run.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return 0
	}
	return s.process.cmd.Process.Pid
}

// Log returns the end of what the running or the last process wrote.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return ""
	}
	return s.process.log.String()
}

// Start starts the server and returns when it accepts connections. The first call creates the data folder and chooses
// the port; later ones, after Stop or Kill, use them again. Once it has started, the end of ctx has no effect on it.
// After an error the server does not run.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.running():
		return ErrRunning
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("%s did not start in %v", s.Kind(), startLimit))
	defer cancel()
	if s.port != 0 || s.member != nil {
		return s.launch(ctx)
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	for try := 1; ; try++ {
		s.port = RandomPort()
		err := s.launch(ctx)
		if err == nil {
			return nil
		}
		// Ports are shared by all processes of the machine: another one may have been quicker.
		if taken := s.process != nil && strings.Contains(s.process.log.String(), logPortTaken); !taken || try == portTries {
			s.port = 0
			return err
		}
	}
}

// prepare makes the server's folder.
func (s *Server) prepare(ctx context.Context) error {
	if err := s.makeFolder(); err != nil {
		return err
	}
	// What a failed attempt left is not reused.
	for _, name := range []string{"data", "tmp"} {
		path := filepath.Join(s.folder, name)
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("create the server's folder: %w", err)
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			return fmt.Errorf("create the server's folder: %w", err)
		}
	}
	return fill(ctx, s.program, filepath.Join(s.folder, "data"))
}

func (s *Server) makeFolder() error {
	if s.folder != "" {
		return nil
	}
	folder, err := os.MkdirTemp("", "cronlease-"+s.Kind()+"-")
	if err != nil {
		return fmt.Errorf("create the server's folder: %w", err)
	}
	s.folder = folder
	return nil
}

// launch starts a process on the folder and port, and waits until it accepts connections.
func (s *Server) launch(ctx context.Context) error {
	if s.faketime != "" {
		if err := s.writeClock(); err != nil {
			return err
		}
	}
	options := s.options()
	if s.member != nil {
		more, err := s.memberOptions(ctx)
		if err != nil {
			return fmt.Errorf("start %s: %w", s.Kind(), err)
		}
		options = append(options, more...)
	}
	cmd := exec.Command(s.program.path, append(options, s.args...)...)
	cmd.Env = s.env()
	p, err := start(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.Kind(), err)
	}
	s.process = p
	select {
	case <-p.log.found:
		if err = s.ready(ctx); err == nil {
			return nil
		}
	case <-p.done:
		err = errors.New("it ended at once")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return errors.Join(fmt.Errorf("start %s: %w\n%s", s.Kind(), err, p.log.String()), p.kill())
}

func (s *Server) options() []string {
	data := filepath.Join(s.folder, "data")
	options := []string{
		"--no-defaults", "--datadir=" + data, "--tmpdir=" + filepath.Join(s.folder, "tmp"),
		"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(s.port), "--skip-name-resolve",
		// Relative to the data folder: the path of a socket may not be long.
		"--socket=server.sock", "--pid-file=" + filepath.Join(data, "server.pid"),
		"--max-connections=500", "--table-open-cache=400", "--table-definition-cache=400",
		"--innodb-buffer-pool-size=64M",
		// What is written reaches the system, and so survives the process, but nothing waits for the disk.
		"--loose-innodb-flush-method=nosync",
		// Machines limit the number of asynchronous requests, containers often forbid them.
		"--innodb-use-native-aio=OFF",
		// Tests make tables all the time: files and threads for each would take half of the time of that.
		"--loose-innodb-file-per-table=OFF",
	}
	if s.Kind() == MySQL {
		options = append(options, "--mysqlx=OFF", "--skip-log-bin", "--secure-file-priv=NULL",
			"--innodb-redo-log-capacity="+redoSize,
			"--loose-innodb-ddl-threads=1", "--loose-innodb-parallel-read-threads=1")
		// What nobody reads takes a fifth of a start, and 100 MB.
		for _, summary := range []string{
			"error-size", "digests-size", "events-statements-history-long-size", "events-waits-history-long-size",
			"events-stages-history-long-size", "events-transactions-history-long-size",
		} {
			options = append(options, "--loose-performance-schema-"+summary+"=0")
		}
	} else {
		// Without the second, the log of DDL waits for the disk.
		options = append(options, "--innodb-log-file-size="+redoSize, "--loose-debug-no-sync")
	}
	return append(options, userArgs()...)
}

// env is the environment of the server's processes.
func (s *Server) env() []string {
	env := os.Environ()
	if s.member != nil {
		env = append(env, "PATH="+s.member.folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	if s.faketime != "" {
		env = append(env, s.clockEnv()...)
	}
	return env
}

// ports are those of [RandomPort], in the order in which this process hands them out.
var ports = struct {
	mu    sync.Mutex // guards all below
	order []int
	next  int
	held  map[int]net.PacketConn // what tells other processes
}{order: rand.Perm(lastPort - firstPort), held: map[int]net.PacketConn{}}

// RandomPort returns a port that probably is free, and stays so after its user has left it for a while: this process
// gets none twice before it has had all and, on Linux, no other one gets it from here while this one lives. It is safe
// for concurrent use.
func RandomPort() int {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	for {
		port := firstPort + ports.order[ports.next]
		ports.next = (ports.next + 1) % len(ports.order)
		if ports.held[port] != nil || runtime.GOOS != "linux" {
			return port
		}
		// A name in the abstract namespace of sockets is no file, and ends with its process.
		held, err := net.ListenPacket("unixgram", "@cronlease-port-"+strconv.Itoa(port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue // another process has it
		}
		if err == nil {
			ports.held[port] = held
		}
		return port
	}
}

// ready returns once the server answers and, as a node of a cluster, has caught up. The end of the process ends it too.
func (s *Server) ready(ctx context.Context) error {
	db, err := openDB(s.dsn(""))
	if err != nil {
		return err
	}
	defer db.Close()
	if s.member == nil {
		return db.PingContext(ctx)
	}
	return s.process.whileRunning(ctx, func(ctx context.Context) error { return waitSynced(ctx, db, 0) })
}

func (s *Server) running() bool { return s.process != nil && s.process.running() }

// Stop asks the server to end, as at a planned restart, and returns when it has. It wakes a paused server for that. If
// ctx ends first, the server is killed, and the error is the context's. The error is ErrNotRunning if it did not run.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return ErrNotRunning
	}
	if err := s.process.stop(ctx); err != nil {
		return fmt.Errorf("stop %s: %w", s.Kind(), err)
	}
	return nil
}

// Kill ends the server at once, as a crash would, and returns when its process is gone. The error is ErrNotRunning if
// it did not run.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return ErrNotRunning
	}
	if err := s.process.kill(); err != nil {
		return fmt.Errorf("kill %s: %w", s.Kind(), err)
	}
	return nil
}

// Pause stops the server's process where it is: connections stay open, the system still accepts new ones for it, and
// nothing is answered until Resume. The error is ErrNotRunning if it does not run.
func (s *Server) Pause() error { return s.signal("pause", subprocess.Suspend) }

// Resume lets a paused server go on. The error is ErrNotRunning if it does not run.
func (s *Server) Resume() error { return s.signal("resume", subprocess.Resume) }

func (s *Server) signal(verb string, send func(*os.Process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return ErrNotRunning
	}
	if err := send(s.process.cmd.Process); err != nil {
		return fmt.Errorf("%s %s: %w", verb, s.Kind(), err)
	}
	return nil
}

// Close kills the server if it runs and removes its folder. Only the first call does anything.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	if s.running() {
		err = s.process.kill()
	}
	if s.folder != "" {
		err = errors.Join(err, os.RemoveAll(s.folder))
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", s.Kind(), err)
	}
	return nil
}
