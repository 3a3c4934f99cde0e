package zkstore

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store/ledger"
)

// load reads a ledger: the group's node, and the parts whose revisions are not known.
func (s *Store) load(ctx context.Context, group string, l *mirror) error {
	terms, err := s.children(ctx, s.path("fences", group))
	if err != nil {
		return err
	}
	nodes, err := s.getAll(ctx, []string{s.path("ledgers", group), s.path("fences", group), s.path("asked", group)})
	if err != nil {
		return err
	}
	var h head
	if nodes[0].stat != nil && len(nodes[0].data) > 0 {
		if err := unpack(nodes[0], &h); err != nil {
			return err
		}
	}
	parts, wanted := map[part]*content{}, []ref{}
	for _, r := range h.Parts {
		if known := l.parts[r.part()]; known != nil && known.rev == r.Rev {
			parts[r.part()] = known
		} else {
			wanted = append(wanted, r)
		}
	}
	contents, err := s.contents(ctx, group, wanted)
	if err != nil {
		return err
	}
	for i, n := range contents {
		c := &content{}
		if err := unpack(n, c); err != nil {
			return err
		}
		c.rev = wanted[i].Rev
		parts[wanted[i].part()] = c
	}
	was := argsOf(l)
	l.node, l.fence, l.terms, l.asked, l.head, l.parts = nodes[0], nodes[1], terms, nodes[2], h, parts
	l.group, l.refs = groupOf(h, parts)
	if err := s.loadArgs(ctx, group, l, was); err != nil {
		return err
	}
	l.current = true
	return nil
}

// contents reads parts. errConflict: one is not there any more, so that the group's node was old.
func (s *Store) contents(ctx context.Context, group string, of []ref) ([]node, error) {
	paths := make([]string, len(of))
	for i, r := range of {
		paths[i] = s.path("ledgers", group, r.String())
	}
	nodes, err := s.getAll(ctx, paths)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(nodes, func(n node) bool { return n.stat == nil }) {
		if _, err := s.tick(ctx); err != nil {
			return nil, err
		}
		return nil, errConflict
	}
	return nodes, nil
}

// argsOf are the large arguments that are known, by the number of the run. Those of a run never change.
func argsOf(l *mirror) map[uint64]json.RawMessage {
	known := map[uint64]json.RawMessage{}
	for number := range l.refs {
		if l.refs[number].args != 0 {
			known[number] = nil
		}
	}
	for _, runs := range l.group.Runs {
		for _, r := range runs {
			if _, ok := known[r.Number]; ok {
				known[r.Number] = r.Args
			}
		}
	}
	return known
}

func (s *Store) loadArgs(ctx context.Context, group string, l *mirror, known map[uint64]json.RawMessage) error {
	var wanted []ref
	var of []*ledger.KeptRun
	for _, runs := range l.group.Runs {
		for _, r := range runs {
			rev := l.refs[r.Number].args
			if rev == 0 {
				continue
			}
			if r.Args = known[r.Number]; len(r.Args) == 0 {
				wanted, of = append(wanted, ref{argsPart, r.Number, rev}), append(of, r)
			}
		}
	}
	nodes, err := s.contents(ctx, group, wanted)
	if err != nil {
		return err
	}
	for i, n := range nodes {
		var args []byte
		if err := unpack(n, &args); err != nil {
			return err
		}
		of[i].Args = args
	}
	return nil
}

// loadAttempts reads the attempts at some runs. Those of others are not kept in memory: they have what runs have printed.
func (s *Store) loadAttempts(ctx context.Context, group string, l *mirror, keys []jobs.Key) error {
	var wanted []ref
	var of []*ledger.KeptRun
	for _, k := range keys {
		r := l.group.Find(k)
		if r != nil && l.refs[r.Number].attempts != 0 && r.Attempts == nil && !slices.Contains(of, r) {
			wanted, of = append(wanted, ref{attemptsPart, r.Number, l.refs[r.Number].attempts}), append(of, r)
		}
	}
	nodes, err := s.contents(ctx, group, wanted)
	if err != nil {
		l.current = false
		return err
	}
	for i, n := range nodes {
		if err := unpack(n, &of[i].Attempts); err != nil {
			return err
		}
	}
	return nil
}
