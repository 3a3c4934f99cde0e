package gameday

import (
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/workertest"
)

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // connections are broken on purpose; fails only for nil
	os.Exit(workertest.Main(m))
}
