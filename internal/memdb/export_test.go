package memdb

import (
	"context"

	"github.com/cronlease/cronlease/store/ledger"
)

// Conflict lets each call of the ledger be carried out twice, the first time on a page that is thrown away: as on a database where others
// get in between.
func Conflict(s *Store) { s.rules = ledger.New("memstore", conflicting{rows{s}}) }

type conflicting struct{ rows }

func (r conflicting) Do(ctx context.Context, group string, need ledger.Need, f func(*ledger.Tx)) error {
	return r.rows.Do(ctx, group, need, func(tx *ledger.Tx) {
		f(r.page(group, need))
		f(tx)
	})
}
