//go:build linux

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/dbserver"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-time", "1s"}, {"-time", "x"}, {"more"}, {"-seed", "-1"}, {"-no-such-flag"}} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, &out, &errs); code != exitUsage || errs.Len() == 0 {
			t.Errorf("%q: exit code %d, %q", args, code, errs.String())
		}
	}
}

func TestServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := soakAll(t.Context(), []string{"root@tcp(127.0.0.1:1)/"}, newPlan(time.Hour), 1, &out)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v", err)
	}
}

func TestGiven(t *testing.T) {
	for _, kind := range dbserver.Kinds() {
		t.Setenv(dbserver.DSNVariableOf(kind), kind)
	}
	t.Setenv(dbserver.GivenVariable, "")
	if got := strings.Join(given(), " "); got != "mariadb mysql" {
		t.Errorf("got %q", got)
	}
	t.Setenv(dbserver.GivenVariable, "mine")
	if got := strings.Join(given(), " "); got != "mine" {
		t.Errorf("with a given server: %q", got)
	}
}
