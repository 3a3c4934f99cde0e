package dbserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// member is what a node has to know of its cluster. The server's mutex guards it.
type member struct {
	name      string
	provider  string   // the library
	folder    string   // of the state transfer
	cluster   string   // its name; empty before the cluster's first Start
	addresses []string // of all nodes' group ports
	group     int      // port for the cluster's own connections
	transfer  int      // port for what the node missed
	silence   time.Duration
	begins    bool // the node starts the cluster anew
}

// syncPoll is how often a node is asked for its state; there is nothing to wait for.
const syncPoll = 20 * time.Millisecond

// position is how much of its cluster's writes a node has.
type position struct {
	state  string // the history's id; all zeros when the node has none
	number int64
}

const noHistory = "00000000-0000-0000-0000-000000000000"

func (p position) known() bool { return p.state != "" && p.state != noHistory && p.number >= 0 }

// enter makes the server's folder and data as those of a node.
func (s *Server) enter(ctx context.Context, m *member, port int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.member, s.port = m, port
	return s.prepare(ctx)
}

// begin makes the node one that takes writes, alone if need be: it starts the cluster anew or, as one of so many that
// run, goes on without the others.
func (s *Server) begin(ctx context.Context, running int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.running():
		return s.goOn(ctx, running)
	}
	// Only the node that ended last may begin, as far as this file knows.
	path := filepath.Join(s.folder, "data", "grastate.dat")
	if state, err := os.ReadFile(path); err == nil {
		state = []byte(strings.Replace(string(state), "safe_to_bootstrap: 0", "safe_to_bootstrap: 1", 1))
		if err := os.WriteFile(path, state, 0o600); err != nil {
			return fmt.Errorf("begin a cluster: %w", err)
		}
	}
	s.member.begins = true
	defer func() { s.member.begins = false }()
	return s.launch(ctx)
}

// goOn lets a running node that has lost its majority go on, once it knows which nodes are gone.
func (s *Server) goOn(ctx context.Context, running int) error {
	db, err := openDB(s.dsn(""))
	if err != nil {
		return err
	}
	defer db.Close()
	return s.process.whileRunning(ctx, func(ctx context.Context) error {
		status, err := waitStatus(ctx, db, func(status map[string]string) bool {
			return status["wsrep_cluster_size"] == strconv.Itoa(running)
		})
		if err != nil || status["wsrep_cluster_status"] == "Primary" {
			return err
		}
		if _, err := db.ExecContext(ctx, "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'"); err != nil {
			return fmt.Errorf("let a node go on: %w", err)
		}
		return nil
	})
}

// memberOptions are the options of a node, for one start of it.
func (s *Server) memberOptions(ctx context.Context) ([]string, error) {
	m := s.member
	if m.cluster == "" {
		return nil, errors.New("the cluster has not been started")
	}
	at, err := s.position(ctx)
	if err != nil {
		return nil, err
	}
	options := s.wsrepOptions()
	if at.known() {
		options = append(options, fmt.Sprintf("--wsrep-start-position=%s:%d", at.state, at.number))
	}
	if m.begins {
		options = append(options, "--wsrep-new-cluster")
	}
	return options, nil
}

// seconds is a duration as Galera reads it.
func seconds(d time.Duration) string { return fmt.Sprintf("PT%gS", d.Seconds()) }

func (s *Server) wsrepOptions() []string {
	m := s.member
	address := func(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
	return []string{
		"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
		"--wsrep-on=ON", "--wsrep-provider=" + m.provider, "--wsrep-cluster-name=" + m.cluster,
		"--wsrep-cluster-address=gcomm://" + strings.Join(m.addresses, ","),
		"--wsrep-node-name=" + m.name, "--wsrep-node-address=" + address(m.group),
		"--wsrep-sst-method=" + strings.TrimPrefix(stateTransferName, "wsrep_sst_"),
		"--wsrep-provider-options=" + strings.Join([]string{
			"base_host=127.0.0.1", "base_port=" + strconv.Itoa(m.group),
			"gmcast.listen_addr=tcp://" + address(m.group), "ist.recv_addr=" + address(m.transfer),
			"gcache.size=32M",
			// A node that is silent for that long is expelled.
			"evs.keepalive_period=PT0.2S", "evs.inactive_check_period=PT0.2S",
			"evs.suspect_timeout=" + seconds(m.silence*3/4), "evs.inactive_timeout=" + seconds(m.silence),
			"evs.install_timeout=" + seconds(m.silence),
			"gmcast.peer_timeout=PT1S",
			// --wsrep-new-cluster says which node begins, and not a file of the last run.
			"pc.recovery=FALSE",
		}, ";"),
	}
}

// latest is position for a node that may run.
func (s *Server) latest(ctx context.Context) (position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return s.position(ctx)
	}
	db, err := openDB(s.dsn(""))
	if err != nil {
		return position{}, err
	}
	defer db.Close()
	status, err := wsrepStatus(ctx, db)
	if err != nil {
		return position{}, fmt.Errorf("read a node's position: %w", err)
	}
	number, err := strconv.ParseInt(status["wsrep_last_committed"], 10, 64)
	if err != nil {
		return position{}, fmt.Errorf("read a node's position: %w", err)
	}
	return position{status["wsrep_cluster_state_uuid"], number}, nil
}

var (
	savedState    = regexp.MustCompile(`(?m)^uuid:\s+(\S+)\s+seqno:\s+(-?\d+)$`)
	recoveredFrom = regexp.MustCompile(`WSREP: Recovered position: ?([0-9a-f-]+):(-?\d+)`)
)

// position reads where a node stopped: from its file after a planned stop, else from its data.
func (s *Server) position(ctx context.Context) (position, error) {
	data := filepath.Join(s.folder, "data")
	saved, err := os.ReadFile(filepath.Join(data, "grastate.dat"))
	if errors.Is(err, os.ErrNotExist) {
		return position{}, nil // it has never been a node
	}
	if err != nil {
		return position{}, fmt.Errorf("read a node's position: %w", err)
	}
	if at := parsePosition(savedState, string(saved)); at.known() {
		return at, nil
	}
	// It only reads its data. With its port it would fail when another process has taken that while the node was down.
	cmd := exec.CommandContext(ctx, s.program.path,
		slices.Concat(s.options(), s.wsrepOptions(), s.args, []string{"--wsrep-recover", "--skip-networking"})...)
	cmd.Env = s.env()
	var out tail
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := runLocked(cmd); err != nil {
		return position{}, fmt.Errorf("recover a node's position: %w\n%s", err, out.String())
	}
	return parsePosition(recoveredFrom, out.String()), nil
}

func parsePosition(pattern *regexp.Regexp, text string) position {
	found := pattern.FindStringSubmatch(text)
	if found == nil {
		return position{}
	}
	number, err := strconv.ParseInt(found[2], 10, 64)
	if err != nil {
		return position{}
	}
	return position{found[1], number}
}

// WaitSynced waits until the node takes reads and writes and has caught up with a cluster of so many nodes; 0 stands
// for any number. A node that was paused learns a moment after Resume that it was thrown out: ask the others first. The
// error is ErrNotRunning if it does not run, or stops, and the context's if that ends first.
func (s *Server) WaitSynced(ctx context.Context, nodes int) error {
	s.mu.Lock()
	running, process, dsn := s.running(), s.process, s.dsn("")
	s.mu.Unlock()
	if !running {
		return ErrNotRunning
	}
	db, err := openDB(dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return process.whileRunning(ctx, func(ctx context.Context) error { return waitSynced(ctx, db, nodes) })
}

func waitSynced(ctx context.Context, db *sql.DB, nodes int) error {
	_, err := waitStatus(ctx, db, func(status map[string]string) bool {
		return status["wsrep_ready"] == "ON" && status["wsrep_local_state_comment"] == "Synced" &&
			status["wsrep_cluster_status"] == "Primary" && (nodes == 0 || status["wsrep_cluster_size"] == strconv.Itoa(nodes))
	})
	return err
}

// waitStatus waits until a node's status is as wanted, and returns it.
func waitStatus(ctx context.Context, db *sql.DB, wanted func(map[string]string) bool) (map[string]string, error) {
	ticker := time.NewTicker(syncPoll)
	defer ticker.Stop()
	for {
		status, err := wsrepStatus(ctx, db)
		if err == nil && wanted(status) {
			return status, nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a node: %w (its last status: %v)", errors.Join(context.Cause(ctx), err), status)
		}
	}
}

// wsrepStatus is what a node says of itself and its cluster.
func wsrepStatus(ctx context.Context, db *sql.DB) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, `SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_ready', 'wsrep_cluster_size',
		'wsrep_cluster_status', 'wsrep_cluster_state_uuid', 'wsrep_local_state_comment', 'wsrep_last_committed')`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	status := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		status[name] = value
	}
	return status, rows.Err()
}
