//go:build race

package simulation_test

// bubbles are few under the race detector, which makes each take many times as
// long.
const bubbles = 6
