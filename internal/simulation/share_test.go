//go:build !race

package simulation_test

// bubbles are a year in all, and seen by enough that each event is among them.
const bubbles = 110
