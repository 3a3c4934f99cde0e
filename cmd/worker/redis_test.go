package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/internal/redisserver"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store/redisstore"
)

// startRedis starts a private server with a user app, whose password is ${CANARY}, and who may do what the documents say a worker needs.
func startRedis(t *testing.T, args ...string) (*redisserver.Server, *redis.Client) {
	t.Helper()
	program, err := redisserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	server := redisserver.New(program, args...)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() {
		_ = admin.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	rule := []any{"ACL", "SETUSER", "app", "on", ">" + os.Getenv("CANARY"), "~{cronlease}*", "&{cronlease}*", "+@all", "-@admin", "-@dangerous", "+info"}
	if err := admin.Do(t.Context(), rule...).Err(); err != nil {
		t.Fatal(err)
	}
	return server, admin
}

// configureRedis writes a configuration with these jobs and returns its path.
func configureRedis(t *testing.T, server *redisserver.Server, jobs string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "worker.yaml")
	text := fmt.Sprintf("database: redis://app:${CANARY}@%s/2\ngroup: billing\nlease: {ttl: 6s}\njobs:\n%s", server.Addr(), jobs)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every command works on Redis.
func TestCommandsOnRedis(t *testing.T) {
	t.Parallel()
	server, _ := startRedis(t)
	path := configureRedis(t, server, everyKindOfJob)
	everyCommand(t, path, "redis://app@"+server.Addr()+"/2", "server", "memory", "durability", "replication", "commits", "clock", "leader", "replicas")
	plain(t, 3, "released", "status", "--database", "redis://app:${CANARY}@"+server.Addr()+"/2", "--group", "billing")
}

// The page, its list of locks, metrics and health work on Redis.
func TestPageOnRedis(t *testing.T) {
	t.Parallel()
	server, _ := startRedis(t)
	path := configureRedis(t, server, "  - {name: tick, every: 1s, exec: [\"true\"]}\nlisten: 127.0.0.1:0\n")
	w := startWorker(t, "run", "--config", path)
	address := addressOf(w)
	w.awaitMessage("run succeeded")
	s, err := redisstore.Open("redis://app:" + os.Getenv("CANARY") + "@" + server.Addr() + "/2")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	client, err := locks.New(s)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(context.WithoutCancel(t.Context()))
	lock, err := client.Mutex("invoices").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lock.Unlock(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	for path, want := range map[string]string{
		"/": "tick", "/job?name=tick": "every 1s", "/locks": "invoices", "/audit": "", "/metrics": "cronlease_", "/healthz": "ok", "/readyz": "ready",
	} {
		if body := awaitAnswer(t, address+path, http.StatusOK); !strings.Contains(body, want) || strings.Contains(body, os.Getenv("CANARY")) {
			t.Errorf("%s: without %q: %.2000s", path, want, body)
		}
	}
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestDemoOnRedis(t *testing.T) {
	t.Parallel()
	server, _ := startRedis(t)
	text := plain(t, 0, " doubles 0, missed 0, ", "demo", "--for", "9s", "--kill-every", "3s", "--database", "redis://app:${CANARY}@"+server.Addr())
	if strings.Contains(text, "takeovers 0") || !strings.Contains(text, "stays in redis://app@"+server.Addr()) {
		t.Errorf("saw:\n%s", text)
	}
	plain(t, 1, "login refused", "demo", "--for", "9s", "--database", "redis://app:wrong@"+server.Addr())
}

// What an operator meets: a worker says each trouble once and clearly, tells of its end, and goes on by itself.
func TestTroubleOnRedis(t *testing.T) {
	t.Parallel()
	server, admin := startRedis(t)
	ctx := t.Context()
	path := configureRedis(t, server, "  - {name: tick, every: 1s, exec: [\"true\"]}\n")
	password := func(is string) {
		t.Helper()
		if err := admin.Do(ctx, "ACL", "SETUSER", "app", "resetpass", ">"+is).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set := func(name, value string) {
		t.Helper()
		if err := admin.ConfigSet(ctx, name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	password("other")
	plain(t, 1, "worker.yaml:1:11: database: group \"billing\": redisstore: read: unfit database, for now: login refused: WRONGPASS", "status", "--config", path)
	plain(t, 5, "Cure: check the user and the password", "doctor", "--config", path)
	w := startWorker(t, "run", "--config", path)
	w.awaitMessage("database refuses the login: trying again, and saying so once a minute")
	password(os.Getenv("CANARY"))
	w.awaitMessage("leading")
	terms := func() uint64 {
		var s status
		if err := json.Unmarshal([]byte(command(t, "status", "--json", "--config", path).stdout), &s); err != nil {
			t.Fatal(err)
		}
		return s.Token
	}
	// again waits for a run of a term with a higher token.
	again := func(what string, after uint64) {
		t.Helper()
		w.await("a run after "+what, func(line map[string]any) bool {
			token, _ := line["token"].(float64)
			return line["msg"] == "run succeeded" && uint64(token) > after
		})
	}
	token := terms()
	again("the login", token-1)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	w.await("the end of the term", func(line map[string]any) bool { return line["msg"] == "lease lost" })
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	again("the pause", token)

	token = terms()
	set("maxmemory", "100kb")
	w.await("a full server", func(line map[string]any) bool {
		return strings.Contains(fmt.Sprint(line["error"]), "OOM") && strings.HasPrefix(fmt.Sprint(line["msg"]), "database not ready")
	})
	w.await("the end of the term", func(line map[string]any) bool { return line["msg"] == "lease lost" && line["token"] == float64(token) })
	plain(t, 5, "the server is full", "doctor", "--config", path)
	set("maxmemory", "0")
	again("a full server", token)

	token = terms()
	set("min-replicas-to-write", "1")
	w.await("a server that takes no writes", func(line map[string]any) bool { return strings.Contains(fmt.Sprint(line["error"]), "NOREPLICAS") })
	plain(t, 5, "Cure: bring its replicas back, or lower min-replicas-to-write", "doctor", "--config", path)
	set("min-replicas-to-write", "0")
	again("no writes", token-1)

	token = terms()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	plain(t, 1, "connection refused", "status", "--config", path)
	plain(t, 5, "connection refused", "doctor", "--config", path)
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	// The user was in memory only.
	w.awaitMessage("database refuses the login: trying again, and saying so once a minute")
	if err := admin.Do(ctx, "ACL", "SETUSER", "app", "on", ">"+os.Getenv("CANARY"), "~*", "&*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	again("a restart", token-1)
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A worker that is led to a replica waits until that takes writes.
func TestReplicaOfRedis(t *testing.T) {
	t.Parallel()
	server, admin := startRedis(t)
	path := configureRedis(t, server, "  - {name: tick, every: 1s, exec: [\"true\"]}\n")
	if err := admin.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	w := startWorker(t, "run", "--config", path)
	w.await("what it says", func(line map[string]any) bool {
		return strings.HasPrefix(fmt.Sprint(line["msg"]), "database not ready") && strings.Contains(fmt.Sprint(line["error"]), "replica")
	})
	plain(t, 5, "give the address of the primary", "doctor", "--config", path)
	if err := admin.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	w.awaitMessage("run succeeded")
	w.mu.Lock()
	if n := strings.Count(w.text.String(), `"level":"warn"`); n > 3 {
		t.Errorf("%d warnings:\n%s", n, w.text.String())
	}
	w.mu.Unlock()
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Where the database is the wrong one, doctor does not tell an operator to start workers.
func TestDoctorOfAnEmptyReplica(t *testing.T) {
	t.Parallel()
	server, admin := startRedis(t)
	path := configureRedis(t, server, "  - {name: tick, every: 1s, exec: [\"true\"]}\n")
	plain(t, 5, "Cure: start some", "doctor", "--config", path)
	if err := admin.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if text := plain(t, 5, "give the address of the primary", "doctor", "--config", path); strings.Contains(text, "Cure: start") {
		t.Errorf("doctor:\n%s", text)
	}
}
