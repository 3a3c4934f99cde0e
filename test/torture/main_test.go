package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/lease"
)

// playerVariable makes the test program a player, as its value says.
const playerVariable = "CRONLEASE_TORTURE_PLAYER"

// unfit is the exit code of a player that found its database unfit when it began: it is started again then, as a service
// would be.
const unfit = 75

func TestMain(m *testing.M) {
	text := os.Getenv(playerVariable)
	if text == "" {
		goleak.VerifyTestMain(m)
		return
	}
	_ = mysql.SetLogger(&mysql.NopLogger{}) // connections are broken on purpose; fails only for nil
	var p Player
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = Play(p, os.Stdin, os.Stdout)
	}
	switch {
	case errors.Is(err, lease.ErrSetup):
		os.Exit(unfit)
	case err != nil:
		fmt.Fprintln(os.Stderr, p.Worker+":", err)
		os.Exit(1)
	}
}
