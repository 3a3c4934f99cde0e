package locks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// placesMost limits the holders and waiters of a lock, so that its row can be
	// written; and labelMost the length of a label, in bytes.
	placesMost = 4096
	labelMost  = 128

	// rowMost exceeds the size in bytes of a row with placesMost places, each of a
	// process of its own; and a row of up to rowSmall takes little memory decoded.
	rowMost  = placesMost * 4 << 10
	rowSmall = 64 << 10
)

// queue is the content of a lock's row: its holders and waiters, in order of
// arrival. It is a plain value that does no I/O; everything that the row means is
// decided here.
//
// The order alone determines the holders: a writer holds the lock when no place is
// ahead of it, a reader when no writer is. So a waiting writer blocks later
// readers, and neither writers nor readers starve.
type queue struct {
	// Processes are those that have a place, without duplicates.
	Processes []process `json:"processes"`
	Places    []place   `json:"places"`
}

// process is one session of one process: all its places end with it.
type process struct {
	// Group is the name of the session's lease row, and Token its term.
	Group string `json:"group"`
	Token uint64 `json:"token"`
	// Owner is for display.
	Owner string `json:"owner"`
	// Started is when the program was started, in seconds since 1970 by its
	// own clock; for display.
	Started int64 `json:"started"`
	// TTL is that of the session.
	TTL time.Duration `json:"ttl"`
	// Bell is where to ring when one of its waiting places is granted.
	Bell string `json:"bell,omitempty"`
}

// place is the position of one holder or waiter in the queue. The order of the
// first two fields matters: see [place.mark].
type place struct {
	// ID is never reused. It begins with the group of its process.
	ID string `json:"id"`
	// Granted is the fencing token: the version of the row that gave the lock
	// to this place, 0 while it waits.
	Granted uint64 `json:"granted"`
	Read    bool   `json:"read,omitempty"`
	// Since is when the place was taken, and Got when it was granted the lock, if
	// that was not at once, in microseconds since 1970 by the database's clock
	// as its process knew it; For is the limit of a LockFor. In the row they are
	// for display.
	Since int64         `json:"since"`
	Got   int64         `json:"got,omitempty"`
	For   time.Duration `json:"for,omitempty"`
	Label string        `json:"label,omitempty"`

	// Process is the index of its process.
	Process int `json:"process,omitempty"`

	fresh bool // it was added by the current change
}

// session names one process's session.
type session struct {
	group string
	token uint64
}

func (p process) session() session { return session{p.Group, p.Token} }

// mark is the text that the row contains while this place holds the lock, and at
// no other time. A fenced transaction looks for it. A label cannot forge it,
// because its quotes are escaped.
func (p place) mark() []byte {
	return fmt.Appendf(nil, `"id":%q,"granted":%d,`, p.ID, p.Granted)
}

// decode decodes a row. An error means that another program wrote the row.
func decode(name string, row []byte) (queue, error) {
	var q queue
	if len(row) == 0 {
		return q, nil
	}
	if err := q.read(row); err != nil {
		return queue{}, fmt.Errorf("locks: the row of %q cannot be read: %w: repair or delete it", name, err)
	}
	for i, p := range q.Places {
		if p.Process < 0 || p.Process >= len(q.Processes) {
			return q, fmt.Errorf("locks: the row of %q cannot be read: place %d is of process %d of %d: repair or delete it", name, i, p.Process, len(q.Processes))
		}
	}
	return q, nil
}

// read decodes a row. It refuses rows larger than this package writes them:
// otherwise, a few bytes of a row could become a hundred times as many in memory.
func (q *queue) read(row []byte) error {
	if len(row) > rowMost {
		return fmt.Errorf("it has %d bytes: at most %d", len(row), rowMost)
	}
	if len(row) <= rowSmall {
		return json.Unmarshal(row, q)
	}
	var parts struct{ Processes, Places json.RawMessage }
	err := json.Unmarshal(row, &parts)
	if err == nil {
		q.Processes, err = atMost[process](parts.Processes)
	}
	if err == nil {
		q.Places, err = atMost[place](parts.Places)
	}
	return err
}

// atMost decodes a list of at most placesMost elements.
func atMost[T any](list json.RawMessage) ([]T, error) {
	if len(list) == 0 || list[0] != '[' {
		return nil, errors.New("expected a list of processes and one of places")
	}
	from := json.NewDecoder(bytes.NewReader(list))
	if _, err := from.Token(); err != nil { // the bracket
		return nil, err
	}
	var all []T
	for from.More() {
		if len(all) == placesMost {
			return nil, fmt.Errorf("more than %d processes or places", placesMost)
		}
		var one T
		if err := from.Decode(&one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// settle ends a change: its places are no longer fresh.
func (q queue) settle() {
	for i := range q.Places {
		q.Places[i].fresh = false
	}
}

// encode returns the row; nil without holders and waiters.
func (q queue) encode() []byte {
	if len(q.Places) == 0 {
		return nil
	}
	row, err := json.Marshal(q)
	if err != nil {
		panic(err) // every field can be encoded as JSON
	}
	return row
}

// clone returns a deep copy.
func (q queue) clone() queue {
	return queue{slices.Clone(q.Processes), slices.Clone(q.Places)}
}

// join adds a place at the end of the queue.
func (q *queue) join(of process, p place) {
	i := slices.IndexFunc(q.Processes, func(o process) bool { return o.session() == of.session() })
	if i < 0 {
		i = len(q.Processes)
		q.Processes = append(q.Processes, of)
	} else if of.Bell != "" {
		q.Processes[i].Bell = of.Bell
	}
	p.Process, p.Granted, p.fresh = i, 0, true
	q.Places = append(q.Places, p)
}

// keep removes the places for which keep is false, and reports whether there were
// any.
func (q *queue) keep(keep func(process, place) bool) bool {
	before := len(q.Places)
	q.Places = slices.DeleteFunc(q.Places, func(p place) bool { return !keep(q.Processes[p.Process], p) })
	if len(q.Places) == before {
		return false
	}
	// Drop the processes that have no place left.
	index, left := make([]int, len(q.Processes)), []process{}
	for i := range index {
		index[i] = -1
	}
	for i, p := range q.Places {
		if index[p.Process] < 0 {
			index[p.Process] = len(left)
			left = append(left, q.Processes[p.Process])
		}
		q.Places[i].Process = index[p.Process]
	}
	q.Processes = left
	return true
}

// grant grants the lock, with the token, to every place that the order entitles to
// it and that does not have it yet, and returns these places.
func (q *queue) grant(token uint64, now int64) []place {
	var granted []place
	for i := range q.Places {
		p := &q.Places[i]
		if !p.Read && i > 0 {
			break
		}
		if p.Granted == 0 {
			p.Granted = token
			if !p.fresh {
				p.Got = now
			}
			granted = append(granted, *p)
		}
		if !p.Read {
			break
		}
	}
	return granted
}

// find returns the place of that id, or nil.
func (q *queue) find(id string) *place {
	for i := range q.Places {
		if q.Places[i].ID == id {
			return &q.Places[i]
		}
	}
	return nil
}

// free reports whether a new request would be granted at once.
func (q *queue) free(read bool) bool {
	if !read {
		return len(q.Places) == 0
	}
	return !slices.ContainsFunc(q.Places, func(p place) bool { return !p.Read })
}
