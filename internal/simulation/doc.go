// Package simulation contains the simulation of the whole: in its tests, replicas
// with the real scheduler, election and ledger code live through years in
// testing/synctest bubbles, on the in-memory store, while everything goes wrong.
//
// A bubble has one clock. So that replicas can disagree about the time, each
// lives on a host (package clocks) whose clocks are slower than the bubble's by
// up to 1 %, set wrongly, and stand still while its process does.
package simulation
