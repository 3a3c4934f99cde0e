package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/execjob"
	"github.com/cronlease/cronlease/lease"
)

// playerVariable makes the test program a player, as its value says.
const playerVariable = "CRONLEASE_TORTURE_PLAYER"

// unfit is the exit code of a player that found its database unfit when it began: it is started again then, as a service
// would be.
const unfit = 75

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == execjob.GuardCommand {
		if err := execjob.Guard(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	logging.Disable() // of the client of Redis: connections are broken on purpose
	text := os.Getenv(playerVariable)
	if text == "" {
		// A pool of the client that was closed while its server was down tries for up to a second more.
		goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
		return
	}
	_ = mysql.SetLogger(&mysql.NopLogger{}) // likewise; fails only for nil
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
