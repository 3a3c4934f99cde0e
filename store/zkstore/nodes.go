package zkstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"
)

// node is a node as one read showed it; stat is nil where it is absent.
type node struct {
	path string
	data []byte
	stat *zk.Stat
}

func (s *Store) get(ctx context.Context, path string) (node, error) {
	n, err := call(ctx, s.link, func(client *zk.Conn) (node, error) {
		data, stat, err := client.Get(path)
		return node{path, data, stat}, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return node{path: path}, nil
	}
	return n, err
}

// readers is how many reads of one call are under way at once.
const readers = 32

// getAll reads nodes, not at one instant.
func (s *Store) getAll(ctx context.Context, paths []string) ([]node, error) {
	nodes, errs := make([]node, len(paths)), make([]error, len(paths))
	var all sync.WaitGroup
	turn := make(chan struct{}, readers)
	for i, path := range paths {
		turn <- struct{}{}
		all.Go(func() {
			nodes[i], errs[i] = s.get(ctx, path)
			<-turn
		})
	}
	all.Wait()
	return nodes, cmp.Or(errs...) // the others say the same
}

// children returns the names below a node, and none where it is absent.
func (s *Store) children(ctx context.Context, path string) ([]string, error) {
	names, err := call(ctx, s.link, func(client *zk.Conn) ([]string, error) {
		names, _, err := client.Children(path)
		return names, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

// as are the operations that refuse a transaction unless the node is as it was read. One that was absent is created and
// deleted again, since there is no other way to compare that.
func (s *Store) as(n node) []any {
	if n.stat == nil {
		return []any{&zk.CreateRequest{Path: n.path, Acl: s.acl}, &zk.DeleteRequest{Path: n.path, Version: -1}}
	}
	return []any{&zk.CheckVersionRequest{Path: n.path, Version: n.stat.Version}}
}

// put writes a node that is still as it was read.
func (s *Store) put(n node, data []byte) any {
	if n.stat == nil {
		return &zk.CreateRequest{Path: n.path, Data: data, Acl: s.acl}
	}
	return &zk.SetDataRequest{Path: n.path, Data: data, Version: n.stat.Version}
}

// remove deletes a node that is still as it was read.
func remove(n node) any { return &zk.DeleteRequest{Path: n.path, Version: n.stat.Version} }

// failed says what was tried, and what a refusal means.
func failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("zkstore: %s: %w", doing, explain(err))
}

// repeat calls try until nobody else has changed what it read.
func repeat(try func() error) error {
	for range tries {
		if err := try(); !errors.Is(err, errConflict) {
			return err
		}
	}
	return errBusy
}
