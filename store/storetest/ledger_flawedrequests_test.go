package storetest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cronlease/cronlease/store"
)

// requestFlaws are those of [store.Heartbeats] and [store.RequestSignals].
var requestFlaws = []string{
	"requests: Beat ignores the owner",
	"requests: Beat ignores that there is no owner",
	"requests: Beat ignores the token",
	"requests: Beat ignores the heartbeat",
	"requests: Beat ignores a request to resign",
	"requests: Beat ignores the release",
	"requests: Beat renews nothing",
	"requests: Beat writes no heartbeat",
	"requests: Beat asks nothing",
	"requests: Beat asks always",
	"requests: Beat asks once",
	"requests: Beat asks for other groups",
	"requests: Beat has no clock",
	"requests: Beat has no server",
	"requests: no signal",
	"requests: a signal at once",
	"requests: the signal is for later requests",
	"requests: the signal is for more requests",
	"requests: no signal to resign",
	"requests: the signal is for the ledger alone without one",
	"requests: the signal is of any term",
	"requests: Wait ignores its context",
	"requests: Close leaves the signal open",
}

func (s *ledgerReplica) Beat(ctx context.Context, owner string, heartbeat uint64, r store.Renewal, known uint64) (store.Beat, error) {
	rs, err := s.Read(ctx, r.Group)
	if err != nil {
		return store.Beat{}, err
	}
	if row := rs[0].Lease; row != nil {
		switch s.flaw {
		case "requests: Beat ignores the owner":
			if owner != "" {
				owner = row.Owner
			}
		case "requests: Beat ignores that there is no owner":
			if owner == "" {
				owner = row.Owner
			}
		case "requests: Beat ignores the token":
			r.Token = row.Token
		case "requests: Beat ignores the heartbeat":
			r.Heartbeat = row.Heartbeat
		case "requests: Beat ignores a request to resign":
			r.ResignAsked = row.ResignAsked
		case "requests: Beat ignores the release":
			if row.Released {
				return store.Beat{Renewed: true}, nil
			}
		case "requests: Beat writes no heartbeat":
			heartbeat = row.Heartbeat
		}
	}
	if s.has("requests: Beat renews nothing") {
		return store.Beat{}, nil
	}
	n, err := s.Renew(ctx, store.Renew{Owner: owner, Heartbeat: heartbeat, Leases: []store.Renewal{r}})
	if n == 0 || err != nil {
		return store.Beat{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	number := s.changes[r.Group]
	if s.has("requests: Beat asks for other groups") {
		number += s.changes["other"]
	}
	b := store.Beat{Renewed: true, Asked: number != known, Now: rs[0].Now, Server: rs[0].Server}
	switch s.flaw {
	case "requests: Beat asks nothing":
		b.Asked = false
	case "requests: Beat asks always":
		b.Asked = true
	case "requests: Beat asks once":
		b.Asked = b.Asked && number != s.told
		s.told = number
	case "requests: Beat has no clock":
		b.Now = time.Time{}
	case "requests: Beat has no server":
		b.Server = ""
	}
	return b, nil
}

func (s *ledgerReplica) RequestSignal(group string, token uint64) store.RequestSignal {
	return &flawedRequestSignal{replica: s, group: group, token: token}
}

// flawedRequestSignal looks all the time.
type flawedRequestSignal struct {
	replica *ledgerReplica
	group   string
	token   uint64
	closed  atomic.Bool
}

func (f *flawedRequestSignal) Close() error {
	f.closed.Store(!f.replica.has("requests: Close leaves the signal open"))
	return nil
}

func (f *flawedRequestSignal) number() uint64 {
	f.replica.mu.Lock()
	defer f.replica.mu.Unlock()
	return f.replica.changes[f.group]
}

func (f *flawedRequestSignal) Wait(ctx context.Context, known *uint64) error {
	began, s := f.number(), f.replica
	if known != nil && s.has("requests: the signal is for later requests") {
		known = &began
	}
	if known == nil && s.has("requests: the signal is for the ledger alone without one") {
		known = new(uint64)
	}
	for !f.closed.Load() {
		if err := ctx.Err(); err != nil && !s.has("requests: Wait ignores its context") {
			return err
		}
		rs, err := s.leases.Read(context.Background(), f.group)
		if err != nil {
			return err
		}
		row := rs[0].Lease
		asked := row.ResignAsked && (row.Token == f.token || s.has("requests: the signal is of any term")) && !s.has("requests: no signal to resign")
		if known != nil {
			number := f.number()
			asked = asked || number > *known || number < *known && !s.has("requests: the signal is for more requests")
		}
		if (asked || s.has("requests: a signal at once")) && !s.has("requests: no signal") {
			return nil
		}
		<-time.After(time.Millisecond)
	}
	return errors.New("closed")
}
