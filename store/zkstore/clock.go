package zkstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// identity is the node that says which server answers, as one look showed it. Its text is a random one: the client that
// finds that another server leads the ensemble, or that the ensemble has lost what it had, writes the next.
type identity struct {
	text    string
	version int32
	epoch   int64 // of the write of the text
}

// is reports whether the node is still the one that was looked at.
func (id *identity) is(n node) bool {
	return n.stat != nil && n.stat.Version == id.version && string(n.data) == id.text
}

// settled is the last transaction: where it was carried out, by the clocks of both sides.
type settled struct {
	in      session
	id      *identity
	now, at time.Time
}

// stamp is what a transaction tells of the ensemble.
type stamp struct {
	now    time.Time
	server string
}

var (
	// errConflict says that a node was not as a transaction expected. Nothing was written.
	errConflict = errors.New("zkstore: nodes have changed since they were read")

	errOtherServer = errors.New("zkstore: another server answers")

	errAnswer = errors.New("zkstore: the server has answered a transaction without its results")

	errTooLarge = fmt.Errorf("zkstore: more than the %d bytes that one transaction may have", maxTransaction)
)

// maxTransaction is how large a transaction may be: servers take 1 MiB by default (jute.maxbuffer), with what they add.
const maxTransaction = 900_000

// largeTransaction is how large one is that a server may refuse, which it does by closing the connection.
const largeTransaction = 10_000

func epochOf(zxid int64) int64 { return zxid >> 32 }

// instant is when a node was written, by the ensemble's clock, which is that of its leader, in milliseconds.
func instant(stat *zk.Stat) time.Time { return time.UnixMilli(stat.Mtime).UTC() }

// sessionOf stands for a server: any connection sees the same nodes, and a transaction compares the server itself.
func sessionOf(server string) uint64 {
	sum := sha256.Sum256([]byte(server))
	return binary.BigEndian.Uint64(sum[:8])
}

func sizeOf(ops []any) int {
	size := 0
	for _, op := range ops {
		switch op := op.(type) {
		case *zk.SetDataRequest:
			size += len(op.Path) + len(op.Data) + 30
		case *zk.CreateRequest:
			size += len(op.Path) + len(op.Data) + 200
		case *zk.DeleteRequest:
			size += len(op.Path) + 30
		case *zk.CheckVersionRequest:
			size += len(op.Path) + 30
		}
	}
	return size
}

// anyServer is for transactions that do not rest on what another server has shown.
const anyServer = "*"

// settle carries out a transaction, in which the server is compared and the clock is read. errConflict: it was refused. errOtherServer:
// nothing was done, as that is not the server.
// again is true when the server is another one than before the transaction, which has been carried out all the same.
func (s *Store) settle(ctx context.Context, server string, ops ...any) (st stamp, again bool, err error) {
	if sizeOf(ops) > maxTransaction {
		return stamp{}, false, errTooLarge
	}
	for range tries {
		id, err := s.known(ctx)
		if err != nil {
			return stamp{}, false, err
		}
		if server != anyServer && server != id.text {
			// What is known of the server may be old.
			if _, _, err := s.settle(ctx, anyServer); err != nil {
				return stamp{}, false, err
			}
			if is := s.identity.Load(); is == nil || is.text != server {
				return stamp{}, false, errOtherServer
			}
			continue
		}
		all := append([]any{
			&zk.CheckVersionRequest{Path: s.path("id"), Version: id.version}, &zk.SetDataRequest{Path: s.path("clock"), Version: -1},
		}, ops...)
		seen := s.seen.Load()
		in, err := s.link.where(ctx)
		if err != nil {
			return stamp{}, false, err
		}
		answers, err := call(ctx, s.link, func(client *zk.Conn) ([]zk.MultiResponse, error) { return client.Multi(all...) })
		switch {
		case err == nil && (len(answers) < 2 || answers[1].Stat == nil):
			return stamp{}, false, errAnswer
		case err == nil:
			stat := answers[1].Stat
			st = stamp{now: s.clock(stat), server: id.text}
			// A transaction is later than all that were answered before it was sent, or the ensemble has another history.
			if stat.Mzxid <= seen || epochOf(stat.Mzxid) != id.epoch {
				if id, err = s.turn(ctx, id); err != nil {
					return stamp{}, false, err
				}
				st.server, again = id.text, true
			}
			s.saw(stat.Mzxid)
			if is, err := s.link.where(ctx); err == nil && is == in {
				s.settled.Store(&settled{in, id, st.now, time.Now()})
			}
			return st, again, nil
		case len(answers) >= 2 && (answers[0].Error != nil || answers[1].Error != nil) && lost(err):
			s.identity.CompareAndSwap(id, nil)
		case conflicts(err):
			return stamp{}, false, fmt.Errorf("%w: %w", errConflict, err)
		case errors.Is(err, zk.ErrConnectionClosed) && sizeOf(ops) > largeTransaction:
			return stamp{}, false, fmt.Errorf("%w at a transaction of %d kB: look whether jute.maxbuffer of the servers is 1 MiB, its default, or more", err, sizeOf(ops)/1000)
		default:
			return stamp{}, false, err
		}
	}
	return stamp{}, false, errBusy
}

// tries is how often a transaction is tried that others come before.
const tries = 200

var errBusy = errors.New("zkstore: others change the same nodes all the time")

// lost reports whether the nodes that each transaction has are not as they were.
func lost(err error) bool { return errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) }

func conflicts(err error) bool {
	return lost(err) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNotEmpty)
}

// saw keeps the highest zxid.
func (s *Store) saw(zxid int64) {
	for {
		seen := s.seen.Load()
		if zxid <= seen || s.seen.CompareAndSwap(seen, zxid) {
			return
		}
	}
}

// tick reads the clock. Reads after it show at least what was written before it.
func (s *Store) tick(ctx context.Context) (stamp, error) {
	st, _, err := s.settle(ctx, anyServer)
	return st, err
}

// known returns the identity as it was last seen, and looks for it where it was not.
func (s *Store) known(ctx context.Context) (*identity, error) {
	if id := s.identity.Load(); id != nil {
		return id, nil
	}
	for range tries {
		if err := s.plant(ctx); err != nil {
			return nil, err
		}
		id, err := s.look(ctx)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		return id, err
	}
	return nil, errBusy
}

func (s *Store) look(ctx context.Context) (*identity, error) {
	n, err := s.get(ctx, s.path("id"))
	if err != nil {
		return nil, err
	}
	if n.stat == nil {
		return nil, zk.ErrNoNode
	}
	id := &identity{text: string(n.data), version: n.stat.Version, epoch: epochOf(n.stat.Mzxid)}
	s.identity.Store(id)
	return id, nil
}

// turn writes another identity in place of one, unless another client has done so.
func (s *Store) turn(ctx context.Context, id *identity) (*identity, error) {
	_, err := call(ctx, s.link, func(client *zk.Conn) (*zk.Stat, error) {
		return client.Set(s.path("id"), []byte(rand.Text()), id.version)
	})
	if err != nil && !lost(err) {
		return nil, err
	}
	s.seen.Store(0)
	s.identity.CompareAndSwap(id, nil)
	return s.known(ctx)
}

// kinds are the nodes that have others below them.
var kinds = []string{"leases", "fences", "locks", "free", "asked", "present", "notify", "ledgers", "replicas"}

// plant creates the nodes of the store that are always there.
func (s *Store) plant(ctx context.Context) error {
	if n, err := s.get(ctx, s.path("id")); err != nil || n.stat != nil {
		return err
	}
	var paths []string
	for dir := s.root; dir != "/"; dir = path.Dir(dir) {
		paths = append(paths, dir)
	}
	slices.Reverse(paths)
	for _, kind := range kinds {
		paths = append(paths, s.path(kind))
	}
	paths = append(paths, s.path("clock"), s.path("floor"), s.path("id"))
	for _, p := range paths {
		var data []byte
		if p == s.path("id") {
			data = []byte(rand.Text())
		}
		acl := s.acl
		if len(p) < len(s.root) && strings.HasPrefix(s.root, p) {
			acl = zk.WorldACL(zk.PermAll) // what the store is below may be others' too
		}
		_, err := call(ctx, s.link, func(client *zk.Conn) (string, error) { return client.Create(p, data, 0, acl) })
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return fmt.Errorf("create %s: %w", p, err)
		}
	}
	return nil
}
