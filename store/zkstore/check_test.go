package zkstore_test

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/internal/zkserver"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/zkstore"
)

func grades(t testing.TB, s *zkstore.Store) map[string]store.Grade {
	t.Helper()
	found := map[string]store.Grade{}
	for _, f := range s.Examine(t.Context(), 0) {
		t.Logf("%s %s: %s (%s)", f.Check, f.Grade, f.Text, f.Cure)
		found[f.Check] = f.Grade
	}
	return found
}

// The nodes of a user are for that user alone.
func TestUser(t *testing.T) {
	t.Parallel()
	mine := newBench(t, "plain:sec%20ret@"+shared.Addr(), "/of/a/user")
	if err := mine.Check(t.Context()); err != nil {
		t.Error(err)
	}
	mine.run(at(1))
	if g := grades(t, mine.Store); g["server"] != store.Good || g["ensemble"] != store.Warning {
		t.Errorf("grades of a single server: %v", g)
	}
	for _, user := range []string{"", "plain:wrong@", "other:sec%20ret@"} {
		s := open(t, user+shared.Addr(), "/of/a/user")
		if err := s.Check(t.Context()); !errors.Is(err, lease.ErrDenied) || strings.Contains(err.Error(), "wrong@") {
			t.Errorf("Check as %q: %v", user, err)
		}
		if _, err := s.Read(t.Context(), "g"); !errors.Is(err, lease.ErrDenied) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Read as %q: %v", user, err)
		}
		if _, err := s.Load(t.Context(), "g"); !errors.Is(err, lease.ErrDenied) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Load as %q: %v", user, err)
		}
		if g := grades(t, s); g["server"] != store.Problem || g["commits"] != store.Unknown {
			t.Errorf("grades as %q: %v", user, g)
		}
	}
	everybody := open(t, shared.Addr(), "/of/all")
	if g := grades(t, everybody); g["server"] != store.Warning {
		t.Errorf("grades of nodes that are open to all: %v", g)
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "h:2181", "http://h", "zk://", "zk:///root", "zk://h:x", "zk://h,,i", "zk://a%zz:secret@h", "zk://h/a/../b", "zk://h/a//b", "zk://h/zookeeper", "zk://h/a b",
		"zk://secret@h", "zk://:secret@h", "zk://a:@h", "zk://a%3Ab:secret@h", "zk://a:secret@h,a:secret@i", "zk://h:0", "zk://h:99999", "zk://h/%2e%2e/b",
		"zk://h?auth=sasl", "zk://a:secret@h?auth=plain", "zk://a:secret@h?auth=sasl&auth=sasl", "zk://a:secret@h?secret=1", "zk://a:secret@h/r#x", "zk://a:secret%C3%A4@h?auth=sasl",
		"zk://h?ca=secret", "zk://a:p@secret/x@h/r", "zk://secret:12/x@h", "zks://h?ca=", "zks://h?auth=%zz", "zks://a:secret@h?ca=/nowhere.pem", "zks://a:secret@h?key=/nowhere.pem", "zks://h?ca=check_test.go",
	} {
		if s, err := zkstore.Open(url); err == nil {
			t.Errorf("Open(%q): no error", url)
			_ = s.Close()
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q): %v", url, err)
		}
	}
	for _, option := range []zkstore.Option{zkstore.WithSessionTimeout(time.Millisecond), zkstore.WithACL()} {
		if _, err := zkstore.Open("zk://h", option); err == nil {
			t.Error("Open with an option that cannot be: no error")
		}
	}
}

// A server that is not there is an error, soon, and ends with its context.
func TestNoServer(t *testing.T) {
	t.Parallel()
	s, err := zkstore.Open("zk://127.0.0.1:1", zkstore.WithSessionTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Check(t.Context()); err == nil || errors.Is(err, lease.ErrSetup) {
		t.Errorf("Check without a server: %v", err)
	}
	if _, err := s.Read(t.Context(), "g"); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || strings.Contains(err.Error(), "\n") {
		t.Errorf("Read without a server: %v", err)
	}
	if g := grades(t, s); g["server"] != store.Problem || g["commits"] != store.Unknown {
		t.Errorf("grades without a server: %v", g)
	}
}

// What all may change is found, also where another user has created it.
func TestOpenNodes(t *testing.T) {
	t.Parallel()
	client, _, err := zk.Connect([]string{shared.Addr()}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.AddAuth("digest", []byte("app:secret")); err != nil {
		t.Fatal(err)
	}
	for _, planted := range [][]string{{"/planted1"}, {"/planted2", "/planted2/leases"}, {"/planted3", "/planted3/leases", "/planted3/leases/g"}} {
		last := planted[len(planted)-1]
		for _, path := range planted {
			acl := zk.DigestACL(zk.PermAll, "app", "secret")
			if path == last {
				acl = append(acl, zk.WorldACL(zk.PermRead|zk.PermDelete)...)
			}
			if _, err := client.Create(path, nil, 0, acl); err != nil {
				t.Fatal(err)
			}
		}
		s := open(t, "app:secret@"+shared.Addr(), planted[0])
		if found := s.Examine(t.Context(), 0)[0]; found.Grade != store.Warning || !strings.HasSuffix(found.Text, " "+last) {
			t.Errorf("%s is open to all: %+v", last, found)
		}
	}
}

// A server that takes only small messages is named, and so is what it refuses.
func TestSmallMessages(t *testing.T) {
	t.Parallel()
	program, err := zkserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	small := zkserver.New(program, "-Dzookeeper.forceSync=no", "-Djute.maxbuffer=20000")
	defer func() {
		if err := small.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := small.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := open(t, small.Addr(), "/small")
	if g := grades(t, s); g["transactions"] != store.Warning || g["commits"] == store.Unknown {
		t.Errorf("grades: %v", g)
	}
	many := jobs.Replica{Owner: "o", List: 1, Jobs: map[string]jobs.ScheduleHash{}}
	for range 2000 {
		many.Jobs[rand.Text()] = jobs.HashSchedule("every 1s")
	}
	if err := s.Enlist(t.Context(), "g", many); err == nil || !strings.Contains(err.Error(), "jute.maxbuffer") {
		t.Errorf("a large change: %v", err)
	}
}

// A quota that is used up is named, also by Examine, and what is refused goes on when it is raised.
func TestQuota(t *testing.T) {
	t.Parallel()
	program, err := zkserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	server := zkserver.New(program, "-Dzookeeper.forceSync=no", "-Dzookeeper.enforceQuota=true")
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, server.Addr(), "/limited")
	client, _, err := zk.Connect([]string{server.Addr()}, 10*time.Second, zk.WithLogInfo(false))
	b.ok(err)
	defer client.Close()
	const quota = "/zookeeper/quota/limited"
	for _, of := range [][2]string{{"", ""}, {"/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=10"}, {"/zookeeper_stats", "count=0,bytes=0"}} {
		_, err := client.Create(quota+of[0], []byte(of[1]), 0, zk.WorldACL(zk.PermAll))
		b.ok(err)
	}
	claims := []store.Claim{{Key: at(1), State: jobs.Skipped}}
	if _, err := b.Claim(t.Context(), b.h, newID(), claims); !errors.Is(err, lease.ErrNotReady) || !strings.Contains(err.Error(), "raise the quota") {
		t.Errorf("Claim: %v", err)
	}
	if g := grades(t, b.Store); g["transactions"] != store.Problem {
		t.Errorf("grades: %v", g)
	}
	_, err = client.Set(quota+"/zookeeper_limits", []byte("count=-1,bytes=-1=;byteHardLimit=500000;countHardLimit=1000"), -1)
	b.ok(err)
	if g := grades(t, b.Store); g["transactions"] != store.Warning {
		t.Errorf("grades with a small quota: %v", g)
	}
	_, err = b.Claim(t.Context(), b.h, newID(), claims)
	b.ok(err)
}
