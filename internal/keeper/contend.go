package keeper

import (
	"errors"
	"fmt"
)

// ErrContended says that another candidate of the same keeper contends for the
// group, or holds its lease. To the database both are one owner, so that they
// could not be told apart.
var ErrContended = errors.New("lease: another candidate of this keeper has the group")

// Begin reserves the group for this candidate among those of its keeper, until
// [Candidate.End]. The error matches [ErrContended]. Without it each Look
// reserves the group for itself, and for as long as what it took is held.
func (c *Candidate) Begin() error {
	k := c.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.contended(c); err != nil {
		return err
	}
	c.begun = true
	k.contending[c.group] = c
	return nil
}

// End gives the group back to the keeper's other candidates.
func (c *Candidate) End() {
	c.keeper.mu.Lock()
	defer c.keeper.mu.Unlock()
	c.begun = false
	if c.keeper.contending[c.group] == c {
		delete(c.keeper.contending, c.group)
	}
}

// enter is Begin for one Look; leave is its end.
func (c *Candidate) enter() (leave func(), err error) {
	k := c.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.contended(c); err != nil {
		return nil, err
	}
	if c.begun {
		return func() {}, nil
	}
	k.contending[c.group] = c
	return c.End, nil
}

// contended reports that another candidate has the group. It is called with mu
// held.
func (k *Keeper) contended(c *Candidate) error {
	if other := k.contending[c.group]; other != nil && other != c {
		return fmt.Errorf("%w: %q", ErrContended, c.group)
	}
	for h := range k.held {
		if h.group == c.group && h != c.held {
			return fmt.Errorf("%w: %q, under token %d", ErrContended, c.group, h.token)
		}
	}
	return nil
}
