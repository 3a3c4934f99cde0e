package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// The files that child processes lead in.
const (
	announcedFile = "CRONLEASE_TEST_SQLITE_ANNOUNCED_FILE"
	scheduledFile = "CRONLEASE_TEST_SQLITE_SCHEDULED_FILE"
)

func init() {
	children[announcedFile] = announceTerm
	children[scheduledFile] = leadIdle
}

// announceTerm takes a lease, announces its term, and starts a process that
// outlives this one, as a job may.
func announceTerm(path string) error {
	s, err := sqlitestore.Open(path)
	if err != nil {
		return err
	}
	ctx := context.Background()
	rs, err := s.Read(ctx, "group")
	if err != nil {
		return err
	}
	token, err := s.Acquire(ctx, store.Acquire{Read: rs[0], Owner: "child", Heartbeat: 1, TTL: time.Hour})
	if err != nil {
		return err
	}
	if err := s.HandoverSignal("group").(store.PresenceSignal).Announce(ctx, token, rs[0].Server); err != nil {
		return err
	}
	job := exec.Command("sleep", "60")
	if err := job.Start(); err != nil {
		return err
	}
	fmt.Println(token, job.Process.Pid)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// The waiters learn at once that the leader's process was killed, even while a
// process that it has started goes on.
func TestKilledLeaderIsAbsent(t *testing.T) {
	t.Parallel()
	path := migrated(t)
	s := open(t, path)
	if err := s.Prepare(soon(t), "group", time.Hour); err != nil {
		t.Fatal(err)
	}
	child := start(t, announcedFile, path)
	if !child.output.Scan() {
		t.Fatal("the child ended")
	}
	var token uint64
	var pid int
	if _, err := fmt.Sscan(child.output.Text(), &token, &pid); err != nil {
		t.Fatal(err)
	}
	job, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = job.Kill() }()
	woken := make(chan error)
	for range 2 { // of one process, with stores of their own
		b := open(t, path).HandoverSignal("group").(store.PresenceSignal)
		if there, _, err := b.Present(soon(t), token); err != nil || !there {
			t.Fatalf("before the kill: present %v, %v", there, err)
		}
		go func() {
			err := b.Wait(soon(t))
			there, _, absent := b.Present(soon(t), token)
			if there {
				err = errors.New("still present")
			}
			woken <- errors.Join(err, absent, b.Close())
		}()
	}
	select {
	case err := <-woken:
		t.Fatalf("woken while the leader lives: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	killed := time.Now()
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-woken; err != nil {
			t.Error(err)
		}
	}
	t.Logf("woken %v after the kill", time.Since(killed))
	_ = child.Wait()
}

var takeoverTiming = lease.Timing{TTL: 6 * time.Second, RenewEvery: 500 * time.Millisecond}

// leadIdle is a replica without jobs.
func leadIdle(path string) error {
	s, err := sqlitestore.Open(path)
	if err != nil {
		return err
	}
	replica, err := scheduler.New(s, "group", scheduler.WithTiming(takeoverTiming))
	if err != nil {
		return err
	}
	return replica.Run(context.Background())
}

// After the death of an idle leader the next replica leads long before the TTL.
func TestTakeoverOfKilledProcess(t *testing.T) {
	t.Parallel()
	path := migrated(t)
	child := start(t, scheduledFile, path)
	s := open(t, path)
	held := func() bool {
		rs, err := s.Read(soon(t), "group")
		return err == nil && rs[0].Lease != nil && rs[0].Lease.Owner != "" && !rs[0].Lease.Released
	}
	for !held() {
		<-time.After(10 * time.Millisecond)
	}
	next, err := scheduler.New(open(t, path), "group", scheduler.WithTiming(takeoverTiming))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(soon(t))
	ended := make(chan error)
	go func() { ended <- next.Run(ctx) }()
	<-time.After(takeoverTiming.TTL + time.Second) // it has watched the database by then
	killed := time.Now()
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for next.State().Role != election.Leading {
		if ctx.Err() != nil {
			t.Fatal("nothing was taken over")
		}
		<-time.After(time.Millisecond)
	}
	took := time.Since(killed)
	t.Logf("taken over after %v", took)
	if took > takeoverTiming.TTL*3/4 {
		t.Errorf("taken over after %v", took)
	}
	_ = child.Wait()
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The file with the locks may be deleted, and has the mode of the database.
func TestFileOfSignals(t *testing.T) {
	t.Parallel()
	path := migrated(t)
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	rs, err := open(t, path).Read(soon(t), "group")
	if err != nil {
		t.Fatal(err)
	}
	signal := func(path string) store.PresenceSignal {
		return open(t, path).HandoverSignal("group").(store.PresenceSignal)
	}
	leader, other := signal(path), signal(link)
	announce := func() {
		t.Helper()
		if err := leader.Announce(soon(t), 7, rs[0].Server); err != nil {
			t.Fatal(err)
		}
	}
	present := func(want bool) {
		t.Helper()
		if there, _, err := other.Present(soon(t), 7); err != nil || there != want {
			t.Errorf("present %v, %v, want %v", there, err, want)
		}
	}
	file := path + "-signal"
	present(false)
	announce()
	present(true)
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v, want the mode of the database", info, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	present(false)
	announce()
	present(true)
	replace(t, path) // another database
	present(false)
	if err := leader.Announce(soon(t), 7, rs[0].Server); err != nil {
		t.Error(err)
	}
	present(false)
	// Where it cannot be made, there is no hint.
	if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	rs, err = open(t, path).Read(soon(t), "group")
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Announce(soon(t), 7, rs[0].Server); err == nil {
		t.Error("announced in a directory")
	}
}
