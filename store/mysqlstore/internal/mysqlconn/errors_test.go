package mysqlconn_test

import (
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
)

func TestRolledBackByOthers(t *testing.T) {
	t.Parallel()
	for number, want := range map[uint16]bool{1020: true, 1213: true, 3101: true, 1205: false, 1062: false, 1047: false} {
		if got := mysqlconn.IsRolledBack(&mysql.MySQLError{Number: number}); got != want {
			t.Errorf("%d: %v", number, got)
		}
	}
}
