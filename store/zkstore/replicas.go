package zkstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/internal/joblist"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var _ store.Replicas = (*Store)(nil)

// replicaRow is the data of a replica's node, which was created when the replica first told of itself. The node seen
// below it was written when the replica last did. The parts of its list are below it too, and are never changed.
type replicaRow struct {
	Version string
	List    uint64
	Rev     uint64 // of the parts
	Parts   int
}

const seenNode = "seen"

func (s *Store) listPart(group, owner string, rev uint64, i int) string {
	return s.path("replicas", group, owner, fmt.Sprintf("%d.%d", rev, i))
}

// replica reads a replica's nodes; row is nil where it is not there.
func (s *Store) replica(ctx context.Context, group, owner string) (n, seen node, row *replicaRow, err error) {
	nodes, err := s.getAll(ctx, []string{s.path("replicas", group, owner), s.path("replicas", group, owner, seenNode)})
	if err != nil {
		return node{}, node{}, nil, err
	}
	n, seen = nodes[0], nodes[1]
	if n.stat == nil {
		return n, seen, nil, nil
	}
	row = &replicaRow{}
	return n, seen, row, unpack(n, row)
}

// isDamaged reports a count of parts that no list has.
func (r replicaRow) isDamaged() bool { return r.Parts < 0 || r.Parts > joblist.MostParts }

// Enlist implements [store.Replicas]. Parts of a list that is large are written before the replica has them.
func (s *Store) Enlist(ctx context.Context, group string, r jobs.Replica) error {
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	if err := store.CheckName("owner", r.Owner); err != nil {
		return err
	}
	parts := joblist.Encode(r)
	return failed("tell of the replica", repeat(func() error {
		if _, err := s.tick(ctx); err != nil {
			return err
		}
		n, seen, was, err := s.replica(ctx, group, r.Owner)
		if err != nil {
			return err
		}
		row := replicaRow{Version: r.Version, List: r.List, Rev: rand.Uint64(), Parts: len(parts)}
		if was == nil {
			if err := s.create(ctx, s.path("replicas", group)); err != nil {
				return err
			}
			empty, err := pack(replicaRow{Version: r.Version})
			if err != nil {
				return err
			}
			// Parts are below the node. Until it has them it has a list without jobs, of the number 0.
			if _, _, err := s.settle(ctx, anyServer, s.put(n, empty), s.put(seen, nil)); err != nil {
				return err
			}
			return errConflict
		}
		var creates []any
		for i, part := range parts {
			creates = append(creates, &zk.CreateRequest{Path: s.listPart(group, r.Owner, row.Rev, i), Data: part, Acl: s.acl})
		}
		for _, ops := range batches(creates) {
			if _, _, err := s.settle(ctx, anyServer, ops...); err != nil {
				return err
			}
		}
		data, err := pack(row)
		if err != nil {
			return err
		}
		ops := []any{s.put(n, data), &zk.SetDataRequest{Path: seen.path, Version: -1}}
		for i := range was.Parts {
			if was.isDamaged() {
				break
			}
			ops = append(ops, &zk.DeleteRequest{Path: s.listPart(group, r.Owner, was.Rev, i), Version: -1})
		}
		_, _, err = s.settle(ctx, anyServer, ops...)
		return err
	}))
}

// create creates a node without data unless it is there.
func (s *Store) create(ctx context.Context, path string) error {
	_, err := call(ctx, s.link, func(client *zk.Conn) (string, error) { return client.Create(path, nil, 0, s.acl) })
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// Refresh implements [store.Replicas].
func (s *Store) Refresh(ctx context.Context, group, owner string) error {
	_, err := call(ctx, s.link, func(client *zk.Conn) (*zk.Stat, error) {
		return client.Set(s.path("replicas", group, owner, seenNode), nil, -1)
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return failed("refresh the replica", err)
}

// Strike implements [store.Replicas].
func (s *Store) Strike(ctx context.Context, group, owner string, idle time.Duration) error {
	return failed("strike the replica", repeat(func() error {
		st, err := s.tick(ctx)
		if err != nil {
			return err
		}
		n, seen, row, err := s.replica(ctx, group, owner)
		if err != nil || row == nil || seen.stat != nil && st.now.Sub(s.clock(seen.stat)) < idle {
			return err
		}
		below, err := s.children(ctx, n.path)
		if err != nil {
			return err
		}
		var ops []any
		for _, name := range below {
			version := int32(-1)
			if name == seenNode && seen.stat != nil {
				version = seen.stat.Version
			}
			ops = append(ops, &zk.DeleteRequest{Path: n.path + "/" + name, Version: version})
		}
		_, _, err = s.settle(ctx, anyServer, append(ops, remove(n))...)
		return err
	}))
}

// Roster implements [jobs.Registry]. A replica that has told of another list while it was read is left out.
func (s *Store) Roster(ctx context.Context, group string, known jobs.Roster) (jobs.Roster, error) {
	roster, rows, err := s.roster(ctx, group)
	if err != nil {
		return jobs.Roster{}, failed("read the replicas", err)
	}
	jobs.SortReplicas(roster.Replicas)
	if err := s.see(ctx, group, &roster); err != nil {
		return jobs.Roster{}, failed("look for the replicas", err)
	}
	err = joblist.Fill(&roster, known, func(r jobs.Replica) (map[string]jobs.ScheduleHash, error) {
		row := rows[r.Owner]
		if row.isDamaged() {
			return nil, nil
		}
		paths := make([]string, row.Parts)
		for i := range paths {
			paths[i] = s.listPart(group, r.Owner, row.Rev, i)
		}
		nodes, err := s.getAll(ctx, paths)
		if err != nil {
			return nil, failed("read a replica's jobs", err)
		}
		parts := joblist.NewParts(r.List)
		for i, n := range nodes {
			if n.stat == nil {
				return nil, nil
			}
			parts.Add(i, row.Parts, row.List, n.data)
		}
		return parts.Jobs(), nil
	})
	return roster, err
}

// see finds out which replicas are present, by the nodes of their sessions.
func (s *Store) see(ctx context.Context, group string, roster *jobs.Roster) error {
	paths := make([]string, len(roster.Replicas))
	for i, r := range roster.Replicas {
		paths[i] = s.presence(group, store.ReplicaToken(r.Owner), "")
	}
	nodes, err := s.getAll(ctx, paths)
	if err != nil {
		return err
	}
	readings, err := s.Read(ctx, group) // one of them may have become the leader
	if err != nil {
		return err
	}
	for i := range roster.Replicas {
		r, l := &roster.Replicas[i], readings[0].Lease
		if leads := l != nil && !l.Released && l.Owner == r.Owner; !leads && r.Owner != roster.Leader {
			r.SetPresence(nodes[i].stat != nil)
		}
	}
	return nil
}

func (s *Store) roster(ctx context.Context, group string) (jobs.Roster, map[string]replicaRow, error) {
	readings, err := s.Read(ctx, group)
	if err != nil {
		return jobs.Roster{}, nil, err
	}
	roster, rows := jobs.Roster{Now: readings[0].Now}, map[string]replicaRow{}
	if l := readings[0].Lease; l != nil && !l.Released {
		roster.Leader = l.Owner
	}
	owners, err := s.children(ctx, s.path("replicas", group))
	if err != nil {
		return jobs.Roster{}, nil, err
	}
	for _, owner := range owners {
		owner = nameOf(owner)
		n, seen, row, err := s.replica(ctx, group, owner)
		if err != nil {
			return jobs.Roster{}, nil, err
		}
		if row == nil || seen.stat == nil || row.Rev == 0 {
			continue
		}
		created := *n.stat
		created.Mtime, created.Mzxid = created.Ctime, created.Czxid
		rows[owner] = *row
		roster.Replicas = append(roster.Replicas, jobs.Replica{Owner: owner, Version: row.Version, Since: s.clock(&created), Seen: s.clock(seen.stat), List: row.List})
	}
	return roster, rows, nil
}
