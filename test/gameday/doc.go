// Package gameday injects the faults that wake an operator, one by one, into groups of three real workers, and records what
// the alerts, the probes, the page, worker doctor and worker status say of each, and after how long. `make gameday` runs all of
// them and writes the section "Game day" of docs/operating.md.
package gameday
