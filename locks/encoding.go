package locks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

const (
	// rowMost exceeds the size in bytes of a row with placesMost places, each of a
	// process of its own; and a row of up to rowSmall takes little memory decoded.
	rowMost  = placesMost * 4 << 10
	rowSmall = 64 << 10
)

// mark is the text that the row contains while this place holds the lock, and at
// no other time. A fenced transaction looks for it. A label cannot forge it,
// because its quotes are escaped.
func (p place) mark() []byte {
	mark := append(make([]byte, 0, 80), `"id":`...)
	mark = append(strconv.AppendQuote(mark, p.ID), `,"granted":`...)
	return append(strconv.AppendUint(mark, p.Granted, 10), ',')
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
