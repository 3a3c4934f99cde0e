package cron

import "math/bits"

// set holds the values of one field, from 0 to 255.
type set [4]uint64

func (s *set) add(v int) { s[v>>6] |= 1 << (v & 63) }

func (s *set) has(v int) bool { return uint(v) < 256 && s[v>>6]>>(v&63)&1 != 0 }

// next returns the first member that is v or more, 256 when there is none.
func (s *set) next(v int) int {
	for v < 256 {
		if rest := s[v>>6] >> (v & 63); rest != 0 {
			return v + bits.TrailingZeros64(rest)
		}
		v = v&^63 + 64
	}
	return 256
}

// prev returns the last member that is v or less, -1 when there is none.
func (s *set) prev(v int) int {
	for v >= 0 {
		if rest := s[v>>6] << (63 - v&63); rest != 0 {
			return v - bits.LeadingZeros64(rest)
		}
		v = v&^63 - 1
	}
	return -1
}
