package zkstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/internal/names"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/examining"
	"github.com/cronlease/cronlease/store/internal/refusal"
)

var (
	_ store.Checker  = (*Store)(nil)
	_ store.Examiner = (*Store)(nil)
)

// refusals are the errors by which the ensemble says that it does not do what was asked, with what helps.
var refusals = []struct {
	answer error
	is     error
	cure   string
}{
	{zk.ErrNoAuth, lease.ErrDenied, "check the user and the password, or the ACL of the store's nodes"},
	{errNoSASL, lease.ErrDenied, "give the servers a JAAS file with a section Server, and since 3.9 zookeeper.fips-mode=false"},
	{zk.ErrAuthFailed, lease.ErrDenied, "check the user and the password"},
	{zk.ErrInvalidACL, lease.ErrSetup, "give the store an ACL that the ensemble knows"},
	{errQuota, lease.ErrNotReady, "raise the quota (zkCli.sh listquota, setquota), or keep less history"},
}

// errQuota stands for an answer that the client does not know, and of which it gives the number alone.
var errQuota = errors.New("the quota for these nodes is used up")

const quotaAnswer = "unknown error: -125"

// explain says of such an error what it means.
func explain(err error) error {
	if errors.Is(err, lease.ErrSetup) {
		return err
	}
	if err != nil && strings.HasSuffix(err.Error(), quotaAnswer) {
		err = errQuota
	}
	for _, r := range refusals {
		if errors.Is(err, r.answer) {
			return &refusal.Error{Is: r.is, Answer: err, Cure: r.cure}
		}
	}
	return err
}

// Check implements [store.Checker]. It writes the node of the clock, as each transaction does, and needs no rights
// beyond those of the other methods. It refuses a user who may not write, with an error that matches [lease.ErrDenied].
// What is worth changing, [Store.Examine] says.
func (s *Store) Check(ctx context.Context) error {
	_, err := s.tick(ctx)
	return failed("check ensemble", err)
}

// Examine implements [store.Examiner]. Whether servers write to their disks before they confirm (forceSync), no client can see.
func (s *Store) Examine(ctx context.Context, ttl time.Duration) []store.Finding {
	return examining.Run(ctx, ttl, func(err error, first bool) (f store.Finding, over bool) {
		f = failedFinding(err)
		return f, first && f.Grade >= store.Problem // what is wrong with the server is wrong for all steps
	},
		examining.Step{Check: "server", Look: s.examineServer}, examining.Step{Check: "ensemble", Look: s.examineEnsemble},
		examining.Step{Check: "commits", Look: s.examineCommits}, examining.Step{Check: "transactions", Look: s.examineTransactions})
}

// failedFinding is what an error says.
func failedFinding(err error) store.Finding {
	refused := (*refusal.Error)(nil)
	switch {
	case errors.As(err, &refused):
		return store.Finding{Grade: store.Problem, Text: "the ensemble refuses what the store does: " + refused.Answer.Error(), Cure: refused.Cure}
	case errors.Is(err, errNoSession):
		f := store.Finding{
			Grade: store.Problem, Text: strings.TrimPrefix(err.Error(), "zkstore: check ensemble: "),
			Cure: "look whether a majority of its servers runs (zkServer.sh status), at their addresses, and at the way to them",
		}
		for _, other := range []error{errRedis, errForeign} { // each names its cure
			if what, cure, _ := strings.Cut(other.Error(), ": "); strings.Contains(f.Text, other.Error()) {
				f.Text, f.Cure = strings.ReplaceAll(f.Text, other.Error(), what), cure
			}
		}
		return f
	}
	return store.Finding{Grade: store.Unknown, Text: "could not be looked at: " + err.Error()}
}

func (s *Store) examineServer(ctx context.Context, _ time.Duration) (store.Finding, error) {
	if err := s.Check(ctx); err != nil {
		return store.Finding{}, err
	}
	open, err := s.openToAll(ctx)
	if err != nil {
		return store.Finding{}, err
	}
	f := store.Finding{Text: "writes below " + s.root}
	if len(open) > 0 {
		f.Grade = store.Warning
		f.Text = "whatever reaches the ensemble may change or delete leases: open to all are " + strings.Join(names.First(open, 3), ", ")
		f.Cure = "set the ACL of these nodes, and of what is below them, to that of a user of the store alone (zkCli.sh setAcl -R)"
		if s.link.target.user == "" {
			f.Cure = "give the URL a user and a password, and the nodes below " + s.root + " to that user alone (zkCli.sh setAcl -R)"
		}
	}
	return f, nil
}

// openToAll returns the nodes of the store that all may change. One that all may only create nodes in, or delete them
// from, counts: who owns what is below does not matter then.
func (s *Store) openToAll(ctx context.Context) ([]string, error) {
	paths := []string{s.root}
	for _, name := range append([]string{"id", "clock", "floor"}, kinds...) {
		paths = append(paths, s.path(name))
	}
	for _, kind := range []string{"leases", "fences"} {
		groups, err := s.children(ctx, s.path(kind))
		if err != nil {
			return nil, err
		}
		for _, group := range groups[:min(len(groups), lookMost)] {
			paths = append(paths, s.path(kind)+"/"+group)
		}
	}
	var open []string
	for _, path := range paths {
		acl, err := call(ctx, s.link, func(client *zk.Conn) ([]zk.ACL, error) {
			acl, _, err := client.GetACL(path)
			return acl, err
		})
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, a := range acl {
			if a.Scheme == "world" && a.Perms&^zk.PermRead != 0 {
				open = append(open, path)
			}
		}
	}
	return open, nil
}

// configNode lists the servers of an ensemble.
const configNode = "/zookeeper/config"

func (s *Store) examineEnsemble(ctx context.Context, _ time.Duration) (store.Finding, error) {
	n, err := s.get(ctx, configNode)
	if err != nil {
		return store.Finding{}, err
	}
	vote := 0
	for line := range strings.Lines(string(n.data)) {
		if strings.HasPrefix(line, "server.") && !strings.Contains(line, ":observer") {
			vote++
		}
	}
	return judgeEnsemble(vote), nil
}

func judgeEnsemble(vote int) store.Finding {
	switch {
	case vote < 2:
		return store.Finding{
			Grade: store.Warning, Text: "a single server: leases and runs are lost with its disk, and nobody leads while it is away", Cure: "use an ensemble of three",
		}
	case vote%2 == 0:
		return store.Finding{
			Grade: store.Warning, Text: fmt.Sprintf("%d servers vote: they bear the loss of no more than %d would", vote, vote-1), Cure: "use an odd number of servers",
		}
	}
	return store.Finding{Text: fmt.Sprintf("%d servers vote, %d of which may be away", vote, (vote-1)/2)}
}

func (s *Store) examineCommits(ctx context.Context, ttl time.Duration) (store.Finding, error) {
	times, err := examining.Measure(func() error {
		_, err := s.tick(ctx)
		return err
	})
	if err != nil {
		return store.Finding{}, err
	}
	grade, heartbeat := times.Grade(ttl)
	f := store.Finding{Grade: grade, Text: fmt.Sprintf("a transaction takes %v, the slowest of %d took %v", times.Median, times.N, times.Slowest)}
	switch grade {
	case store.Problem:
		f.Cure = fmt.Sprintf("find out what slows the ensemble down: a heartbeat may take %v, and takes a transaction", heartbeat)
	case store.Warning:
		f.Cure = "look at the disks of the ensemble, which each transaction waits for, and give them to ZooKeeper alone"
	}
	return f, nil
}

// examineTransactions carries out a transaction that is as large as those of the store may be, which leaves nothing behind.
func (s *Store) examineTransactions(ctx context.Context, _ time.Duration) (store.Finding, error) {
	if _, err := s.tick(ctx); err != nil { // whatever else is wrong
		return store.Finding{}, err
	}
	// A node that is created and deleted again shows whether more nodes may be created.
	if _, _, err := s.settle(ctx, anyServer, s.as(node{path: s.path("probe")})...); err != nil {
		return store.Finding{}, failed("create a node", err)
	}
	clock := s.path("clock")
	_, _, err := s.settle(ctx, anyServer, &zk.SetDataRequest{Path: clock, Data: make([]byte, maxTransaction-1000), Version: -1},
		&zk.SetDataRequest{Path: clock, Version: -1})
	if errors.Is(err, zk.ErrConnectionClosed) {
		return store.Finding{
			Grade: store.Warning, Text: fmt.Sprintf("the server closes the connection at a transaction of %d kB, so that changes of many jobs or runs fail", maxTransaction/1000),
			Cure: "set jute.maxbuffer to 1 MiB, its default, or more on all servers",
		}, nil
	}
	if refused := (*refusal.Error)(nil); errors.As(explain(err), &refused) && errors.Is(refused.Answer, errQuota) {
		return store.Finding{
			Grade: store.Warning, Text: fmt.Sprintf("the quota of these nodes leaves less than %d kB, so that changes of many jobs or runs may fail", maxTransaction/1000),
			Cure: refused.Cure,
		}, nil
	}
	return store.Finding{Text: fmt.Sprintf("transactions of %d kB pass", maxTransaction/1000)}, err
}
