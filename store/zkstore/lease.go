package zkstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

var _ store.Leases = (*Store)(nil)

// leaseRow is the data of a lease's node.
type leaseRow struct {
	Owner     string `json:"owner"`
	Token     uint64 `json:"token"`
	Heartbeat uint64 `json:"heartbeat"`
	// Renewed is in microseconds since 1970. Nil: the node was last written by what renewed the lease.
	Renewed  *int64 `json:"renewed,omitempty"`
	TTL      int64  `json:"ttl"` // in microseconds
	Released bool   `json:"released,omitempty"`
	Resign   bool   `json:"resign,omitempty"`
}

// fenceRow is the data of a fence's node.
type fenceRow struct {
	Owner string `json:"owner"`
	Token uint64 `json:"token"`
}

func encode(row any) []byte {
	data, err := json.Marshal(row)
	if err != nil {
		panic(err) // rows are plain values
	}
	return data
}

func decode(n node, row any) error {
	if err := json.Unmarshal(n.data, row); err != nil {
		return fmt.Errorf("zkstore: node %s: %w", n.path, err)
	}
	return nil
}

func (s *Store) leaseOf(n node) (*store.Lease, error) {
	if n.stat == nil {
		return nil, nil
	}
	var row leaseRow
	if err := decode(n, &row); err != nil {
		return nil, err
	}
	l := &store.Lease{
		Owner: row.Owner, Token: row.Token, Heartbeat: row.Heartbeat, RenewedAt: s.clock(n.stat),
		TTL: time.Duration(row.TTL) * time.Microsecond, Released: row.Released, ResignAsked: row.Resign,
	}
	if row.Renewed != nil {
		l.RenewedAt = time.UnixMicro(*row.Renewed).UTC()
	}
	return l, nil
}

// leaseData is the data of a lease that the transaction renews which writes it.
func leaseData(l store.Lease) []byte {
	return encode(leaseRow{Owner: l.Owner, Token: l.Token, Heartbeat: l.Heartbeat, TTL: l.TTL.Microseconds(), Released: l.Released, Resign: l.ResignAsked})
}

// leaseDataAt is the data of a lease that was renewed before.
func leaseDataAt(l store.Lease) []byte {
	renewed := l.RenewedAt.UnixMicro()
	return encode(leaseRow{Owner: l.Owner, Token: l.Token, Heartbeat: l.Heartbeat, Renewed: &renewed, TTL: l.TTL.Microseconds(), Released: l.Released, Resign: l.ResignAsked})
}

func fenceOf(n node) (*store.Fence, error) {
	if n.stat == nil {
		return nil, nil
	}
	var row fenceRow
	if err := decode(n, &row); err != nil {
		return nil, err
	}
	return &store.Fence{Owner: row.Owner, Token: row.Token}, nil
}

// rows are the two rows of a group with their nodes.
type rows struct {
	lease, fence node
	l            *store.Lease
	f            *store.Fence
}

func (s *Store) rows(ctx context.Context, groups ...string) ([]rows, error) {
	paths := make([]string, 0, 2*len(groups))
	for _, group := range groups {
		paths = append(paths, s.path("leases", group), s.path("fences", group))
	}
	nodes, err := s.getAll(ctx, paths)
	if err != nil {
		return nil, err
	}
	all := make([]rows, len(groups))
	for i := range all {
		r := rows{lease: nodes[2*i], fence: nodes[2*i+1]}
		if r.l, err = s.leaseOf(r.lease); err != nil {
			return nil, err
		}
		if r.f, err = fenceOf(r.fence); err != nil {
			return nil, err
		}
		all[i] = r
	}
	return all, nil
}

// Read implements [store.Leases].
func (s *Store) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
	if len(groups) == 0 {
		return nil, nil
	}
	var readings []store.Reading
	err := repeat(func() error {
		all, err := s.rows(ctx, groups...)
		if err != nil {
			return err
		}
		// A transaction that finds each node as it was read makes one instant of all the reads.
		var ops []any
		asked := map[string]bool{}
		for i, r := range all {
			if !asked[groups[i]] {
				ops = append(append(ops, s.as(r.lease)...), s.as(r.fence)...)
			}
			asked[groups[i]] = true
		}
		st, again, err := s.settle(ctx, anyServer, ops...)
		if err != nil {
			return err
		}
		if again {
			return errConflict
		}
		readings = make([]store.Reading, len(groups))
		for i, r := range all {
			readings[i] = store.Reading{Group: groups[i], Lease: r.l, Fence: r.f, Now: st.now, Server: st.server, Session: sessionOf(st.server)}
		}
		return nil
	})
	return readings, failed("read", err)
}

// Prepare implements [store.Leases].
func (s *Store) Prepare(ctx context.Context, group string, ttl time.Duration) error {
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	return failed("prepare", repeat(func() error {
		st, err := s.tick(ctx)
		if err != nil {
			return err
		}
		all, err := s.rows(ctx, group)
		if err != nil {
			return err
		}
		r := all[0]
		var ops []any
		switch {
		case r.l != nil && r.f != nil:
			return nil
		case r.l != nil:
			ops = append(s.as(r.lease), s.newTerm(group, r.fence, nil, fenceRow{r.l.Owner, r.l.Token})...)
		case r.f != nil:
			token := max(r.f.Token+1, uint64(st.now.UnixMicro()))
			ops = append(s.as(r.fence), s.put(r.lease, leaseData(store.Lease{Token: token, TTL: ttl})))
		default:
			ops = []any{s.put(r.lease, leaseData(store.Lease{TTL: ttl, Released: true})), s.put(r.fence, encode(fenceRow{}))}
		}
		_, _, err = s.settle(ctx, anyServer, ops...)
		return err
	}))
}

// Acquire implements [store.Leases].
func (s *Store) Acquire(ctx context.Context, a store.Acquire) (uint64, error) {
	if err := store.CheckName("owner", a.Owner); err != nil {
		return 0, err
	}
	if a.Read.Lease == nil || a.Read.Fence == nil || a.Read.Session != sessionOf(a.Read.Server) {
		return 0, store.ErrChanged
	}
	var token uint64
	err := repeat(func() error {
		st, err := s.tick(ctx)
		if err != nil {
			return err
		}
		all, err := s.rows(ctx, a.Read.Group)
		if err != nil {
			return err
		}
		r := all[0]
		if st.server != a.Read.Server || r.l == nil || r.f == nil || r.l.Token != a.Read.Lease.Token ||
			r.l.Heartbeat != a.Read.Lease.Heartbeat || r.f.Token != a.Read.Fence.Token {
			return store.ErrChanged
		}
		token = max(r.l.Token, r.f.Token, a.Floor) + 1
		if now := uint64(st.now.UnixMicro()); token < now {
			token = now
		} else if token < now+1000 {
			// The last token is of this very millisecond. Later ones are to be of the clock too, so this one waits for the next.
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
			return errConflict
		}
		terms, err := s.children(ctx, r.fence.path)
		if err != nil {
			return err
		}
		ops := append(s.newTerm(a.Read.Group, r.fence, terms, fenceRow{a.Owner, token}),
			s.put(r.lease, leaseData(store.Lease{Owner: a.Owner, Token: token, Heartbeat: a.Heartbeat, TTL: a.TTL})))
		_, _, err = s.settle(ctx, a.Read.Server, ops...)
		if errors.Is(err, errOtherServer) {
			return store.ErrChanged
		}
		return err
	})
	if err == store.ErrChanged { //nolint:errorlint // an answer is passed on as it is
		return 0, err
	}
	if err != nil {
		return 0, failed("acquire", err)
	}
	return token, nil
}

// renewals is how many leases one transaction renews at most.
const renewals = 1000

// Renew implements [store.Leases]. More than a thousand leases are several transactions.
func (s *Store) Renew(ctx context.Context, r store.Renew) (int, error) {
	if r.Owner == "" {
		return 0, ctx.Err()
	}
	renewed := 0
	for leases := r.Leases; len(leases) > 0; {
		part := leases[:min(len(leases), renewals)]
		leases = leases[len(part):]
		n, _, err := s.renew(ctx, r.Owner, r.Heartbeat, part)
		if err != nil {
			return 0, failed("renew", err)
		}
		renewed += n
	}
	return renewed, ctx.Err()
}

// renew reads the leases, and writes those that are as expected if they are still so.
func (s *Store) renew(ctx context.Context, owner string, heartbeat uint64, leases []store.Renewal) (renewed int, st stamp, err error) {
	paths := make([]string, len(leases))
	for i, want := range leases {
		paths[i] = s.path("leases", want.Group)
	}
	current := false // what is read is no older than this call
	err = repeat(func() error {
		nodes, err := s.getAll(ctx, paths)
		if err != nil {
			return err
		}
		renewed = 0
		var ops []any
		for i, want := range leases {
			l, err := s.leaseOf(nodes[i])
			if err != nil {
				return err
			}
			if l == nil || l.Released || l.Owner != owner || l.Token != want.Token || l.Heartbeat != want.Heartbeat || l.ResignAsked != want.ResignAsked {
				continue
			}
			l.Heartbeat = heartbeat
			ops = append(ops, s.put(nodes[i], leaseData(*l)))
			renewed++
		}
		if renewed < len(leases) && !current {
			// The server that answers may be behind.
			current = true
			if st, err = s.tick(ctx); err != nil {
				return err
			}
			return errConflict
		}
		if renewed == 0 {
			return nil
		}
		current = false
		st, _, err = s.settle(ctx, anyServer, ops...)
		return err
	})
	return renewed, st, err
}

// Release implements [store.Leases].
func (s *Store) Release(ctx context.Context, group, owner string, token uint64) error {
	return s.change(ctx, "release", group, "free", func(l *store.Lease) (bool, error) {
		if owner == "" || l.Owner != owner || l.Token != token {
			return false, store.ErrChanged
		}
		was := l.Released
		l.Released = true
		return !was, nil
	})
}

// AskResign implements [store.Leases]. The entry of the audit is a transaction of its own, right after.
func (s *Store) AskResign(ctx context.Context, group string, token uint64) error {
	result := jobs.Done
	err := s.change(ctx, "ask the holder to resign", group, "asked", func(l *store.Lease) (bool, error) {
		if l.Released || l.Token != token {
			return false, store.ErrChanged
		}
		if result = jobs.Done; l.ResignAsked {
			result = jobs.Unchanged
		}
		l.ResignAsked = true
		return result == jobs.Done, nil
	})
	switch {
	case errors.Is(err, store.ErrChanged):
		result = jobs.Refused
	case err != nil:
		return err
	}
	note := func(tx *ledger.Tx) { tx.NoteResign(ctx, token, result) }
	return cmp.Or(ledgerRows{s}.Do(ctx, group, ledger.Need{Doing: "note an action"}, note), err)
}

// change changes a lease row, if that is to be done, and does not renew it. It wakes who watches the group's node of that kind.
func (s *Store) change(ctx context.Context, doing, group, kind string, change func(l *store.Lease) (bool, error)) error {
	err := repeat(func() error {
		if _, err := s.tick(ctx); err != nil {
			return err
		}
		nodes, err := s.getAll(ctx, []string{s.path("leases", group), s.path(kind, group)})
		if err != nil {
			return err
		}
		l, err := s.leaseOf(nodes[0])
		if err != nil {
			return err
		}
		if l == nil {
			return store.ErrChanged
		}
		changed, err := change(l)
		if err != nil || !changed {
			return err
		}
		_, _, err = s.settle(ctx, anyServer, s.put(nodes[0], leaseDataAt(*l)), s.put(nodes[1], nodes[1].data))
		return err
	})
	if err == store.ErrChanged { //nolint:errorlint // an answer is passed on as it is
		return err
	}
	return failed(doing, err)
}
