package zkstore

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var _ store.Jobs = (*Store)(nil)

// ledger is what a store knows of a group's ledger: how it was when it last looked. A transaction that compares the group's node tells
// whether it still is.
type ledger struct {
	turn chan struct{} // full while a call has the ledger

	current bool   // may be as it is; else it has to be read again
	server  string // that has shown it
	node    node
	fence   node
	terms   []string // the nodes below the fence
	asked   node
	head    head
	parts   map[part]*content
	group   memdb.Group
	refs    map[uint64]refs
	stale   []any // deletes of the parts that this client has replaced last
}

// keepStale is how many replaced parts a leader leaves for those who have just read that they count, and have yet to read them.
const keepStale = 32

// ledgers are those of a store.
type ledgers struct {
	mu      sync.Mutex
	byGroup map[string]*ledger
}

func (l *ledgers) of(group string) *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byGroup == nil {
		l.byGroup = map[string]*ledger{}
	}
	known := l.byGroup[group]
	if known == nil {
		known = &ledger{turn: make(chan struct{}, 1), parts: map[part]*content{}}
		l.byGroup[group] = known
	}
	return known
}

// isAnswer reports whether an error of a ledger is one of its answers.
func isAnswer(err error) bool {
	return errors.Is(err, store.ErrReplaced) || errors.Is(err, store.ErrChanged) || errors.Is(err, jobs.ErrNoJob) || errors.Is(err, jobs.ErrNoRun)
}

// scope is what a call to a ledger is about.
type scope struct {
	doing string
	group string
	lease *store.Lease // that the database in memory has
	// jobs are those that the call is about; nil: all, and the archive too.
	jobs map[string]bool
	// attempts are the runs whose attempts are needed.
	attempts []jobs.Key
	// reads: it changes nothing.
	reads bool
	// often: a leader does so all the time.
	often bool
}

// about is a call about one group.
func about(doing, group string) scope { return scope{doing: doing, group: group} }

// reading is about, for a call that changes nothing.
func reading(doing, group string) scope { return scope{doing: doing, group: group, reads: true} }

// with adds the jobs of a run and of those that follow it.
func (of *scope) with(job string, then []store.Follower) {
	if of.jobs == nil {
		of.jobs = map[string]bool{}
	}
	of.jobs[job] = true
	for _, f := range then {
		of.jobs[f.Job] = true
	}
}

// some is what a ledger has of some jobs.
func (l *ledger) some(names map[string]bool) memdb.Group {
	if names == nil {
		return l.group
	}
	g := memdb.Group{
		Changes: l.group.Changes, Paused: l.group.Paused, Opened: l.group.Opened, Audits: l.group.Audits,
		Jobs: map[string]jobs.Known{}, Pauses: map[string][]jobs.Pause{}, Runs: map[string][]memdb.Run{},
	}
	for name := range names {
		if pauses, ok := l.group.Pauses[name]; ok {
			g.Pauses[name] = pauses // which are in a job's row
		}
		if known, ok := l.group.Jobs[name]; ok {
			g.Jobs[name] = known
		}
		if runs, ok := l.group.Runs[name]; ok {
			g.Runs[name] = runs
		}
	}
	return g
}

// on carries out a call on a group's ledger: on a database in memory that is as the ledger is at one instant. What that has changed is written by
// one transaction, if the ledger and the fence are still as they were.
func on[T any](ctx context.Context, s *Store, of scope, f func(db *memdb.Store) (T, error)) (result T, err error) {
	if err := store.CheckName("group", of.group); err != nil {
		return result, err
	}
	l := s.ledgers.of(of.group)
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return result, failed(of.doing, ctx.Err())
	}
	var answer error
	conflicts := 0
	err = repeat(func() error {
		if conflicts++; conflicts > 1 && !of.reads || conflicts > patient+1 {
			// Others are at it. A call that waits a while lets them come first.
			select {
			case <-time.After(rand.N(time.Duration(min(5*conflicts, 50)) * time.Millisecond)):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		st, err := s.present(ctx, of, l, conflicts)
		if err != nil {
			return err
		}
		if err := s.loadAttempts(ctx, of.group, l, of.attempts); err != nil {
			return err
		}
		was := l.some(of.jobs)
		g := was
		g.Lease = of.lease
		if g.Fence, err = fenceOf(l.fence); err != nil {
			return err
		}
		db := memdb.Of(of.group, g, st.now, st.server)
		result, answer = f(db)
		if answer != nil && !isAnswer(answer) {
			return answer
		}
		if of.reads {
			return nil
		}
		return s.commit(ctx, of, l, st.now, differenceOf(l.head, l.parts, was, db.Group(of.group)))
	})
	if err != nil {
		var none T
		return none, failed(of.doing, err)
	}
	return result, answer
}

// patient is how often a call that only reads tries to prove what it has read, while others write.
const patient = 2

// present brings what is known of a ledger up to date, and returns an instant at which it is. Where others write so often that a call which only
// reads cannot prove that in time, as over a slow network, the ledger is one of an instant between the one that it returns and now.
func (s *Store) present(ctx context.Context, of scope, l *ledger, try int) (stamp, error) {
	if !of.reads {
		return s.proven(ctx, of.group, l)
	}
	if try <= patient {
		return s.prove(ctx, of.group, l)
	}
	st, err := s.tick(ctx)
	if err != nil {
		return stamp{}, err
	}
	if l.server != st.server {
		l.server, l.parts = st.server, map[part]*content{}
	}
	return st, s.load(ctx, of.group, l)
}

// proven brings what is known of a ledger up to date, and returns an instant at which it is.
func (s *Store) proven(ctx context.Context, group string, l *ledger) (st stamp, err error) {
	err = repeat(func() error {
		st, err = s.prove(ctx, group, l)
		return err
	})
	return st, err
}

// prove is proven, once: errConflict says that what is known, or was just read, is old.
func (s *Store) prove(ctx context.Context, group string, l *ledger) (stamp, error) {
	if !l.current {
		if err := s.load(ctx, group, l); err != nil {
			return stamp{}, err
		}
	}
	st, _, err := s.settle(ctx, anyServer, append(s.as(l.node), s.asFence(l.fence, l.terms)...)...)
	if err == nil && (l.server == st.server || l.server == "") {
		l.server = st.server
		return st, nil
	}
	l.current = false
	if err == nil {
		// It may have lost what the server before had, and give the revisions of those parts to others.
		l.server, l.parts = st.server, map[part]*content{}
		err = errConflict
	}
	return stamp{}, err
}

// load reads a ledger: the group's node, and the parts whose revisions are not known.
func (s *Store) load(ctx context.Context, group string, l *ledger) error {
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
func argsOf(l *ledger) map[uint64]json.RawMessage {
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

func (s *Store) loadArgs(ctx context.Context, group string, l *ledger, known map[uint64]json.RawMessage) error {
	var wanted []ref
	var of []*memdb.Run
	for _, runs := range l.group.Runs {
		for i := range runs {
			r := &runs[i]
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
func (s *Store) loadAttempts(ctx context.Context, group string, l *ledger, keys []jobs.Key) error {
	var wanted []ref
	var of []*memdb.Run
	for _, k := range keys {
		runs := l.group.Runs[k.Job]
		i, ok := slices.BinarySearchFunc(runs, k, func(r memdb.Run, k jobs.Key) int { return memdb.CompareKeys(r.Key, k) })
		if !ok {
			continue
		}
		if r := &runs[i]; l.refs[r.Number].attempts != 0 && r.Attempts == nil && !slices.Contains(of, r) {
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

// write is a difference as operations.
type write struct {
	creates, deletes []any
	refs             map[uint64]refs
	parts            map[part]*content
	head             head
}

// writeOf writes the parts of a difference under a revision.
func (s *Store) writeOf(group string, l *ledger, d *difference, rev uint64) (*write, error) {
	w := &write{refs: map[uint64]refs{}, parts: map[part]*content{}, head: d.head}
	for number, r := range l.refs {
		w.refs[number] = r
	}
	for p, c := range l.parts {
		w.parts[p] = c
	}
	create := func(r ref, value any) error {
		data, err := pack(value)
		if err == nil && len(data) > maxTransaction-1000 {
			err = errTooLarge
		}
		w.creates = append(w.creates, &zk.CreateRequest{Path: s.path("ledgers", group, r.String()), Data: data, Acl: s.acl})
		return err
	}
	remove := func(r ref) {
		if r.Rev != 0 {
			w.deletes = append(w.deletes, &zk.DeleteRequest{Path: s.path("ledgers", group, r.String()), Version: -1})
		}
	}
	for _, r := range d.args {
		w.refs[r.Number] = refs{args: rev}
		if err := create(ref{argsPart, r.Number, rev}, []byte(r.Args)); err != nil {
			return nil, err
		}
	}
	for _, r := range d.attempts {
		was := w.refs[r.Number]
		remove(ref{attemptsPart, r.Number, was.attempts})
		w.refs[r.Number] = refs{was.args, rev}
		if err := create(ref{attemptsPart, r.Number, rev}, r.Attempts); err != nil {
			return nil, err
		}
	}
	for _, number := range d.gone {
		was := w.refs[number]
		remove(ref{argsPart, number, was.args})
		remove(ref{attemptsPart, number, was.attempts})
		delete(w.refs, number)
	}
	for _, p := range sortedParts(d.parts) {
		if was := l.parts[p]; was != nil {
			remove(ref{p.kind, p.number, was.rev})
		}
		delete(w.parts, p)
		c := d.parts[p]
		if c.empty() {
			continue
		}
		for i := range c.Runs {
			of := w.refs[c.Runs[i].Number]
			c.Runs[i].ArgsRev, c.Runs[i].AttemptsRev = of.args, of.attempts
		}
		c.rev = rev
		w.parts[p] = c
		if err := create(ref{p.kind, p.number, rev}, c); err != nil {
			return nil, err
		}
	}
	w.head.Rev, w.head.Parts = rev, nil
	for _, p := range sortedParts(w.parts) {
		w.head.Parts = append(w.head.Parts, ref{p.kind, p.number, w.parts[p].rev})
	}
	return w, nil
}

// commit writes a difference, if there is any and the ledger is as it was.
func (s *Store) commit(ctx context.Context, of scope, l *ledger, now time.Time, d *difference) error {
	if d.none(l.head) {
		return nil
	}
	// Revisions are of the clock too, so that they do not begin anew after a ledger was lost.
	rev := max(l.head.Rev+1, uint64(now.UnixMicro()))
	w, err := s.writeOf(of.group, l, d, rev)
	if err != nil {
		return err
	}
	size := sizeOf(w.creates) + sizeOf(w.deletes)
	large := size > maxTransaction/2
	if large {
		// Parts that were written for a change which did not come about may be left of the next revision.
		if w, err = s.writeOf(of.group, l, d, rev+rand.Uint64N(1_000_000)); err != nil {
			return err
		}
		if err := s.prepare(ctx, l, w); err != nil {
			return err
		}
	}
	packed, err := pack(w.head)
	if err != nil {
		return err
	}
	ops := append(s.asFence(l.fence, l.terms), s.put(l.node, packed))
	if w.head.Changes != l.head.Changes {
		number := strconv.AppendUint(nil, w.head.Changes, 10)
		if l.asked.stat == nil {
			ops = append(ops, s.put(l.asked, number))
		} else {
			ops = append(ops, &zk.SetDataRequest{Path: l.asked.path, Data: number, Version: -1})
		}
	}
	stale := l.stale
	if !large {
		deletes := w.deletes
		if of.often {
			stale = slices.Concat(stale, deletes)
			end := max(0, len(stale)-keepStale)
			deletes, stale = stale[:end], slices.Clone(stale[end:])
		}
		ops = slices.Concat(ops, w.creates, deletes)
	}
	if _, _, err := s.settle(ctx, anyServer, ops...); err != nil {
		l.current = false // also where it is not known whether it was carried out
		l.stale = nil     // what is left is found by [Store.sweep], which may have found some of it
		if errors.Is(err, errConflict) && large {
			s.sweepUp(ctx, w.creates)
		}
		return err
	}
	if large {
		s.sweepUp(ctx, w.deletes)
	}
	l.stale = stale
	l.take(of, d, w)
	return nil
}

// take makes what was written what is known.
func (l *ledger) take(of scope, d *difference, w *write) {
	if l.asked.stat == nil && w.head.Changes != l.head.Changes {
		l.asked.stat = &zk.Stat{}
	}
	version := int32(0)
	if l.node.stat != nil {
		version = l.node.stat.Version + 1
	}
	l.node.stat = &zk.Stat{Version: version}
	l.head, l.parts, l.refs = w.head, w.parts, w.refs
	g := d.group
	for _, runs := range g.Runs {
		for i := range runs {
			if runs[i].State.Over() {
				runs[i].Attempts = nil
			}
		}
	}
	if of.jobs == nil {
		l.group = g
		l.group.Lease, l.group.Fence = nil, nil
		return
	}
	l.group.Changes, l.group.Paused, l.group.Opened, l.group.Audits = g.Changes, g.Paused, g.Opened, g.Audits
	for name := range of.jobs {
		if known, ok := g.Jobs[name]; ok {
			l.group.Jobs[name] = known
		}
		l.group.Runs[name] = g.Runs[name]
	}
}

// prepare creates the parts of a change that is too large for one transaction. Nothing shows them yet.
func (s *Store) prepare(ctx context.Context, l *ledger, w *write) error {
	if l.node.stat == nil {
		if _, _, err := s.settle(ctx, anyServer, s.put(l.node, nil)); err != nil && !errors.Is(err, errConflict) {
			return err
		}
		l.current = false
		return errConflict
	}
	for _, ops := range batches(w.creates) {
		if _, _, err := s.settle(ctx, anyServer, ops...); err != nil {
			return err
		}
	}
	return nil
}

// batches splits operations into those of several transactions.
func batches(ops []any) [][]any {
	var all [][]any
	begin, size := 0, 0
	for i, op := range ops {
		of := sizeOf([]any{op})
		if i > begin && (size+of > maxTransaction || i-begin >= lookMost) {
			all, begin, size = append(all, ops[begin:i]), i, 0
		}
		size += of
	}
	if begin < len(ops) {
		all = append(all, ops[begin:])
	}
	return all
}

// sweepUp deletes parts that nothing names, as far as it can. What is left is found by [Store.sweep].
func (s *Store) sweepUp(ctx context.Context, ops []any) {
	for _, op := range ops {
		var path string
		switch op := op.(type) {
		case *zk.CreateRequest:
			path = op.Path
		case *zk.DeleteRequest:
			path = op.Path
		}
		if _, err := call(ctx, s.link, func(client *zk.Conn) (struct{}, error) { return struct{}{}, client.Delete(path, -1) }); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return
		}
	}
}

type nothing = struct{}

// doing makes an action a call with a result.
func doing(f func(db *memdb.Store) error) func(db *memdb.Store) (nothing, error) {
	return func(db *memdb.Store) (nothing, error) { return nothing{}, f(db) }
}

// Declare implements [store.Ledger].
func (s *Store) Declare(ctx context.Context, h store.Holder, declared []store.Declared) error {
	_, err := on(ctx, s, about("declare jobs", h.Group), doing(func(db *memdb.Store) error { return db.Declare(ctx, h, declared) }))
	return err
}

// Load implements [store.Ledger].
func (s *Store) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	return on(ctx, s, reading("load the ledger", group), func(db *memdb.Store) (jobs.Snapshot, error) { return db.Load(ctx, group) })
}

// Changes implements [store.Ledger].
func (s *Store) Changes(ctx context.Context, group string) (store.Changes, error) {
	st, err := s.tick(ctx)
	if err != nil {
		return store.Changes{}, failed("look for requests", err)
	}
	number, err := s.changes(ctx, group)
	return store.Changes{Number: number, Now: st.now, Server: st.server}, failed("look for requests", err)
}

func (s *Store) changes(ctx context.Context, group string) (uint64, error) {
	n, err := s.get(ctx, s.path("asked", group))
	if err != nil || len(n.data) == 0 {
		return 0, err
	}
	return strconv.ParseUint(string(n.data), 10, 64)
}

// Claim implements [store.Ledger].
func (s *Store) Claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	for _, c := range claims {
		if err := ledgerrows.CheckClaim("zkstore", c); err != nil {
			return nil, err
		}
	}
	if len(claims) == 0 {
		return nil, ctx.Err()
	}
	of := about("claim", h.Group)
	of.often = true
	for _, c := range claims {
		of.with(c.Job, c.Then)
	}
	return on(ctx, s, of, func(db *memdb.Store) ([]store.Claimed, error) { return db.Claim(ctx, h, id, claims) })
}

// Move implements [store.Ledger].
func (s *Store) Move(ctx context.Context, h store.Holder, moves []store.Move) ([]bool, error) {
	of := about("move runs", h.Group)
	of.often = true
	for _, m := range moves {
		if err := ledgerrows.CheckMove("zkstore", m); err != nil {
			return nil, err
		}
		of.with(m.Job, m.Then)
		of.attempts = append(of.attempts, m.Key)
	}
	if len(moves) == 0 {
		return nil, ctx.Err()
	}
	return on(ctx, s, of, func(db *memdb.Store) ([]bool, error) { return db.Move(ctx, h, moves) })
}

// PassOver implements [store.Ledger].
func (s *Store) PassOver(ctx context.Context, h store.Holder, job string, after time.Time) (int, error) {
	of := about("pass over runs", h.Group)
	of.with(job, nil)
	return on(ctx, s, of, func(db *memdb.Store) (int, error) { return db.PassOver(ctx, h, job, after) })
}

// Prune implements [store.Ledger].
func (s *Store) Prune(ctx context.Context, group, job string, history jobs.History, batch int) (int, error) {
	of := about("prune runs", group)
	of.with(job, nil)
	return on(ctx, s, of, func(db *memdb.Store) (int, error) { return db.Prune(ctx, group, job, history, batch) })
}
