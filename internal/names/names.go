// Package names has the rule for the names of groups, jobs, owners and locks.
package names

import "strings"

// Max is the largest length of a name, in bytes.
const Max = 128

// Valid reports whether s is a name. Names are ASCII, so that two names are equal
// in the database exactly when they are equal in Go, whatever the collation.
//
// It is a loop because it is asked for each lock that is taken, of whose cost a
// regular expression was a twentieth.
func Valid(s string) bool {
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			continue
		}
		if i == 0 || strings.IndexByte("._:/@+-", c) < 0 {
			return false
		}
	}
	return 0 < len(s) && len(s) <= Max
}
