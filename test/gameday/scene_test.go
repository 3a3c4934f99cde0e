package gameday

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/workertest"
	"github.com/cronlease/cronlease/test/promtest"
)

// patience bounds each wait for what has to happen.
const patience = 2 * time.Minute

// scene is a group of three workers on a database server of its own, to which something happens.
type scene struct {
	t        *testing.T
	fault    fault
	folder   string
	password string // the file with it
	server   *dbserver.Server
	root     *sql.DB
	target   *target
	replicas []*replica
	victim   *replica // the leader when the fault begins
	at       *replica // where doctor and status are called; guarded by the watch, as they go on
	watch    *watch
	complain func(format string, args ...any) // of what was said, and should not have been

	began, ended time.Time // of the fault
}

func newScene(t *testing.T, f fault) *scene {
	t.Helper()
	if f.mariadb && *on != dbserver.MariaDB {
		t.Skip("it was tried on MariaDB alone")
	}
	s := &scene{t: t, fault: f, folder: t.TempDir(), target: newTarget(t), watch: newWatch(t), complain: t.Errorf}
	s.password = filepath.Join(s.folder, "password")
	s.tell("first")
	s.serve()
	workertest.Run(t, "migrate", "--database", rootURL(s.server))
	names := []string{"a", "b", "c"}
	if f.replicas > 0 {
		names = names[:f.replicas]
	}
	for i, name := range names {
		r, settings := s.newReplica(name), f.settings
		if i == len(names)-1 {
			settings += f.last
		}
		r.configure(settings)
		s.replicas = append(s.replicas, r)
		r.start()
	}
	return s
}

// serve starts the database server, whose clock can be stepped.
func (s *scene) serve() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	// As in production: a commit is on the disk when it is answered.
	options := []string{"--innodb-flush-log-at-trx-commit=1"}
	if s.fault.prepare != nil {
		options = append(options, s.fault.prepare(s)...)
	}
	path, err := dbserver.Find(ctx, *on)
	if err == nil {
		s.server, err = dbserver.New(ctx, path, options...)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := s.server.Close(); err != nil {
			s.t.Error(err)
		}
	})
	if err := errors.Join(s.server.FakeClock(), s.server.Start(ctx)); err != nil {
		s.t.Fatal(err)
	}
	s.root = open(s.t, s.server, "root", "")
	for _, statement := range []string{
		"CREATE DATABASE app",
		"CREATE TABLE app.swept (tick DATETIME(6) PRIMARY KEY, token BIGINT UNSIGNED NOT NULL)",
	} {
		s.exec(statement)
	}
	for _, account := range accounts {
		s.exec("CREATE USER " + account + "@'%' IDENTIFIED BY 'first'")
		s.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON app.* TO " + account + "@'%'")
	}
}

// accounts are those of the replicas a, b and c.
var accounts = []string{"app_a", "app_b", "app_c"}

// open returns a pool of connections.
func open(t *testing.T, server *dbserver.Server, user, password string) *sql.DB {
	t.Helper()
	config, err := mysql.ParseDSN(server.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	config.User, config.Passwd, config.Logger = user, password, &mysql.NopLogger{}
	config.Timeout, config.ReadTimeout = 10*time.Second, 30*time.Second
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	pool := sql.OpenDB(connector)
	t.Cleanup(func() { _ = pool.Close() }) // its server may have gone
	return pool
}

func rootURL(server *dbserver.Server) string { return "mysql://root@" + server.Addr() + "/app" }

// exec executes a statement as root.
func (s *scene) exec(statement string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 30*time.Second)
	defer cancel()
	if _, err := s.root.ExecContext(ctx, statement); err != nil {
		s.t.Errorf("%s: %v", statement, err)
	}
}

// tell writes the password into the file that the workers read.
func (s *scene) tell(password string) {
	err := os.WriteFile(s.password+".new", []byte(password+"\n"), 0o600)
	if err = errors.Join(err, os.Rename(s.password+".new", s.password)); err != nil {
		s.t.Error(err)
	}
}

// leader is the replica that leads, by its own word.
func (s *scene) leader() *replica {
	for _, r := range s.replicas {
		var says struct{ Role string }
		if _, body := s.watch.get("http://"+r.address+"/readyz?format=json", 2*time.Second); json.Unmarshal([]byte(body), &says) == nil && says.Role == "leading" {
			return r
		}
	}
	return nil
}

// settle waits until the group works and all that is asked says so.
func (s *scene) settle(prometheus *promtest.Server) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for s.victim == nil || s.target.after(s.watch.begun).IsZero() || !s.scraped(prometheus) || !s.watch.allWell(len(s.replicas)) {
		if time.Now().After(deadline) {
			s.t.Fatalf("the group is not well %v after its start:\n%s", patience, s.watch.story(time.Now()))
		}
		rest(s.t, 200*time.Millisecond)
		s.victim = s.leader()
	}
}

// scraped reports whether Prometheus has met all replicas a few times.
func (s *scene) scraped(prometheus *promtest.Server) bool {
	n, err := prometheus.Query(s.t.Context(), `count_over_time(cronlease_leader{job="`+s.fault.name+`"}[5m]) >= 4`)
	return err == nil && n == len(s.replicas)
}

// scrape tells Prometheus of the replicas: it watches the folder.
func (s *scene) scrape(folder string) {
	s.t.Helper()
	type targets struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	all := targets{Labels: map[string]string{"job": s.fault.name}}
	for _, r := range s.replicas {
		all.Targets = append(all.Targets, r.address)
	}
	text, err := json.Marshal([]targets{all})
	file := filepath.Join(folder, s.fault.name+".json")
	if err = errors.Join(err, os.WriteFile(file+".new", text, 0o600), os.Rename(file+".new", file)); err != nil {
		s.t.Fatal(err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func rest(t *testing.T, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
