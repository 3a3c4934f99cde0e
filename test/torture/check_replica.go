package torture

// replica is one start of a player.
type replica struct {
	worker   string
	up       *Event
	ended    *Event          // Killed or Down
	role     Kind            // the last of Up, Follow, Lead and Drain
	follow   Event           // the last Up or Follow
	early    map[uint64]bool // the tokens of terms that were taken early; 0: perhaps the next term
	terms    []*term
	paused   *Event
	absences []period // sorted, apart from each other
	runs     []*run
	open     map[runKey]*run // the last of that key
}

// term is a time in which a process led. Its Event is that it did.
type term struct {
	Event
	process   *replica
	follow    Event
	gained    period // when the lease can have been taken: it ends with the first that is known of the term
	forgotten bool   // a failover may have lost that it was taken
	early     bool   // its lease was taken, or can have been, before the one before was up
}

// termOf is the process's first term under the token, or nil.
func (p *replica) termOf(token uint64) *term {
	for _, t := range p.terms {
		if t.Token == token {
			return t
		}
	}
	return nil
}
