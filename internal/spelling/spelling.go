// Package spelling finds the names that a misspelt one may stand for.
package spelling

import (
	"slices"
	"strings"
)

// Near returns at most three names that a misspelt name may stand for, the
// nearest first.
func Near(names []string, name string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	for _, n := range names {
		d := Distance(strings.ToLower(name), strings.ToLower(n))
		if name != "" && (strings.Contains(n, name) || strings.Contains(name, n)) {
			d = min(d, 1)
		}
		if n != "" && d <= max(2, len(name)/3) && d < max(len(name), len(n)) { // some of it stays
			near = append(near, candidate{n, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.distance - b.distance })
	var result []string
	for _, c := range near[:min(3, len(near))] {
		result = append(result, c.name)
	}
	return result
}

// Distance counts the edits of bytes from a to b; two swapped ones are one edit.
func Distance(a, b string) int {
	var older []int
	previous := make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(previous[j]+1, row[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, previous = previous, row
	}
	return previous[len(b)]
}
