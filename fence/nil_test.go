package fence_test

import (
	"database/sql"
	"testing"

	"github.com/cronlease/cronlease/fence"
)

// A nil argument is an error, not a panic.
func TestNil(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		fn := func(*sql.Tx) error { return nil }
		tx, err := s.db.BeginTx(soon(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{
			"pool":             fence.Do(s.ctx(), nil, fn),
			"function":         fence.Do(s.ctx(), s.db, nil),
			"option of Do":     fence.Do(s.ctx(), s.db, fn, nil),
			"transaction":      fence.Commit(s.ctx(), nil),
			"option of Commit": fence.Commit(s.ctx(), tx, nil),
		} {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
}
