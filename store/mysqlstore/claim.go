package mysqlstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// claimTries bounds how often an insert is repeated whose rows are missing
// afterwards for no known reason: a pause may just have ended, or rows were
// deleted by hand.
const claimTries = 5

// Claim implements [store.Ledger]. Up to 500 rows are one statement, fewer with long errors; more are
// several, each of which applies as a whole or not at all. A call that ends with
// an error may have claimed some: repeated with the same id, it goes on. It
// waits up to 5 s for a takeover to end.
func (l *ledger) Claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	h.Session = "" // that is for moves
	order := make([]int, len(claims))
	for i, c := range claims {
		if err := ledgerrows.CheckClaim("mysqlstore", c); err != nil {
			return nil, err
		}
		order[i] = i
	}
	// All callers lock rows in one order, the key's.
	slices.SortFunc(order, func(a, b int) int { return ledgerrows.CompareKeys(claims[a].Key, claims[b].Key) })

	results := make([]store.Claimed, len(claims))
	for chunk := range pieces(order, claimChunk, func(at int) int {
		return len(ledgerrows.CutError(claims[at].Error)) + argBytes(claims[at].Then)
	}) {
		part := make([]store.Claim, len(chunk))
		for i, at := range chunk {
			part[i] = claims[at]
		}
		err := l.doAs(ctx, h, "claim", func(ctx context.Context, c *conn) error {
			claimed, err := l.claim(ctx, c, h, id, part)
			for i, c := range claimed {
				results[chunk[i]] = c
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

// claim inserts the rows, and reads back if not all were inserted: what was
// there before stands, and the rest was refused by the contract or is inserted
// again. IGNORE hides why a server refuses a row (a CHECK, a partition that there
// is not), so every second statement goes without.
func (l *ledger) claim(ctx context.Context, c *conn, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	claimed := make([]store.Claimed, len(claims))
	missing, err := l.extend(ctx, c, h, id, claims, claimed)
	if err != nil || len(missing) == 0 {
		return claimed, err
	}
	for try := range claimTries {
		part := make([]store.Claim, len(missing))
		for i, at := range missing {
			part[i] = claims[at]
		}
		statement := l.claimStatement(h, id, part)
		if try%2 == 1 {
			statement = strings.Replace(statement, "INSERT IGNORE", "INSERT", 1)
		}
		done, err := l.claimAndFollow(ctx, c, h, id, part, statement)
		if err != nil && (try%2 == 0 || mysqlerr.Number(err) != mysqlerr.DuplicateKey) {
			return nil, err
		}
		if err == nil && done.Rows == len(part) {
			now := time.UnixMicro(done.LastID).UTC()
			for i, at := range missing {
				claimed[at] = store.Claimed{Mine: true, Record: claimedNow(h, part[i], now)}
			}
			return claimed, nil
		}
		// In this order: a row that comes in between is found.
		refused, err := l.readRefused(ctx, c, h, part)
		if err != nil {
			return nil, err
		}
		keys := make([]jobs.Key, len(part))
		for i, c := range part {
			keys[i] = ledgerrows.Plain(c.Key)
		}
		f, err := l.readRuns(ctx, c, h, keys)
		if err != nil {
			return nil, err
		}
		var absent []int
		for i, at := range missing {
			r, ok := f.runs[keys[i]]
			switch {
			case ok:
				claimed[at] = store.Claimed{Mine: r.ID == id, Record: r.Record}
			case f.replaced:
				return nil, store.ErrReplaced
			case refused[keys[i]]:
				claimed[at].Key = keys[i]
			default:
				absent = append(absent, at)
			}
		}
		if len(absent) == 0 {
			return claimed, nil
		}
		missing = absent
	}
	return nil, fmt.Errorf("%d rows were inserted %d times and are not there, the first of job %q and tick %v: are they deleted by other programs?",
		len(missing), claimTries, claims[missing[0]].Job, claims[missing[0]].Tick)
}

// claimAndFollow inserts the rows, and what follows those that it has inserted, in one
// transaction if anything does.
func (l *ledger) claimAndFollow(ctx context.Context, c *conn, h store.Holder, id store.ClaimID, claims []store.Claim, statement string) (mysqlconn.Change, error) {
	var then sqltext.Values
	for _, c := range claims {
		then = append(then, followers(c.Key, c.Then)...)
	}
	if len(then) == 0 {
		return l.guarded(ctx, c, h, statement)
	}
	return l.transaction(ctx, c, h, func() (mysqlconn.Change, error) {
		done, err := c.Change(ctx, statement)
		if err != nil || done.Rows == 0 {
			return done, err
		}
		return done, c.Exec(ctx, l.sql.followClaim.Render(then, underWhom(h), h.Group, string(id[:]), done.LastID))
	})
}

// extend gives rows of skipped ticks one more: see [store.Claim]. It returns which claims
// have no row yet, and fills in the others.
func (l *ledger) extend(ctx context.Context, c *conn, h store.Holder, id store.ClaimID, claims []store.Claim, claimed []store.Claimed) (missing []int, err error) {
	var rows sqltext.Values
	var keys []jobs.Key
	for _, c := range claims {
		if ledgerrows.Extends(c) {
			rows = append(rows, sqltext.Row{c.Job, c.Tick.UnixMicro(), c.Extends.UnixMicro(), c.Missed, ledgerrows.CutError(c.Error)})
			keys = append(keys, ledgerrows.Plain(c.Key))
		}
	}
	var f found
	if len(rows) > 0 {
		if _, err := l.guarded(ctx, c, h, l.sql.extend.Render(h.Group, h.Owner, h.Token, rows, h.Group, h.Group, string(id[:]))); err != nil {
			return nil, err
		}
		if f, err = l.readRuns(ctx, c, h, keys); err != nil {
			return nil, err
		}
	}
	for i, c := range claims {
		if r, ok := f.runs[ledgerrows.Plain(c.Key)]; ok && r.ID == id {
			claimed[i] = store.Claimed{Mine: true, Record: r.Record}
		} else {
			missing = append(missing, i)
		}
	}
	return missing, nil
}

// noTick is before each tick of a ledger.
const noTick = math.MinInt64 / 2

func knownTick(c store.Claim) int64 {
	if c.After.IsZero() {
		return noTick
	}
	return c.After.UnixMicro()
}

// readRefused returns which claims the contract refuses now, if their rows are
// not there: see [store.Ledger.Claim].
func (l *ledger) readRefused(ctx context.Context, c *conn, h store.Holder, claims []store.Claim) (_ map[jobs.Key]bool, err error) {
	list := make(sqltext.Values, len(claims))
	for i, c := range claims {
		list[i] = sqltext.Row{c.Job, c.Tick.UnixMicro(), c.Trigger, knownTick(c), int(c.State)}
	}
	rows, err := c.Query(ctx, l.sql.refused.Render(list, h.Group))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	refused := map[jobs.Key]bool{}
	for rows.Next() {
		var job string
		var tick int64
		if err := rows.Scan(&job, &tick); err != nil {
			return nil, err
		}
		refused[jobs.Key{Job: job, Tick: time.UnixMicro(tick).UTC()}] = true
	}
	return refused, rows.Err()
}

func (l *ledger) claimStatement(h store.Holder, id store.ClaimID, claims []store.Claim) string {
	columns, under, details := sqltext.Raw(""), sqltext.Raw("f.owner, f.token"), sqltext.Raw("NULL")
	if h.Assigns {
		columns, under, details = ", owner, token, details", "v.owner, v.token", "NULLIF(v.details, _binary'')"
	}
	rows := make(sqltext.Values, len(claims))
	for i, c := range claims {
		rows[i] = sqltext.Row{c.Job, c.Tick.UnixMicro(), c.Trigger, knownTick(c), int(c.State), delayMicros(c.Delay), c.Missed, ledgerrows.CutError(c.Error)}
		if h.Assigns {
			keeps := h.Keeps(c.State, c.For)
			rows[i] = append(rows[i], keeps.Owner, keeps.Token, ledgerrows.FormatDetails(ledgerrows.ClaimDetails(h, c)))
		}
	}
	return l.sql.claim.Render(columns, rows, string(id[:]), under, details, h.Group, h.Owner, h.Token)
}

// underWhom is whom a run waits under that follows one of that holder's.
func underWhom(h store.Holder) sqltext.Raw {
	if h.Assigns {
		return underNobody
	}
	return underRun
}

// claimedNow is what the claim statement wrote.
func claimedNow(h store.Holder, c store.Claim, now time.Time) jobs.Record {
	keeps := h.Keeps(c.State, c.For)
	r := jobs.Record{
		Key: ledgerrows.Plain(c.Key), State: c.State, Owner: keeps.Owner, Token: keeps.Token,
		Claimed: now, Missed: c.Missed, Error: ledgerrows.CutError(c.Error), Details: ledgerrows.ClaimDetails(h, c),
	}
	switch c.State {
	case jobs.Running:
		r.Attempt, r.Started = 1, now
	case jobs.Waiting:
		r.Due = now.Add(time.Duration(delayMicros(c.Delay)) * time.Microsecond)
	default:
		r.Finished = now
	}
	return r
}
