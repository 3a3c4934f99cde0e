// Package torture runs real replicas on real servers while it breaks processes, networks and databases under them, and
// then checks from what everyone recorded that no guarantee was broken.
//
// A round is one seed: a server of one kind is started, three player processes contend for a group and run jobs, and
// faults follow one another, each until it is healed and a leader is back. Then the round's history (what each player
// recorded, what was done to it, and the tables at the end) is checked. Every fault says whether it had an effect: a
// kind of fault that changed nothing in a whole run fails it, since it proves nothing.
//
// The package is for `make torture`; docs/torture.md says how to read what it prints.
package torture
