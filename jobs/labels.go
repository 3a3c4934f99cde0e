package jobs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cronlease/cronlease/internal/names"
)

// MaxLabels is how many labels a replica, or a job, may have.
const MaxLabels = 32

// Labels are what a replica says of itself, such as disk: ssd, or what a job wants of the replica that runs it ([Job].On, [Job].Prefer).
// The zero value is none.
type Labels map[string]string

// Validate reports what is wrong with labels.
func (l Labels) Validate() error {
	if len(l) > MaxLabels {
		return fmt.Errorf("%d labels: at most %d", len(l), MaxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(l)) {
		for _, text := range []string{key, l[key]} {
			if len(text) > maxLabel || !names.Valid(text) {
				return fmt.Errorf("label %.80q=%.80q: key and value must be of 1 to %d letters, digits and . _ : / @ + -, the first a letter or a digit",
					key, l[key], maxLabel)
			}
		}
	}
	return nil
}

const maxLabel = 63

// Has reports whether these labels have all that are wanted.
func (l Labels) Has(wanted Labels) bool { return wanted.Count(l) == len(wanted) }

// Count is how many of these labels another set has.
func (l Labels) Count(other Labels) (n int) {
	for key, value := range l {
		if other[key] == value {
			n++
		}
	}
	return n
}

// String is such as disk=ssd,zone=a.
func (l Labels) String() string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(l)) {
		all = append(all, key+"="+l[key])
	}
	return strings.Join(all, ",")
}
