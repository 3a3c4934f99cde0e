package cronlease_test

import (
	"os/exec"
	"strings"
	"testing"
)

// Programs build neither Prometheus' client, OpenTelemetry nor the clients of Redis and ZooKeeper
// unless they import the package that needs it.
func TestOthersBuildNoneOfIt(t *testing.T) {
	t.Parallel()
	const module = "github.com/cronlease/cronlease/"
	users := map[string][]string{
		"github.com/prometheus/":   {"metrics", "cmd/worker"},
		"go.opentelemetry.io/":     {"tracing", "cmd/worker"},
		"github.com/redis/":        {"store/redisstore", "internal/redisserver", "internal/workertest", "cmd/worker"},
		"github.com/go-zookeeper/": {"store/zkstore", "cmd/worker"},
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}} {{join .Deps \" \"}}", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	checked, builds := 0, map[string]bool{}
	for line := range strings.Lines(string(out)) {
		name, deps, _ := strings.Cut(strings.TrimSpace(line), " ")
		checked++
		for dependency, by := range users {
			if !strings.Contains(" "+deps, " "+dependency) {
				continue
			}
			builds[dependency] = true
			mine := false
			for _, user := range by {
				mine = mine || name == module+user || strings.HasPrefix(name, module+user+"/")
			}
			if !mine {
				t.Errorf("%s builds %s", name, dependency)
			}
		}
	}
	if checked < 20 || len(builds) < len(users) || !strings.Contains(string(out), module+"scheduler") {
		t.Errorf("%d packages, which build %v", checked, builds)
	}
}
