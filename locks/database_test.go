package locks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/store"
)

// database is what all processes of a test share. It looks at every row that is
// written: whether it can follow from the one before.
type database struct {
	*memdb.Store
	t *testing.T

	mu      sync.Mutex
	kept    map[string]chan struct{} // closed when the row is no longer locked
	broken  map[string]bool          // writes of the row fail, and all others of the statement
	met     map[string]int           // how often a write met such a row
	highest map[string]uint64        // version ever
	empty   map[string]store.LockRow // the last one without holders and waiters
}

func newDatabase(t *testing.T) *database {
	return &database{
		Store: memdb.New(), t: t, kept: map[string]chan struct{}{}, broken: map[string]bool{},
		met: map[string]int{}, highest: map[string]uint64{}, empty: map[string]store.LockRow{},
	}
}

// written is a row decoded without this package's code.
type written struct {
	version   uint64
	Processes []struct {
		Group string `json:"group"`
		Token uint64 `json:"token"`
		Owner string `json:"owner"`
		Bell  string `json:"bell"`
	} `json:"processes"`
	Places []struct {
		ID      string `json:"id"`
		Granted uint64 `json:"granted"`
		Read    bool   `json:"read"`
		Process int    `json:"process"`
	} `json:"places"`
}

func (w written) ids() []string {
	ids := make([]string, len(w.Places))
	for i, p := range w.Places {
		ids[i] = p.ID
	}
	return ids
}

func (d *database) row(name string) store.LockRow {
	r, err := d.ReadLocks(context.Background(), name)
	if err != nil {
		d.t.Error(err)
		return store.LockRow{}
	}
	return r.Rows[0]
}

// rows is how many rows of locks there are.
func (d *database) rows() int {
	d.mu.Lock()
	names := slices.Collect(maps.Keys(d.highest))
	d.mu.Unlock()
	r, err := d.ReadLocks(context.Background(), names...)
	if err != nil {
		d.t.Error(err)
	}
	return len(slices.DeleteFunc(r.Rows, func(row store.LockRow) bool { return row.Version == 0 }))
}

// isPruned reports whether the lock had a row that is gone.
func (d *database) isPruned(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.highest[name] > 0 && d.row(name).Version == 0
}

func (d *database) parse(row store.LockRow) written {
	w := written{version: row.Version}
	if len(row.Queue) > 0 {
		if err := json.Unmarshal(row.Queue, &w); err != nil {
			d.t.Errorf("row of %q: %v: %s", row.Name, err, row.Queue)
		}
	}
	return w
}

// look is the row of a lock now.
func (d *database) look(name string) written { return d.parse(d.row(name)) }

// has reports whether the row contains a mark, as fenced work looks for it.
func (d *database) has(name string, mark []byte) bool { return bytes.Contains(d.row(name).Queue, mark) }

// keep has another transaction lock the row until the returned function is called.
func (d *database) keep(name string) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	free := make(chan struct{})
	d.kept[name] = free
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.kept[name] == free {
			delete(d.kept, name)
		}
		close(free)
	})
}

// breakWrites makes the row one that cannot be written, or can be again.
func (d *database) breakWrites(name string, broken bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken[name] = broken
}

// lockWait is how long a write waits for a row.
const lockWait = time.Second

// WriteLocks writes the rows that no other transaction keeps locked.
func (d *database) WriteLocks(ctx context.Context, server string, writes []store.LockWrite) ([]bool, error) {
	if len(writes) == 1 && writes[0].Wait {
		d.mu.Lock()
		free := d.kept[writes[0].Name]
		d.mu.Unlock()
		if free != nil {
			limit := time.NewTimer(lockWait)
			defer limit.Stop()
			select {
			case <-free:
			case <-limit.C:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var free []store.LockWrite
	for _, w := range writes {
		if d.broken[w.Name] {
			d.met["met a broken row"]++
			return nil, fmt.Errorf("the row of %q cannot be written", w.Name)
		}
		if d.kept[w.Name] != nil {
			d.met["met a locked row"]++
			continue
		}
		free = append(free, w)
	}
	written, err := d.write(ctx, server, free)
	if err != nil {
		return nil, err
	}
	done := make([]bool, len(writes))
	for i, w := range writes {
		if d.kept[w.Name] == nil {
			done[i], written = written[0], written[1:]
		}
	}
	return done, nil
}

// write looks at what is written. It is called with mu held.
func (d *database) write(ctx context.Context, server string, writes []store.LockWrite) ([]bool, error) {
	before := make([]store.LockRow, len(writes))
	for i, w := range writes {
		before[i] = d.row(w.Name)
		if slices.ContainsFunc(writes[:i], func(o store.LockWrite) bool { return o.Name == w.Name }) {
			d.t.Errorf("lock %q is written twice by one statement", w.Name)
		}
		if i > 0 && w.Name < writes[i-1].Name { // statements that lock rows in one order do not deadlock
			d.t.Errorf("lock %q is written after %q", w.Name, writes[i-1].Name)
		}
		if w.Version <= w.Expect {
			d.t.Errorf("lock %q: version %d after %d", w.Name, w.Version, w.Expect)
		}
	}
	done, err := d.Store.WriteLocks(ctx, server, writes)
	for i, w := range writes {
		if err == nil && done[i] {
			if why := d.wrong(d.parse(before[i]), d.look(w.Name), d.highest[w.Name]); why != "" {
				d.t.Errorf("lock %q: %s:\n%s\nbecomes\n%s", w.Name, why, before[i].Queue, w.Queue)
			}
			if row := d.row(w.Name); row.Queue == nil {
				d.empty[w.Name] = row
			}
			d.highest[w.Name] = max(d.highest[w.Name], w.Version)
		}
	}
	return done, err
}

// wrong says what is wrong with a change of a row.
func (d *database) wrong(before, after written, highest uint64) string {
	if after.version <= before.version {
		return fmt.Sprintf("version %d after %d", after.version, before.version)
	}
	waiting := false // a place ahead of this one waits
	writer := false  // or is a writer
	for i, p := range after.Places {
		if slices.Contains(after.ids()[:i], p.ID) {
			return "a place occurs twice"
		}
		if p.Granted > 0 && (waiting || writer || i > 0 && !p.Read) {
			return fmt.Sprintf("place %d has the lock", i)
		}
		waiting, writer = waiting || p.Granted == 0, writer || !p.Read
		was := slices.Index(before.ids(), p.ID)
		switch {
		case was >= 0 && before.Places[was].Granted > 0 && p.Granted != before.Places[was].Granted:
			return fmt.Sprintf("place %d loses its token", i)
		case (was < 0 || before.Places[was].Granted == 0) && p.Granted > 0 && p.Granted != after.version:
			return fmt.Sprintf("place %d is given token %d by version %d", i, p.Granted, after.version)
		case (was < 0 || before.Places[was].Granted == 0) && p.Granted > 0 && p.Granted <= highest:
			return fmt.Sprintf("place %d is given token %d, and there was %d", i, p.Granted, highest)
		}
	}
	// Places that stay keep their order, and new ones come last.
	stayed := slices.DeleteFunc(before.ids(), func(id string) bool { return !slices.Contains(after.ids(), id) })
	if !slices.Equal(stayed, after.ids()[:min(len(stayed), len(after.Places))]) {
		return "the order has changed"
	}
	return ""
}

// change changes a row without any client's knowledge.
func (d *database) change(name string, f func(store.LockRow) store.LockRow) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.UpdateLock(name, f)
}
