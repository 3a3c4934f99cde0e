package cron

import (
	"fmt"
	"strings"
)

// DST says what happens on the days when the clocks of the expression's zone are changed. The zero value is Once. The
// package comment has the rules in full.
type DST uint8

const (
	// Once runs what is due at a time of day once on every day, and keeps the real interval of what is due every hour.
	Once DST = iota
	// Native does what the dialect's own engine does. Unix has none: there the wall clock alone decides.
	Native
)

// String returns the name that ParseDST reads.
func (p DST) String() string {
	switch p {
	case Once:
		return "once"
	case Native:
		return "native"
	}
	return fmt.Sprintf("DST(%d)", uint8(p))
}

// ParseDST reads once or native, in any case. The empty string is Once.
func ParseDST(name string) (DST, error) {
	for p := Once; p <= Native; p++ {
		if strings.EqualFold(name, p.String()) {
			return p, nil
		}
	}
	if name == "" {
		return Once, nil
	}
	return Once, fmt.Errorf("cron: dst %q: want once or native", name)
}
