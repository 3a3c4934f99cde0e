package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/store"
)

// door is a notifier of a database. All of it is guarded by the database's
// mutex.
type door struct {
	*flawedStore
	address  string
	notified chan struct{}
	used     bool
	closed   bool
	unusable bool
	notifies int
	waits    bool
}

// Notifier implements [store.Notifiers].
func (s *flawedStore) Notifier() store.Notifier {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &door{flawedStore: s, notified: make(chan struct{}, 1)}
	s.settle(d)
	return d
}

// settle gives a notifier an address, a new one if it has one.
func (s *flawedStore) settle(d *door) {
	s.lockDatabase.number++
	delete(s.doors, d.address)
	switch n := s.lockDatabase.number; {
	case s.has("notify: one address for all"):
		d.address = "memory"
	case s.has("notify: one address for the notifiers of a store"):
		d.address = fmt.Sprint("memory/", s.number)
	default:
		d.address = fmt.Sprint("memory/", n)
	}
	s.doors[d.address] = d
}

// lacks reports whether a row does not contain its mark.
func (d *door) lacks(w store.LockWatch) bool {
	one := d.rows[d.name(w.Name)]
	if one == nil {
		return !d.has("notifier: looks at rows that are there")
	}
	queue, mark := one.Queue, w.Mark
	switch {
	case d.has("notifier: looks at the beginning of the row"):
		return !bytes.HasPrefix(queue, mark)
	case d.has("notifier: looks at the whole row"):
		return !bytes.Equal(queue, mark)
	case d.has("notifier: looks in any case"):
		return !bytes.Contains(bytes.ToLower(queue), bytes.ToLower(mark))
	case d.has("notifier: looks for text"):
		return !bytes.Contains(queue, bytes.ToValidUTF8(mark, []byte("?")))
	case d.has("notifier: looks for a mark until NUL"):
		before, _, _ := bytes.Cut(mark, []byte{0})
		return !bytes.Contains(queue, before)
	case d.has("notifier: looks for a pattern"):
		pattern := strings.NewReplacer("%", ".*", "_", ".").Replace(regexp.QuoteMeta(string(mark)))
		return !regexp.MustCompile("(?s)" + pattern).Match(queue)
	}
	return !bytes.Contains(queue, mark)
}

// changed reports whether there is a row to look at.
func (d *door) changed(rows []store.LockWatch) bool {
	switch {
	case len(rows) == 0:
		return d.has("notifier: notifies without rows")
	case d.has("notifier: looks at no rows"):
		return false
	case d.has("notifier: looks at the first row"):
		rows = rows[:1]
	case d.has("notifier: looks at the last row"):
		rows = rows[len(rows)-1:]
	case d.has("notifier: looks at 100 rows"):
		rows = rows[:min(len(rows), 100)]
	case d.has("notifier: looks for one of the marks"):
		return !slices.ContainsFunc(rows, func(w store.LockWatch) bool { return !d.lacks(w) })
	case d.has("notifier: looks at one mark of a row"):
		seen := map[string]bool{}
		rows = slices.DeleteFunc(slices.Clone(rows), func(w store.LockWatch) bool {
			again := seen[w.Name]
			seen[w.Name] = true
			return again
		})
	}
	return slices.ContainsFunc(rows, d.lacks) || d.has("notifier: notifies for nothing")
}

// limit is what flaws make of one.
func (d *door) limitOf(limit time.Duration) time.Duration {
	switch {
	case d.has("notifier: Wait has no limit"), d.has("notifier: a limit of 0 is none") && limit == 0:
		return time.Hour
	case d.has("notifier: limit in whole seconds"):
		return limit.Truncate(time.Second)
	case d.has("notifier: limit in whole 100 ms"):
		return limit.Truncate(100 * time.Millisecond)
	}
	return limit
}

// Wait implements [store.Notifier].
func (d *door) Wait(ctx context.Context, rows []store.LockWatch, limit time.Duration) error {
	if err := d.ended(ctx, "Wait"); err != nil {
		return err
	}
	deaf := context.Background()
	if d.has("notifier: Wait ignores its context") || d.has("context: Wait") && ctx.Err() != nil {
		ctx = deaf
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unusable {
		return errors.New("connection lost")
	}
	changed := d.changed(rows)
	if d.used = true; d.has("notifier: looks, then listens") {
		d.elsewhere()
		select {
		case <-d.notified:
		default:
		}
	}
	if d.waits = true; changed {
		d.waits = false
		return nil
	}
	d.mu.Unlock()
	err := d.sleep(ctx, rows, d.limitOf(limit))
	d.mu.Lock()
	d.waits = false
	if d.has("notify: another address after a Wait") {
		d.settle(d)
	}
	return err
}

func (d *door) sleep(ctx context.Context, rows []store.LockWatch, limit time.Duration) error {
	timer, every := time.NewTimer(limit), time.NewTicker(5*time.Millisecond)
	defer timer.Stop()
	defer every.Stop()
	for {
		select {
		case <-d.notified:
			d.mu.Lock()
			defer d.mu.Unlock()
			switch {
			case d.has("notify: another address after a notify"):
				d.settle(d)
			case d.has("notifier: Wait fails when it is notified"):
				return errors.New("interrupted")
			}
			return nil
		case <-timer.C:
			if d.has("notifier: Wait fails at its limit") {
				return context.DeadlineExceeded
			}
			return nil
		case <-every.C:
			d.mu.Lock()
			changed := d.has(watching) && d.changed(rows)
			d.mu.Unlock()
			if changed {
				return nil
			}
		case <-ctx.Done():
			d.mu.Lock()
			defer d.mu.Unlock()
			d.unusable = d.has("notifier: unusable after a context")
			if d.has("notifier: a context is a notify") {
				return nil
			}
			return d.ended(ctx, "")
		}
	}
}

// Address implements [store.Notifier].
func (d *door) Address(ctx context.Context) (string, error) {
	if err := d.ended(ctx, "Address"); err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used = true
	switch {
	case d.has(watching):
		return "", nil
	case d.has("notify: another address each time"):
		d.settle(d)
	}
	return d.address, nil
}

// Notify implements [store.Notifier].
func (d *door) Notify(ctx context.Context, addresses ...string) error {
	if err := d.ended(ctx, "Notify"); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	over, err := d.alone("notify: fails beside others")
	if err != nil {
		return err
	}
	defer over()
	switch {
	case d.has("notify: does nothing"):
		return nil
	case d.has("notify: only the first"):
		addresses = addresses[:min(len(addresses), 1)]
	case d.has("notify: only the last"):
		addresses = addresses[max(0, len(addresses)-1):]
	case d.has("notify: all"):
		addresses = nil
		for address := range d.doors {
			addresses = append(addresses, address)
		}
	}
	for _, address := range addresses {
		other := d.doors[address]
		if other == nil && address != "" && d.has("notify: addresses that begin alike") {
			for known, one := range d.doors {
				if strings.HasPrefix(address, known) {
					other = one
				}
			}
		}
		switch {
		case address == "" && d.has("notify: an empty address fails"), other == nil && d.has("notify: unknown addresses fail"):
			return errors.New("unknown address")
		case other == nil && d.has("notify: ends at an unknown address"):
			return nil
		case other == nil:
		case other.closed:
			return errors.New("closed")
		default:
			if err := d.push(ctx, other); err != nil {
				return err
			}
		}
	}
	return nil
}

// push notifies a notifier.
func (d *door) push(ctx context.Context, other *door) error {
	same := d.flawedStore == other.flawedStore
	if other.notifies++; d.has("notify: only once") && other.notifies > 1 ||
		d.has("notify: only of one store") && !same || d.has("notify: only of another store") && same {
		return nil
	}
	for d.has("notify: waits until it is heard") && !other.waits {
		if err := ctx.Err(); err != nil {
			return err
		}
		d.elsewhere()
	}
	select {
	case other.notified <- struct{}{}:
	default:
	}
	return nil
}

// Close implements [store.Notifier].
func (d *door) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed && d.has("notifier: Close fails again"), !d.used && d.has("notifier: Close fails before its first use"):
		d.closed = true
		return errors.New("closed")
	}
	d.closed = true
	if !d.has("notify: closed ones fail") {
		delete(d.doors, d.address)
	}
	for _, other := range d.doors {
		other.unusable = other.unusable || d.has("notifier: Close closes the others")
	}
	return nil
}
