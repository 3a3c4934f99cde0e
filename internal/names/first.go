package names

import (
	"fmt"
	"slices"
)

// Most is how many names a line of the log has at most.
const Most = 10

// First returns the first names of a list, most at most, and in the place of the others
// how many there are. It leaves the list as it is.
func First(all []string, most int) []string {
	if len(all) <= most {
		return all
	}
	return append(slices.Clone(all[:most]), fmt.Sprintf("and %d more", len(all)-most))
}
