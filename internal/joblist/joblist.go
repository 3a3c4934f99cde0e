// Package joblist writes the jobs of a replica as bytes, for stores that keep them in
// tables: in parts, each of which fits into a statement of a server with a
// max_allowed_packet of 1 MiB, also in hexadecimal.
package joblist

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/cronlease/cronlease/jobs"
)

const (
	// format is the first byte of each part.
	format = 1
	// partBytes is how long a part is at most before it is compressed, which may not
	// make it shorter.
	partBytes = 256 << 10
	// MostParts bounds how many parts a list has, which makes 64 MiB: 10,000 jobs that are all lent have 42. A row that claims
	// to be of more is damaged.
	MostParts = 256
)

// equals tells what a replica says beside its jobs: no job has it in its name. A label is an entry such as disk=ssd,
// how many runs it has at a time are the entry of this sign alone, and that it never leads is the entry of two. A job
// that it lends is an entry such as =name=text.
const equals = "="

// Encode returns the parts of what a replica tells, at least one.
func Encode(r jobs.Replica) [][]byte {
	list := maps.Clone(r.Jobs)
	if list == nil {
		list = map[string]jobs.ScheduleHash{}
	}
	for key, value := range r.Labels {
		list[key+equals+value] = 0
	}
	if r.MaxRuns > 0 {
		list[equals] = jobs.ScheduleHash(r.MaxRuns)
	}
	if r.FollowerOnly {
		list[equals+equals] = 0
	}
	for name, text := range r.Lent {
		list[equals+name+equals+text] = 0
	}
	var parts [][]byte
	var part []byte
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if len(part)+binary.MaxVarintLen64+len(name)+8 > partBytes {
			parts = append(parts, compress(part))
			part = nil
		}
		part = binary.AppendUvarint(part, uint64(len(name)))
		part = append(part, name...)
		part = binary.BigEndian.AppendUint64(part, uint64(list[name]))
	}
	return append(parts, compress(part))
}

func compress(part []byte) []byte {
	var b bytes.Buffer
	b.WriteByte(format)
	w, _ := flate.NewWriter(&b, flate.BestSpeed) // the level is one that there is
	_, _ = w.Write(part)                         // a buffer takes all
	_ = w.Close()
	return b.Bytes()
}

var errFormat = errors.New("not a list of jobs that this program can read")

// Decode adds the jobs of a part to a list.
func Decode(part []byte, into map[string]jobs.ScheduleHash) error {
	if len(part) == 0 || part[0] != format {
		return errFormat
	}
	raw, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(part[1:])), partBytes+1))
	if err != nil {
		return fmt.Errorf("%w: %w", errFormat, err)
	}
	for len(raw) > 0 {
		n, width := binary.Uvarint(raw)
		if width <= 0 || n > partBytes || len(raw) < width+int(n)+8 {
			return errFormat
		}
		name := string(raw[width : width+int(n)])
		raw = raw[width+int(n):]
		into[name] = jobs.ScheduleHash(binary.BigEndian.Uint64(raw))
		raw = raw[8:]
	}
	return nil
}

// told gives a replica what its list says.
func told(r *jobs.Replica, list map[string]jobs.ScheduleHash) {
	r.Jobs = list
	for entry, is := range list {
		key, value, ok := strings.Cut(entry, equals)
		if !ok {
			continue
		}
		delete(list, entry)
		switch {
		case entry == equals:
			r.MaxRuns = int(min(is, math.MaxInt32))
		case entry == equals+equals:
			r.FollowerOnly = true
		case key == "":
			name, text, _ := strings.Cut(value, equals)
			if r.Lent == nil {
				r.Lent = map[string]string{}
			}
			r.Lent[name] = text
		default:
			if r.Labels == nil {
				r.Labels = jobs.Labels{}
			}
			r.Labels[key] = value
		}
	}
}

// Row is one part as a table has it.
type Row struct {
	jobs.Replica     // without Jobs
	Part, Parts  int // from 0 on, and how many there are
}

// Complete are the replicas whose parts are all there, in the order of their owners.
// The others are being written, or their program was ended while it wrote.
func Complete(rows []Row) []jobs.Replica {
	parts := map[string]map[int]Row{}
	for _, r := range rows {
		if parts[r.Owner] == nil {
			parts[r.Owner] = map[int]Row{}
		}
		parts[r.Owner][r.Part] = r
	}
	var replicas []jobs.Replica
	for _, of := range parts {
		first, ok := of[0]
		ok = ok && first.Parts <= min(len(of), MostParts)
		for i := range min(first.Parts, len(of)) {
			ok = ok && of[i].List == first.List && of[i].Parts == first.Parts
		}
		if ok {
			replicas = append(replicas, first.Replica)
		}
	}
	jobs.SortReplicas(replicas)
	return replicas
}
