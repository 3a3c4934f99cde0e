package dbserver

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrNoGalera says that this machine has no library of Galera.
var ErrNoGalera = errors.New("no Galera library on this machine")

// galeraNodes is the least number of which one can be lost.
const galeraNodes = 3

// stateTransfer is the program by which a node gets its data from another one.
//
//go:embed wsrep_sst_cronlease
var stateTransfer []byte

const stateTransferName = "wsrep_sst_cronlease"

// Galera is a cluster of three MariaDB servers, each of which takes writes. Its nodes are servers as others are: they can
// be stopped, killed, paused and started again one by one. Start returns when the node has caught up; it needs a
// majority of the others. A node that is paused is thrown out after Silence, and comes back by itself after Resume: see
// [Server.WaitSynced].
type Galera struct {
	// Silence is how long a node may be silent before the others expel it: after Pause, but also on a busy machine.
	// Zero: 2 s. It is set before the first Start.
	Silence time.Duration

	provider string
	nodes    []*Server

	starting sync.Mutex // of Start and Close, which happen one at a time; guards all below
	folder   string     // of the state transfer; empty until the first Start
	closed   bool
}

// NewGalera returns a cluster whose nodes will run the given MariaDB program (see [Find]) with additional options, which
// override its own. It starts nothing. The error is ErrNoGalera if this machine has no library for it;
// scripts/install-databases installs one.
func NewGalera(ctx context.Context, path string, args ...string) (*Galera, error) {
	provider, err := findGalera()
	if err != nil {
		return nil, err
	}
	g := &Galera{provider: provider}
	for i := range galeraNodes {
		s, err := New(ctx, path, args...)
		if err != nil {
			return nil, err
		}
		if s.Kind() != MariaDB {
			return nil, fmt.Errorf("make a cluster of %s: only of MariaDB", path)
		}
		s.member = &member{name: fmt.Sprintf("node%d", i+1)}
		g.nodes = append(g.nodes, s)
	}
	return g, nil
}

func findGalera() (string, error) {
	for _, pattern := range []string{"/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera*/libgalera_smm.so"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("find Galera: %w", err)
		}
		if len(found) > 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("make a cluster: %w: run scripts/install-databases", ErrNoGalera)
}

// Nodes returns the nodes, always in the same order.
func (g *Galera) Nodes() []*Server { return slices.Clone(g.nodes) }

// Start starts the nodes that do not run and returns when all of them are synced with each other. If none runs, the one
// with the latest data begins, and the others follow it; if those that run are too few for a majority, they go on
// without the others first. The first call makes the data folders. After an error some may run.
func (g *Galera) Start(ctx context.Context) error {
	g.starting.Lock()
	defer g.starting.Unlock()
	if g.closed {
		return ErrClosed
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("it did not start in %v", startLimit))
	defer cancel()
	if err := g.start(ctx); err != nil {
		return fmt.Errorf("start a cluster: %w", err)
	}
	return nil
}

func (g *Galera) start(ctx context.Context) error {
	if g.folder == "" {
		if err := g.prepare(ctx); err != nil {
			return err
		}
	}
	running := slices.DeleteFunc(slices.Clone(g.nodes), func(s *Server) bool { return s.Pid() == 0 })
	among := running
	if len(running) == 0 {
		among = g.nodes
	}
	first, err := latest(ctx, among)
	if err != nil {
		return err
	}
	if err := first.begin(ctx, len(running)); err != nil {
		return err
	}
	for _, s := range g.nodes {
		if err := s.Start(ctx); err != nil && !errors.Is(err, ErrRunning) {
			return err
		}
	}
	for _, s := range g.nodes {
		if err := s.WaitSynced(ctx, len(g.nodes)); err != nil {
			return err
		}
	}
	return nil
}

// latest returns the node with the latest data.
func latest(ctx context.Context, nodes []*Server) (*Server, error) {
	var best *Server
	most := int64(math.MinInt64)
	for _, s := range nodes {
		at, err := s.latest(ctx)
		if err != nil {
			return nil, err
		}
		if at.number > most {
			best, most = s, at.number
		}
	}
	return best, nil
}

// prepare makes the folders. One node begins a cluster and ends again, and the others get its data, so that they join
// it without a transfer.
func (g *Galera) prepare(ctx context.Context) error {
	folder, err := os.MkdirTemp("", "cronlease-galera-")
	if err != nil {
		return fmt.Errorf("create the cluster's folder: %w", err)
	}
	g.folder = folder
	err = g.fill(ctx)
	if err != nil {
		g.folder = ""
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}

func (g *Galera) fill(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(g.folder, stateTransferName), stateTransfer, 0o700); err != nil {
		return fmt.Errorf("create the cluster's folder: %w", err)
	}
	ports, err := freePorts(3 * len(g.nodes))
	if err != nil {
		return err
	}
	var addresses []string
	for i := range g.nodes {
		addresses = append(addresses, net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[3*i+1])))
	}
	cluster := strings.ToLower(rand.Text()[:16])
	for i, s := range g.nodes {
		m := &member{
			name: s.member.name, provider: g.provider, folder: g.folder, cluster: cluster, addresses: addresses,
			group: ports[3*i+1], transfer: ports[3*i+2], silence: cmp.Or(g.Silence, 2*time.Second),
		}
		if err := s.enter(ctx, m, ports[3*i]); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join(s.Folder(), "data"), filepath.Join(g.folder, m.name)); err != nil {
			return fmt.Errorf("create the cluster's folder: %w", err)
		}
	}
	from := g.nodes[0]
	if err := cmp.Or(from.begin(ctx, 0), from.Stop(ctx)); err != nil {
		return err
	}
	for _, s := range g.nodes[1:] {
		data := filepath.Join(s.Folder(), "data")
		if err := os.RemoveAll(data); err != nil {
			return fmt.Errorf("create a node's data folder: %w", err)
		}
		if err := os.Mkdir(data, 0o700); err != nil {
			return fmt.Errorf("create a node's data folder: %w", err)
		}
		if err := copyFolder(ctx, filepath.Join(from.Folder(), "data"), data); err != nil {
			return err
		}
		// It names the node that wrote it.
		if err := os.Remove(filepath.Join(data, "galera.cache")); err != nil {
			return fmt.Errorf("create a node's data folder: %w", err)
		}
	}
	return nil
}

// freePorts returns different ports that are free now.
func freePorts(n int) ([]int, error) {
	var ports []int
	var err error
	for try := 0; len(ports) < n && try < n+portTries; try++ {
		var l net.Listener
		port := RandomPort()
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			defer l.Close() // at the end, so that all are different
			ports = append(ports, port)
		}
	}
	if len(ports) < n {
		return nil, fmt.Errorf("find free ports: %w", err)
	}
	return ports, nil
}

// Close kills the nodes that run and removes the folders. Only the first call does anything.
func (g *Galera) Close() error {
	g.starting.Lock()
	defer g.starting.Unlock()
	g.closed = true
	var errs []error
	for _, s := range g.nodes {
		errs = append(errs, s.Close())
	}
	if g.folder != "" {
		errs = append(errs, os.RemoveAll(g.folder))
		g.folder = ""
	}
	return errors.Join(errs...)
}
