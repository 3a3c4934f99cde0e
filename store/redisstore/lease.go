package redisstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var _ store.Leases = (*Store)(nil)

var (
	readScript    = newScript("read")
	prepareScript = newScript("prepare")
	acquireScript = newScript("acquire")
	renewScript   = newScript("renew")
	releaseScript = newScript("release")
	resignScript  = newLedgerScript("resign")
)

// Read implements [store.Leases].
func (s *Store) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
	if len(groups) == 0 {
		return nil, nil
	}
	f, err := s.fieldsOf(ctx, "read", readScript, texts(groups)...)
	if err != nil {
		return nil, err
	}
	now, server, all := f.instant(), f.text(), f.nested()
	readings := make([]store.Reading, len(groups))
	for i, group := range groups {
		rows := all.nested()
		readings[i] = store.Reading{Group: group, Now: now, Server: server, Session: sessionOf(server)}
		if lease := rows.nested(); !lease.absent() {
			readings[i].Lease = &store.Lease{
				Token: lease.number(), Owner: lease.text(), Heartbeat: lease.number(), RenewedAt: lease.instant(), TTL: lease.duration(),
				Released: lease.flag(), ResignAsked: lease.flag(),
			}
			f.keep(lease)
		}
		if fence := rows.nested(); !fence.absent() {
			readings[i].Fence = &store.Fence{Token: fence.number(), Owner: fence.text()}
			f.keep(fence)
		}
		f.keep(rows)
	}
	f.keep(all)
	if f.err != nil {
		return nil, f.err
	}
	return readings, nil
}

// sessionOf stands for a server: any connection to it sees the same rows, and a script compares the server itself.
func sessionOf(server string) uint64 {
	sum := sha256.Sum256([]byte(server))
	return binary.BigEndian.Uint64(sum[:8])
}

// Prepare implements [store.Leases].
func (s *Store) Prepare(ctx context.Context, group string, ttl time.Duration) error {
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	_, err := s.run(ctx, "prepare", prepareScript, group, ttl.Microseconds())
	return err
}

// Acquire implements [store.Leases].
func (s *Store) Acquire(ctx context.Context, a store.Acquire) (uint64, error) {
	if err := store.CheckName("owner", a.Owner); err != nil {
		return 0, err
	}
	if a.Read.Lease == nil || a.Read.Fence == nil || a.Read.Session != sessionOf(a.Read.Server) {
		return 0, store.ErrChanged
	}
	answer, err := s.run(ctx, "acquire", acquireScript, a.Read.Group, a.Read.Server, a.Read.Lease.Token, a.Read.Lease.Heartbeat, a.Read.Fence.Token,
		a.Owner, a.Heartbeat, a.TTL.Microseconds(), a.Floor)
	if err != nil {
		return 0, err
	}
	if answer == nil {
		return 0, store.ErrChanged
	}
	f := &fields{doing: "acquire", values: []any{answer}}
	return f.number(), f.err
}

// Renew implements [store.Leases].
func (s *Store) Renew(ctx context.Context, r store.Renew) (int, error) {
	if r.Owner == "" || len(r.Leases) == 0 {
		return 0, ctx.Err()
	}
	args := []any{r.Owner, r.Heartbeat}
	for _, l := range r.Leases {
		args = append(args, l.Group, l.Token, l.Heartbeat, flag(l.ResignAsked))
	}
	return s.count(ctx, "renew", renewScript, args...)
}

// Release implements [store.Leases].
func (s *Store) Release(ctx context.Context, group, owner string, token uint64) error {
	if owner == "" {
		return store.ErrChanged
	}
	return s.changed(ctx, "release", releaseScript, group, owner, token)
}

// AskResign implements [store.Leases].
func (s *Store) AskResign(ctx context.Context, group string, token uint64) error {
	entry := ledgerrows.Entry(ctx, jobs.ActionResign, jobs.Key{}, fmt.Sprintf("token %d", token))
	return s.changed(ctx, "ask the holder to resign", resignScript, append([]any{group, token}, written("", entryColumns(&entry))...)...)
}

// changed runs a script that counts the row that it changed.
func (s *Store) changed(ctx context.Context, doing string, of script, args ...any) error {
	n, err := s.count(ctx, doing, of, args...)
	if err == nil && n == 0 {
		err = store.ErrChanged
	}
	return err
}

// count runs a script that answers with a number.
func (s *Store) count(ctx context.Context, doing string, of script, args ...any) (int, error) {
	answer, err := s.run(ctx, doing, of, args...)
	if err != nil {
		return 0, err
	}
	f := &fields{doing: doing, values: []any{answer}}
	return int(f.number()), f.err
}

func texts(all []string) []any {
	args := make([]any, len(all))
	for i, text := range all {
		args[i] = text
	}
	return args
}
