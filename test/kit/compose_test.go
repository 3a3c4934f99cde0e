package kit

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
)

// The services of the Compose file work together: MySQL with its options, the migration, and three workers, of which
// another one leads when the leader is killed.
func TestCompose(t *testing.T) {
	t.Parallel()
	path := filepath.Join(root, "deploy/compose/compose.yaml")
	options, err := cli.NewProjectOptions([]string{path}, cli.WithEnv([]string{"DB_PASSWORD=secret-4711"}))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	database, migrate, workers := project.Services["mysql"], project.Services["migrate"], project.Services["worker"]
	if database.HealthCheck == nil || workers.Deploy == nil || workers.Deploy.Replicas == nil || *workers.Deploy.Replicas != 3 || workers.StopGracePeriod == nil {
		t.Fatalf("%+v", workers)
	}
	if file := filepath.Join(project.WorkingDir, workers.Build.Context, workers.Build.Dockerfile); !filepath.IsAbs(workers.Build.Context) {
		t.Errorf("the context %s of %s is not resolved", workers.Build.Context, file)
	} else if _, err := os.Stat(filepath.Join(workers.Build.Context, workers.Build.Dockerfile)); err != nil {
		t.Error(err)
	}
	for key := range map[string]bool{"MYSQL_DATABASE": true, "MYSQL_USER": true, "MYSQL_PASSWORD": true} {
		if value := database.Environment[key]; value == nil || *value == "" {
			t.Fatalf("no %s", key)
		}
	}
	mount := workers.Volumes[0]
	configuration, err := os.ReadFile(mount.Source)
	if err != nil {
		t.Fatal(err)
	}
	graceful(t, time.Duration(*workers.StopGracePeriod), string(configuration))

	server := dbtest.Private(t, dbserver.MySQL, database.Command...)
	admin, err := sql.Open("mysql", server.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	// As the image makes them.
	name, user := *database.Environment["MYSQL_DATABASE"], *database.Environment["MYSQL_USER"]
	for _, statement := range []string{
		"CREATE DATABASE " + name,
		"CREATE USER " + user + "@'%' IDENTIFIED BY '" + *database.Environment["MYSQL_PASSWORD"] + "'",
		"GRANT ALL ON " + name + ".* TO " + user + "@'%'",
	} {
		if _, err := admin.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.Replace(string(configuration), "@mysql:3306/", "@"+server.Addr()+"/", 1)
	if text == string(configuration) {
		t.Fatal("the configuration names no host mysql")
	}
	copied := filepath.Join(t.TempDir(), "worker.yaml")
	if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var env []string
	for key, value := range workers.Environment {
		env = append(env, key+"="+*value)
	}
	args := func(command []string) []string {
		i := slices.Index(command, mount.Target)
		if i < 0 {
			t.Fatalf("%q does not name the mounted %s", command, mount.Target)
		}
		command = slices.Clone(command)
		command[i] = copied
		return command
	}
	if out, err := command(t, env, args(migrate.Command)...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	replicas := map[string]*replica{} // by process
	for range *workers.Deploy.Replicas {
		r := start(t, env, args(workers.Command)...)
		replicas[r.pid()] = r
	}
	leader := leaderOf(t, env, copied, "")
	for _, r := range replicas {
		eventually(t, "a worker is ready", func() bool { status, _ := r.get("/readyz"); return status == 200 })
		for _, path := range []string{"/healthz", "/metrics"} {
			if status, body := r.get(path); status != 200 {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
	}
	killed := replicas[leader]
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	delete(replicas, leader)
	next := leaderOf(t, env, copied, leader)
	if replicas[next] == nil {
		t.Errorf("process %s leads", next)
	}
	out, err := command(t, env, "doctor", "--config", copied)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, r := range replicas {
		r.stop(time.Duration(*workers.StopGracePeriod))
	}
}

var leaderLine = regexp.MustCompile(`(?m)^leader +worker/[^/]*/(\d+)/`)

// leaderOf waits for a leader other than one, and returns the number of its process.
func leaderOf(t *testing.T, env []string, config, other string) string {
	t.Helper()
	var leader string
	eventually(t, "a worker leads", func() bool {
		out, _ := command(t, env, "status", "--config", config) // an error while nobody leads
		if found := leaderLine.FindStringSubmatch(out); found != nil {
			leader = found[1]
		}
		return leader != "" && leader != other
	})
	return leader
}
