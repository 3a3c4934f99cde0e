package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cronlease/cronlease/store"
)

// ringCases test rings by other processes.
var ringCases = []lockCase{
	{"doorbell/a change, and a ring", func(e *lockEnv) {
		s, other := e.process(), e.process()
		e.put(s, write(one, 0, 1, "mark 1"), write(two, 0, 1, "mark"))
		address := e.address(s.bell)
		for n := range uint64(3) {
			rows := []store.LockWatch{watch(two, "mark"), watch(one, fmt.Sprint("mark ", n+1))}
			w := e.waits(s.bell, rows...)
			by := other
			if n == 1 {
				by = s
			}
			e.put(by, write(one, n+1, n+2, fmt.Sprint("mark ", n+2)))
			e.ring(by, address)
			w.rung("a row has changed")
		}
	}},

	{"doorbell/a ring alone", func(e *lockEnv) {
		s, other := e.process(), e.process()
		address := e.canBeRung(s.bell)
		e.put(s, write(one, 0, 1, "mark"))
		for range 3 {
			for _, by := range []process{other, s} {
				w := e.waits(s.bell, watch(one, "mark"))
				w.rungBy(by, "it was rung", address)
			}
		}
		w := e.waits(s.bell)
		w.rungBy(other, "it was rung while it watches no rows", address)
	}},

	{"doorbell/each has an address", func(e *lockEnv) {
		s, other := e.process(), e.process()
		bells := []store.Notifier{s.bell, e.bell(s), other.bell}
		addresses := make([]string, len(bells))
		for i, bell := range bells {
			addresses[i] = e.canBeRung(bell)
			if slices.Contains(addresses[:i], addresses[i]) {
				e.Errorf("two doorbells have the address %q", addresses[i])
			}
		}
		e.put(s, write(one, 0, 1, "mark"))
		for i, bell := range bells {
			w := e.waits(bell, watch(one, "mark"))
			for j, another := range addresses {
				if j != i {
					e.ring(other, another)
				}
			}
			w.still("another was rung")
			w.rungBy(other, "it was rung", addresses[i])
		}
	}},

	{"doorbell/several are rung in one call", func(e *lockEnv) {
		s, other := e.process(), e.process()
		bells := []store.Notifier{s.bell, e.bell(s), e.bell(other)}
		e.put(s, write(one, 0, 1, "mark"))
		var addresses []string
		var waits []waiting
		for _, bell := range bells {
			addresses = append(addresses, e.canBeRung(bell), "no address")
			w := e.waits(bell, watch(one, "mark"))
			waits = append(waits, w)
		}
		for _, w := range waits {
			w.rungBy(other, "it was rung together with others", append(addresses, addresses...)...)
		}
		e.ok(other.bell.Notify(e.ctx()), "Ring of none")
	}},

	{"doorbell/an address stays", func(e *lockEnv) {
		s, other := e.process(), e.process()
		address := e.canBeRung(s.bell)
		e.put(s, write(one, 0, 1, "mark"))
		e.equal(e.address(s.bell), address, "address")
		e.limited(s.bell, moment, "nothing happens", watch(one, "mark"))
		e.equal(e.address(s.bell), address, "address after a Wait")
		e.found(s.bell, "a mark is not there", watch(one, "another"))
		e.equal(e.address(s.bell), address, "address after a mark was missing")
		w := e.waits(s.bell, watch(one, "mark"))
		w.rungBy(other, "it was rung", address)
		e.equal(e.address(s.bell), address, "address after a ring")
		e.ring(other, address)
		e.equal(e.address(s.bell), address, "address after a ring without a Wait")
	}},

	{"doorbell/unknown addresses", func(e *lockEnv) {
		s, other := e.process(), e.process()
		e.put(s, write(one, 0, 1, "mark"))
		address := e.address(s.bell)
		w := e.waits(s.bell, watch(one, "mark"))
		unknown := []string{
			"", " ", "x", "#", "a#b", "#1", "1", "0", "-1", "%", "'", "memory/0", "memory/99999999", "\x00", "\xff", e.server(), e.server() + "#",
			e.server() + "#x", e.server() + "#0", e.server() + "#-1", e.server() + "#18446744073709551615", e.server() + "#99999999999999999999",
			"elsewhere" + address, address + "0", address + "#1", address + " ",
		}
		for _, wrong := range unknown {
			e.ring(other, wrong)
			e.ring(s, wrong)
		}
		w.still("unknown addresses were rung")
		e.put(other, write(one, 1, 2, "changed"))
		e.ring(other, append(unknown, address)...)
		w.rung("it was rung after unknown addresses")
	}},

	{"doorbell/a ring without a Wait", func(e *lockEnv) {
		s, other := e.process(), e.process()
		e.put(s, write(one, 0, 1, "mark"))
		address := e.address(s.bell)
		for range 3 {
			e.ring(other, address)
		}
		// One of them may be remembered.
		e.ok(s.bell.Wait(e.ctx(), []store.LockWatch{watch(one, "mark")}, moment), "Wait after a ring")
		e.limited(s.bell, moment, "the second Wait after a ring", watch(one, "mark"))
		e.read(s, one)
		e.put(s, write(one, 1, 2, "mark"))
	}},

	{"doorbell/a change before Wait", func(e *lockEnv) {
		s, other := e.process(), e.process()
		e.put(s, write(one, 0, 1, "mark"))
		e.limited(s.bell, moment, "nothing happens", watch(one, "mark"))
		e.put(other, write(one, 1, 2, "changed"))
		e.ring(other, e.address(s.bell))
		e.found(s.bell, "a row has changed before", watch(one, "mark"))
		e.found(s.bell, "a row has changed before, without a ring", watch(one, "mark"))
	}},

	{"doorbell/a change while Wait begins", func(e *lockEnv) {
		s, other := e.process(), e.process()
		address := e.address(s.bell)
		e.put(s, write(one, 0, 1, "mark 1."))
		for n := range uint64(e.h.times(100)) {
			w := e.wait(e.ctx(), s.bell, watch(one, fmt.Sprintf("mark %d.", n+1)))
			// At varying delays after the Wait has begun.
			timer := time.NewTimer(time.Duration(n%10) * 200 * time.Microsecond)
			<-timer.C
			e.put(other, write(one, n+1, n+2, fmt.Sprintf("mark %d.", n+2)))
			e.ring(other, address)
			w.rung("a row has changed while Wait began")
		}
	}},

	{"doorbell/many rings at once", func(e *lockEnv) {
		s, other := e.process(), e.process()
		address := e.address(s.bell)
		e.put(s, write(one, 0, 1, "mark"))
		stop := make(chan struct{})
		var ringers sync.WaitGroup
		for i := range lockContenders {
			by := []process{s, other}[i%2]
			ringers.Go(func() {
				for range e.h.times(50) {
					if err := by.bell.Notify(e.ctx(), address, "no address"); err != nil {
						e.Errorf("Ring beside others: %v", err)
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
				if err := s.bell.Wait(e.ctx(), []store.LockWatch{watch(one, "mark")}, moment); err != nil {
					waits <- err
					return
				}
			}
		}()
		ringers.Wait()
		close(stop)
		e.ok(<-waits, "Wait while many ring")
		e.put(other, write(one, 1, 2, "changed"))
		e.found(s.bell, "after many rings", watch(one, "mark"))
		e.equal(e.address(s.bell), address, "address after many rings")
	}},
}
