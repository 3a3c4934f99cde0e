package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cronlease/cronlease/store"
)

// notifyCases test notifies by other processes.
var notifyCases = []lockCase{
	{"notifier/a change, and a notify", func(e *lockEnv) {
		s, other := e.process(), e.process()
		e.put(s, write(one, 0, 1, "mark 1"), write(two, 0, 1, "mark"))
		address := e.address(s.notifier)
		for n := range uint64(3) {
			rows := []store.LockWatch{watch(two, "mark"), watch(one, fmt.Sprint("mark ", n+1))}
			w := e.waits(s.notifier, rows...)
			by := other
			if n == 1 {
				by = s
			}
			e.put(by, write(one, n+1, n+2, fmt.Sprint("mark ", n+2)))
			e.notify(by, address)
			w.notified("a row has changed")
		}
	}},

	{"notifier/a notify alone", func(e *lockEnv) {
		s, other := e.process(), e.process()
		address := e.canBeNotified(s.notifier)
		e.put(s, write(one, 0, 1, "mark"))
		for range 3 {
			for _, by := range []process{other, s} {
				w := e.waits(s.notifier, watch(one, "mark"))
				w.notifiedBy(by, "it was notified", address)
			}
		}
		w := e.waits(s.notifier)
		w.notifiedBy(other, "it was notified while it watches no rows", address)
	}},

	{"notifier/a write wakes", func(e *lockEnv) {
		s, other := e.process(), e.process()
		if _, ok := s.notifier.(store.Waker); !ok {
			e.Skip("left out: the notifier is no store.Waker")
		}
		address := e.address(s.notifier)
		gone := e.notifier(s)
		none := e.address(gone)
		e.ok(gone.Close(), "Close")
		e.put(s, write(one, 0, 1, "mark"), write(two, 0, 1, "mark"))
		for n := uint64(1); n < 4; n++ {
			w := e.waits(s.notifier, watch(two, "mark"))
			granted := write(one, n, n+1, "granted")
			granted.Wake = []string{none, address, "nobody's", address, "", "\x00", address + "/x"}
			e.put(other, granted)
			w.notified("the write says so")
		}
		w := e.waits(s.notifier, watch(two, "mark"))
		refused := write(one, 1, 9, "granted")
		refused.Wake = []string{address}
		e.refused(other, refused, "an old version")
		w.still("a write was refused")
	}},

	{"notifier/each has an address", func(e *lockEnv) {
		s, other := e.process(), e.process()
		notifiers := []store.Notifier{s.notifier, e.notifier(s), other.notifier}
		addresses := make([]string, len(notifiers))
		for i, notifier := range notifiers {
			addresses[i] = e.canBeNotified(notifier)
			if slices.Contains(addresses[:i], addresses[i]) {
				e.Errorf("two notifiers have the address %q", addresses[i])
			}
		}
		e.put(s, write(one, 0, 1, "mark"))
		for i, notifier := range notifiers {
			w := e.waits(notifier, watch(one, "mark"))
			for j, another := range addresses {
				if j != i {
					e.notify(other, another)
				}
			}
			w.still("another was notified")
			w.notifiedBy(other, "it was notified", addresses[i])
		}
	}},

	{"notifier/several are notified in one call", func(e *lockEnv) {
		s, other := e.process(), e.process()
		notifiers := []store.Notifier{s.notifier, e.notifier(s), e.notifier(other)}
		e.put(s, write(one, 0, 1, "mark"))
		var addresses []string
		var waits []waiting
		for _, notifier := range notifiers {
			addresses = append(addresses, e.canBeNotified(notifier), "no address")
			w := e.waits(notifier, watch(one, "mark"))
			waits = append(waits, w)
		}
		for _, w := range waits {
			w.notifiedBy(other, "it was notified together with others", append(addresses, addresses...)...)
		}
		e.ok(other.notifier.Notify(e.ctx()), "Notify of none")
	}},

	{"notifier/an address stays", func(e *lockEnv) {
		s, other := e.process(), e.process()
		address := e.canBeNotified(s.notifier)
		e.put(s, write(one, 0, 1, "mark"))
		e.equal(e.address(s.notifier), address, "address")
		e.limited(s.notifier, moment, "nothing happens", watch(one, "mark"))
		e.equal(e.address(s.notifier), address, "address after a Wait")
		e.found(s.notifier, "a mark is not there", watch(one, "another"))
		e.equal(e.address(s.notifier), address, "address after a mark was missing")
		w := e.waits(s.notifier, watch(one, "mark"))
		w.notifiedBy(other, "it was notified", address)
		e.equal(e.address(s.notifier), address, "address after a notify")
		e.notify(other, address)
		e.equal(e.address(s.notifier), address, "address after a notify without a Wait")
	}},

	{"notifier/unknown addresses", func(e *lockEnv) {
		s, other := e.process(), e.process()
		e.put(s, write(one, 0, 1, "mark"))
		address := e.address(s.notifier)
		w := e.waits(s.notifier, watch(one, "mark"))
		unknown := []string{
			"", " ", "x", "#", "a#b", "#1", "1", "0", "-1", "%", "'", "memory/0", "memory/99999999", "\x00", "\xff", e.server(), e.server() + "#",
			e.server() + "#x", e.server() + "#0", e.server() + "#-1", e.server() + "#18446744073709551615", e.server() + "#99999999999999999999",
			"elsewhere" + address, address + "0", address + "#1", address + " ",
		}
		for _, wrong := range unknown {
			e.notify(other, wrong)
			e.notify(s, wrong)
		}
		w.still("unknown addresses were notified")
		e.put(other, write(one, 1, 2, "changed"))
		e.notify(other, append(unknown, address)...)
		w.notified("it was notified after unknown addresses")
	}},

	{"notifier/a notify without a Wait", func(e *lockEnv) {
		s, other := e.process(), e.process()
		e.put(s, write(one, 0, 1, "mark"))
		address := e.address(s.notifier)
		const times = 3
		for range times {
			e.notify(other, address)
		}
		// They may be remembered, and may still be under way.
		for range times {
			e.ok(s.notifier.Wait(e.ctx(), []store.LockWatch{watch(one, "mark")}, moment), "Wait after a notify")
		}
		e.limited(s.notifier, moment, "a Wait after all that was notified", watch(one, "mark"))
		e.read(s, one)
		e.put(s, write(one, 1, 2, "mark"))
	}},

	{"notifier/a change before Wait", func(e *lockEnv) {
		s, other := e.process(), e.process()
		e.put(s, write(one, 0, 1, "mark"))
		e.limited(s.notifier, moment, "nothing happens", watch(one, "mark"))
		e.put(other, write(one, 1, 2, "changed"))
		e.notify(other, e.address(s.notifier))
		e.found(s.notifier, "a row has changed before", watch(one, "mark"))
		e.found(s.notifier, "a row has changed before, without a notify", watch(one, "mark"))
	}},

	{"notifier/a change while Wait begins", func(e *lockEnv) {
		s, other := e.process(), e.process()
		address := e.address(s.notifier)
		e.put(s, write(one, 0, 1, "mark 1."))
		for n := range uint64(e.h.times(100)) {
			w := e.wait(e.ctx(), s.notifier, watch(one, fmt.Sprintf("mark %d.", n+1)))
			// At varying delays after the Wait has begun.
			timer := time.NewTimer(time.Duration(n%10) * 200 * time.Microsecond)
			<-timer.C
			e.put(other, write(one, n+1, n+2, fmt.Sprintf("mark %d.", n+2)))
			e.notify(other, address)
			w.notified("a row has changed while Wait began")
		}
	}},

	{"notifier/many notifies at once", func(e *lockEnv) {
		s, other := e.process(), e.process()
		address := e.address(s.notifier)
		e.put(s, write(one, 0, 1, "mark"))
		stop := make(chan struct{})
		var ringers sync.WaitGroup
		for i := range lockContenders {
			by := []process{s, other}[i%2]
			ringers.Go(func() {
				for range e.h.times(50) {
					if err := by.notifier.Notify(e.ctx(), address, "no address"); err != nil {
						e.Errorf("Notify beside others: %v", err)
					}
				}
			})
		}
		waits := make(chan error, 1)
		go func() {
			for {
				select {
				case <-stop:
					waits <- nil
					return
				default:
				}
				if err := s.notifier.Wait(e.ctx(), []store.LockWatch{watch(one, "mark")}, moment); err != nil {
					waits <- err
					return
				}
			}
		}()
		ringers.Wait()
		close(stop)
		e.ok(<-waits, "Wait while many notify")
		e.put(other, write(one, 1, 2, "changed"))
		e.found(s.notifier, "after many notifies", watch(one, "mark"))
		e.equal(e.address(s.notifier), address, "address after many notifies")
	}},
}
