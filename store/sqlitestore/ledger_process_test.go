package sqlitestore_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

const (
	// claimerFile names the file in whose ledger a child process claims ticks.
	claimerFile = "CRONLEASE_TEST_SQLITE_LEDGER_FILE"
	// migratorFile names the file that a child process brings to the newest
	// version.
	migratorFile = "CRONLEASE_TEST_SQLITE_MIGRATE_FILE"

	// claimedAtOnce is how many ticks a child claims in one call.
	claimedAtOnce = 5
)

func init() {
	children[claimerFile] = claimer
	children[migratorFile] = migrator
}

// claimer takes a term from others for each line of its input, claims the next
// ticks in it by two calls at once, and prints those that are its own, and a dot
// in the end.
func claimer(path string) error {
	s, err := sqlitestore.Open(path)
	if err != nil {
		return err
	}
	owner := keeper.NewOwner("claimer")
	input := bufio.NewScanner(os.Stdin)
	for err == nil && input.Scan() {
		if err = claimerTerm(s, owner); err == nil {
			_, err = fmt.Println(".")
		}
	}
	return errors.Join(err, input.Err(), s.Close())
}

func claimerTerm(s *sqlitestore.Store, owner string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rs, err := s.Read(ctx, "group")
	if err != nil {
		return err
	}
	h := store.Holder{Group: "group", Owner: owner}
	h.Token, err = s.Acquire(ctx, store.Acquire{Read: rs[0], Owner: owner, Heartbeat: 1, TTL: time.Second})
	if errors.Is(err, store.ErrChanged) {
		return nil
	}
	if err != nil {
		return err
	}
	for range 3 {
		snapshot, err := s.Load(ctx, "group")
		if err != nil {
			return err
		}
		claims := make([]store.Claim, claimedAtOnce)
		for i := range claims {
			at := snapshot.Jobs["job"].Cursor.Add(time.Duration(i+1) * time.Second)
			claims[i] = store.Claim{Key: jobs.Key{Job: "job", Tick: at}, State: jobs.Running}
		}
		var both sync.WaitGroup
		results := make([]error, 2)
		for i := range results {
			both.Go(func() { results[i] = claimAndFinish(ctx, s, h, claims) })
		}
		both.Wait()
		if err := errors.Join(results...); errors.Is(err, store.ErrReplaced) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

func claimAndFinish(ctx context.Context, s *sqlitestore.Store, h store.Holder, claims []store.Claim) error {
	var id store.ClaimID
	_, _ = rand.Read(id[:]) // never fails
	claimed, err := s.Claim(ctx, h, id, claims)
	if err != nil {
		return err
	}
	var moves []store.Move
	for _, c := range claimed {
		if !c.Mine {
			continue
		}
		if _, err := fmt.Println(c.Tick.Unix(), c.Owner, c.Token); err != nil {
			return err
		}
		moves = append(moves, store.Move{Key: c.Key, From: c.State, Attempt: c.Attempt, Owner: c.Owner, Token: c.Token, To: jobs.Succeeded})
	}
	_, err = s.Move(ctx, h, moves)
	return err
}

// Several processes claim the same ticks, and some of them are killed: each tick
// is claimed exactly once, and none is left out.
func TestProcessesClaim(t *testing.T) {
	t.Parallel()
	path := migrated(t)
	s := open(t, path)
	h := leader(t, s)
	if err := s.Declare(soon(t), h, []store.Declared{{Name: "job", Schedule: "every 1s"}}); err != nil {
		t.Fatal(err)
	}
	claim(t, s, h, 1, store.Claim{Key: jobs.Key{Job: "job", Tick: tick(0)}, State: jobs.Skipped})

	claimants := map[int64]string{}
	// hear reads until so many terms are over, or the child is.
	hear := func(p *process, terms int) {
		for terms > 0 && p.output.Scan() {
			line := p.output.Text()
			if line == "." {
				terms--
				continue
			}
			var at int64
			var owner string
			var token uint64
			if _, err := fmt.Sscan(line, &at, &owner, &token); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			who := fmt.Sprint(owner, " ", token)
			if other, ok := claimants[at]; ok {
				t.Errorf("tick %d was claimed by %s and %s", at, other, who)
			}
			claimants[at] = who
		}
	}

	const kills, terms = 6, 4
	var all []*process
	for range 3 {
		all = append(all, start(t, claimerFile, path))
	}
	for n := range kills {
		for _, p := range all {
			if _, err := io.WriteString(p.input, strings.Repeat("\n", terms)); err != nil {
				t.Fatal(err)
			}
		}
		victim := all[n%len(all)]
		hear(victim, 1)
		if err := victim.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		hear(victim, terms)
		var ended *exec.ExitError
		if err := victim.Wait(); !errors.As(err, &ended) {
			t.Fatalf("a killed child ended with %v", err)
		}
		for _, p := range all {
			if p != victim {
				hear(p, terms)
			}
		}
		all[n%len(all)] = start(t, claimerFile, path)
	}
	for _, p := range all {
		if err := p.input.Close(); err != nil {
			t.Fatal(err)
		}
		hear(p, 1)
		if err := p.Wait(); err != nil {
			t.Errorf("child: %v", err)
		}
	}

	runs, err := s.Runs(soon(t), "group", jobs.Filter{Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) < kills*claimedAtOnce {
		t.Errorf("%d ticks were claimed, want more", len(runs))
	}
	unheard := 0
	for i, r := range runs {
		at := r.Tick.Unix()
		if want := int64(len(runs) - 1 - i); at != want {
			t.Fatalf("the run of tick %d is where that of %d should be", at, want)
		}
		switch who, ok := claimants[at]; {
		case !ok:
			unheard++
		case who != fmt.Sprint(r.Owner, " ", r.Token):
			t.Errorf("tick %d belongs to %s %d, but %s claimed it", at, r.Owner, r.Token, who)
		}
		delete(claimants, at)
	}
	if len(claimants) > 0 {
		t.Errorf("%d claimed ticks have no run", len(claimants))
	}
	// The first one, and what the killed ones could not print any more.
	if unheard > 1+kills*claimedAtOnce {
		t.Errorf("%d ticks have runs that no process has reported", unheard)
	}
	var state string
	if err := s.DB().QueryRowContext(soon(t), "PRAGMA integrity_check").Scan(&state); err != nil || state != "ok" {
		t.Errorf("integrity check: %s, %v", state, err)
	}
}

// migrator migrates once its input has ended.
func migrator(path string) error {
	s, err := sqlitestore.Open(path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return errors.Join(s.Migrate(ctx), s.Check(ctx), s.Close())
}

// Ten processes bring a file of version 1, in use, to the newest at once.
func TestTenMigrateVersion1AtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "leases.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	run(t, s.DB(), "PRAGMA journal_mode = WAL")
	run(t, s.DB(), sqlitestore.Version1)
	if err := s.Check(soon(t)); !errors.Is(err, lease.ErrSetup) {
		t.Errorf("Check of version 1: error %v, want ErrSetup", err)
	}
	h := leader(t, s)
	if err := s.Declare(soon(t), h, nil); !errors.Is(err, lease.ErrSetup) {
		t.Errorf("Declare in version 1, which has no row for the term that declared: error %v, want ErrSetup", err)
	}
	if _, err := s.Load(soon(t), "group"); !errors.Is(err, lease.ErrSetup) {
		t.Errorf("Load of version 1: error %v, want ErrSetup", err)
	}

	var all []*process
	for range 10 {
		p := start(t, migratorFile, path)
		if !p.output.Scan() {
			t.Fatal("a child ended")
		}
		all = append(all, p)
	}
	for _, p := range all {
		if err := p.input.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range all {
		if err := p.Wait(); err != nil {
			t.Errorf("child: %v", err)
		}
	}
	if err := s.Declare(soon(t), h, []store.Declared{{Name: "job", Schedule: "daily"}}); err != nil {
		t.Errorf("the term that began in version 1: %v", err)
	}
	claim(t, s, h, 1, store.Claim{Key: jobs.Key{Job: "job", Tick: tick(0)}, State: jobs.Running})
}
