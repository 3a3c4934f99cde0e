package termnotes_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler/internal/termnotes"
	"github.com/cronlease/cronlease/store"
)

const (
	// As in the package.
	noteLast = 2 * time.Second
	noteMost = 10 * time.Minute

	timeout = time.Hour // of a statement
)

var errWhy = errors.New("it was asked to resign")

// archive keeps the notes that reach it.
type archive struct {
	store.Archive
	line faulty.Line

	mu    sync.Mutex
	notes []store.TermNote
}

func (a *archive) NoteTerm(ctx context.Context, note store.TermNote) error {
	return a.line.Send(ctx, "NoteTerm", func(context.Context) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.notes = append(a.notes, note)
		return nil
	})
}

// written are the notes that have reached the archive.
func (a *archive) written() []store.TermNote {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.notes)
}

// sent is how many notes were sent.
func (a *archive) sent() int {
	synctest.Wait()
	return a.line.Count("NoteTerm")
}

// scene is a term whose notes go to an archive.
type scene struct {
	*testing.T
	*termnotes.Notes
	archive *archive
	held    *keeper.Held
	log     *observer.ObservedLogs
	end     func(why error)
}

// in runs a test in a bubble, in which a replica has just won the lease, and prepare has set the archive up.
func in(t *testing.T, timeout time.Duration, prepare func(*archive), test func(s *scene)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := memdb.New()
		s := &scene{T: t, archive: &archive{Archive: db}, held: hold(t, db, lease.Timing{TTL: 24 * time.Hour})}
		core, log := observer.New(zap.DebugLevel)
		s.log = log
		s.Notes = termnotes.New(s.archive, zap.New(core), timeout)
		prepare(s.archive)
		s.end = s.Begin(keeper.WithHeld(t.Context(), s.held), s.holder())
		test(s)
	})
}

// begun is what the beginning tells.
func (s *scene) begun() store.TermNote {
	return store.TermNote{Holder: s.holder(), Before: s.held.Previous().RenewedAt}
}

// over is what the end tells, so long after the beginning.
func (s *scene) over(began time.Duration) store.TermNote {
	note := s.begun()
	note.Began, note.Over, note.Why = began, true, errWhy.Error()
	return note
}

func (s *scene) holder() store.Holder {
	return store.Holder{Group: "g", Owner: s.held.Owner(), Token: s.held.Token()}
}

// finishes waits for the last notes, which has to take that long.
func (s *scene) finishes(want time.Duration) {
	s.Helper()
	before := time.Now()
	s.Finish()
	if took := time.Since(before); took != want {
		s.Errorf("Finish took %v, want %v", took, want)
	}
}

// givesUp says whether the log says so. It says nothing else.
func (s *scene) givesUp(want bool) {
	s.Helper()
	synctest.Wait()
	n := s.log.FilterMessage("the end of a term is not written down").FilterField(zap.Uint64("token", s.held.Token())).Len()
	if n != s.log.Len() || (n == 1) != want {
		s.Errorf("the log says so %d times, and has %d lines, want that it says so: %v", n, s.log.Len(), want)
	}
}

// hold is a lease of another owner, which nothing renews.
func hold(t *testing.T, db *memdb.Store, timing lease.Timing) *keeper.Held {
	t.Helper()
	return take(t, candidate(t, db, timing))
}

func candidate(t *testing.T, db *memdb.Store, timing lease.Timing) *keeper.Candidate {
	t.Helper()
	k, err := keeper.New(db, keeper.Config{Timing: timing})
	if err != nil {
		t.Fatal(err)
	}
	c, err := k.Candidate("g")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func take(t *testing.T, c *keeper.Candidate) *keeper.Held {
	t.Helper()
	held, wait, err := c.Look(t.Context())
	if held == nil {
		t.Fatalf("the lease is not taken: wait %v, %v", wait, err)
	}
	t.Cleanup(held.Abandon)
	return held
}

func works(*archive) {}

func cut(a *archive) { a.line.Cut() }

// A term is written down once when it begins and once when it has ended, with how long ago that was.
func TestTermIsToldTwice(t *testing.T) {
	in(t, timeout, works, func(s *scene) {
		if got := s.archive.written(); !slices.Equal(got, []store.TermNote{s.begun()}) {
			s.Errorf("at the beginning: %+v", got)
		}
		time.Sleep(time.Hour)
		s.end(errWhy)
		if got := s.archive.written(); !slices.Equal(got, []store.TermNote{s.begun(), s.over(time.Hour)}) {
			s.Errorf("after the end: %+v", got)
		}
		time.Sleep(time.Hour)
		s.finishes(0)
		if n := s.archive.sent(); n != 2 {
			s.Errorf("told %d times", n)
		}
		s.givesUp(false)
	})
}

// A term that returns without an error has no reason.
func TestTermEndsWithoutAReason(t *testing.T) {
	in(t, timeout, works, func(s *scene) {
		s.end(nil)
		s.finishes(0)
		if got := s.archive.written(); len(got) != 2 || !got[1].Over || got[1].Why != "" {
			s.Errorf("%+v", got)
		}
	})
}

// A store without an archive is told nothing, and needs no term.
func TestStoreWithoutAnArchive(t *testing.T) {
	t.Parallel()
	n := termnotes.New(nil, zap.NewNop(), timeout)
	n.Begin(t.Context(), store.Holder{})(errWhy)
	n.Finish()
}

// What an attempt tells is as long ago as it is when it is sent.
func TestNotesAreTriedAgain(t *testing.T) {
	in(t, timeout, cut, func(s *scene) {
		began := time.Now()
		time.Sleep(5 * time.Minute) // the wait grows to a minute and a half at most
		if n := s.archive.sent(); n < 6 || n > 20 {
			s.Errorf("tried %d times in 5 minutes", n)
		}
		s.archive.line.Heal()
		time.Sleep(90 * time.Second)
		if got := s.archive.written(); len(got) != 1 || got[0].Over || got[0].Began < 5*time.Minute || got[0].Began > time.Since(began) {
			s.Errorf("the beginning: %+v", got)
		}
		time.Sleep(time.Hour)
		s.archive.line.Cut()
		s.end(errWhy)
		ended := time.Now()
		time.Sleep(200 * time.Millisecond)
		if n := s.archive.sent(); n > 21 {
			s.Errorf("tried %d times within 200 ms", n)
		}
		s.archive.line.Heal()
		time.Sleep(1500 * time.Millisecond) // the waits begin at a second, or half more, again
		got := s.archive.written()
		if len(got) != 2 || !got[1].Over || got[1].Ended < 500*time.Millisecond || got[1].Ended > time.Since(ended) || got[1].Began < time.Hour+got[1].Ended {
			s.Errorf("the end: %+v", got)
		}
		s.finishes(0)
		s.givesUp(false)
	})
}

// A term that ends before its beginning is written down tells of both at once.
func TestBeginningIsToldWithTheEnd(t *testing.T) {
	in(t, timeout, cut, func(s *scene) {
		time.Sleep(5 * time.Minute)
		s.archive.line.Heal()
		s.end(errWhy) // at once, and not after the wait
		if got := s.archive.written(); !slices.Equal(got, []store.TermNote{s.over(5 * time.Minute)}) {
			s.Errorf("%+v", got)
		}
		s.finishes(0)
	})
}

// The end is tried for noteMost, and once more if the last try ended just then.
func TestEndIsGivenUp(t *testing.T) {
	in(t, timeout, works, func(s *scene) {
		s.archive.sent() // the beginning
		s.archive.line.Cut()
		s.archive.line.Once("NoteTerm", faulty.Fault{Hold: noteMost, Err: faulty.ErrLost})
		s.end(errWhy)
		time.Sleep(noteMost)
		s.givesUp(false)
		time.Sleep(1500 * time.Millisecond) // the first wait, at most
		s.givesUp(true)
		if n := s.archive.sent(); n != 3 {
			s.Errorf("tried %d times, want the beginning and twice the end", n)
		}
		s.archive.line.Heal()
		time.Sleep(time.Hour)
		if n := s.archive.sent(); n != 3 {
			s.Error("the end is tried after it was given up")
		}
		s.finishes(0)
	})
}

// While Run goes on, nothing of the beginning is given up: the term has not ended.
func TestBeginningIsNotGivenUp(t *testing.T) {
	in(t, timeout, cut, func(s *scene) {
		time.Sleep(2 * noteMost)
		s.givesUp(false)
		s.archive.line.Heal()
		time.Sleep(90 * time.Second)
		if n := len(s.archive.written()); n != 1 {
			s.Errorf("%d notes", n)
		}
		s.end(nil)
		s.finishes(0)
	})
}

// Finish waits for a statement that is under way, and for noteLast at most. One that waits for its next try has it at once.
func TestFinishWaitsForTheEnd(t *testing.T) {
	for name, test := range map[string]struct {
		timeout  time.Duration
		end      faulty.Fault
		waits    time.Duration // after the end, until Finish
		then     faulty.Fault
		finishes time.Duration
		written  bool
	}{
		"it works":            {timeout, faulty.Fault{Hold: time.Second}, 0, faulty.Fault{}, time.Second, true},
		"it takes too long":   {timeout, faulty.Fault{Silence: true}, 0, faulty.Fault{}, noteLast, false},
		"a statement ends":    {time.Second, faulty.Fault{Silence: true}, 0, faulty.Fault{}, time.Second, false},
		"it fails":            {timeout, faulty.Fault{Hold: time.Second, Err: faulty.ErrLost}, 0, faulty.Fault{}, time.Second, false},
		"the next try works":  {timeout, faulty.Fault{Err: faulty.ErrLost}, 100 * time.Millisecond, faulty.Fault{Hold: time.Second}, time.Second, true},
		"the next try fails":  {timeout, faulty.Fault{Err: faulty.ErrLost}, 100 * time.Millisecond, faulty.Fault{Err: faulty.ErrLost}, 0, false},
		"the next one stalls": {timeout, faulty.Fault{Err: faulty.ErrLost}, 100 * time.Millisecond, faulty.Fault{Silence: true}, noteLast, false},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, test.timeout, works, func(s *scene) {
				s.archive.sent() // the beginning
				s.archive.line.Once("NoteTerm", test.end, test.then)
				s.end(errWhy)
				synctest.Wait()
				time.Sleep(test.waits)
				s.finishes(test.finishes)
				s.givesUp(!test.written)
				if got := s.archive.written(); (len(got) == 2) != test.written || test.written && !got[1].Over {
					s.Errorf("%+v, want that the end is written: %v", got, test.written)
				}
			})
		})
	}
}

// A Finish that comes before the end waits for it, and nothing is tried meanwhile.
func TestFinishBeforeTheEnd(t *testing.T) {
	in(t, timeout, works, func(s *scene) {
		s.archive.sent() // the beginning
		time.AfterFunc(time.Second, func() {
			if n := s.archive.line.Count("NoteTerm"); n != 1 {
				s.Errorf("told %d times before the end", n)
			}
			s.end(errWhy)
		})
		s.finishes(time.Second)
		if got := s.archive.written(); !slices.Equal(got, []store.TermNote{s.begun(), s.over(time.Second)}) {
			s.Errorf("%+v", got)
		}
	})
}

// A term that goes on after Run, as one does whose run ignores its context, holds up no Finish. Its end may come later.
func TestFinishDoesNotWaitForATermThatGoesOn(t *testing.T) {
	for name, prepare := range map[string]func(*archive){"told": works, "not told": cut} {
		t.Run(name, func(t *testing.T) {
			in(t, timeout, prepare, func(s *scene) {
				s.archive.sent() // the beginning
				s.finishes(noteLast)
				before := s.archive.sent()
				s.archive.line.Heal()
				s.end(errWhy)
				time.Sleep(time.Hour)
				if n := s.archive.sent() - before; n != 0 {
					s.Errorf("told %d times after Finish", n)
				}
				s.givesUp(false)
			})
		})
	}
}

// A term that lost its lease has ended then, however long its work went on.
func TestTermEndsWithItsLease(t *testing.T) {
	in(t, timeout, works, func(s *scene) {
		time.Sleep(24*time.Hour + time.Minute)
		over := s.held.OverFor()
		s.end(lease.ErrLost)
		if got := s.archive.written(); len(got) != 2 || over < time.Minute || got[1].Ended != over {
			s.Errorf("the lease is over for %v: %+v", over, got)
		}
		s.finishes(0)
	})
}

// A note says whether the term before may still be trusted, and when its last heartbeat was.
func TestTermBefore(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]bool{"early": true, "in time": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := memdb.New()
				next := candidate(t, db, lease.Timing{})
				next.Early(&keeper.Early{
					Left:    func(context.Context, uint64, string) (left, met bool) { return true, true },
					Working: func(context.Context) (bool, error) { return false, nil },
				})
				before := hold(t, db, lease.Timing{})
				at := time.Now()
				time.Sleep(time.Second)
				if !early {
					if err := before.Release(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				held, wait, err := next.Suspect(t.Context())
				if held == nil {
					t.Fatalf("the lease is not taken: wait %v, %v", wait, err)
				}
				defer held.Abandon()
				a := &archive{Archive: db}
				n := termnotes.New(a, zap.NewNop(), timeout)
				end := n.Begin(keeper.WithHeld(t.Context(), held), store.Holder{Group: "g", Owner: held.Owner(), Token: held.Token()})
				if got := a.written(); len(got) != 1 || got[0].Early != early || !got[0].Before.Equal(at.Round(time.Microsecond)) {
					t.Errorf("%+v, want early %v and a heartbeat at %v", got, early, at)
				}
				end(nil)
				n.Finish()
			})
		})
	}
}
