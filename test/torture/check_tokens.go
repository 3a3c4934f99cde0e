package torture

// checkOwners: a token has only ever one owner, and names one term; no two starts of a process have the same name.
func (c *check) checkOwners() {
	for _, p := range c.order {
		if p.up == nil {
			continue
		}
		if other := c.owners[p.up.Owner]; other != nil {
			c.wrong(1, []Event{*other.up, *p.up}, "two processes are %s", p.up.Owner)
			continue
		}
		c.owners[p.up.Owner] = p
	}
	for _, t := range c.terms {
		if first := c.led[t.Token]; first != t {
			c.wrong(1, []Event{first.Event, t.Event}, "token %d was led under twice", t.Token)
		}
	}
	owner := map[uint64]string{}
	said := map[uint64]string{} // where
	agrees := func(token uint64, name, where string) {
		if owner[token] == "" {
			owner[token], said[token] = name, where
		}
		if owner[token] != name {
			c.wrong(1, c.leadsUnder(token), "token %d is %s's by %s, and %s's by %s", token, owner[token], said[token], name, where)
		}
	}
	for _, t := range c.terms {
		if c.led[t.Token] == t {
			agrees(t.Token, t.process.up.Owner, "its Lead event")
		}
	}
	if c.Spread { // the tokens of rows are those of sessions, and the tokens of effects those of attempts: see checkRunTokens
		return
	}
	for _, k := range c.keys {
		for _, r := range c.ticks[k].rows {
			agrees(r.Token, r.Owner, "the row of "+k.String())
		}
		for _, e := range c.ticks[k].effects {
			agrees(e.Token, e.Owner, "an effect of "+k.String())
		}
	}
	c.checkUnseen(owner)
}

func (c *check) leadsUnder(token uint64) []Event {
	if t := c.led[token]; t != nil {
		return []Event{*t.process.up, t.Event}
	}
	return nil
}

// checkUnseen looks at the tokens that tables have and no Lead event. A process writes Lead when it has taken the lease,
// on a goroutine of its own: one that is killed just then may have claimed ticks without a recorded Lead. So its
// owner has to be a process that was killed while it followed, by the record; there can be one such term of it;
// and its token has to be newer than what others led under when that process began to follow.
func (c *check) checkUnseen(owner map[uint64]string) {
	unseen := map[*replica]uint64{}
	reported := map[uint64]bool{}
	explain := func(token uint64, where string) {
		if c.led[token] != nil || reported[token] {
			return
		}
		p := c.owners[owner[token]]
		switch {
		case token == 0:
			c.wrong(2, nil, "%s names no term", where)
		case p == nil:
			c.wrong(2, nil, "%s has token %d of %s, which is no process of this round", where, token, owner[token])
		case unseen[p] == token:
			return
		case p.ended == nil || p.ended.Kind != Killed || p.role != Up && p.role != Follow:
			c.wrong(2, []Event{*p.up, p.follow}, "%s has token %d, under which %s never led", where, token, p.worker)
		case unseen[p] != 0:
			c.wrong(2, []Event{*p.up, *p.ended}, "%s has token %d, and others have %d: %s was not seen to lead under either", where, token, unseen[p], p.worker)
		case c.newestAt(p.since(p.follow.At)) >= token:
			c.wrong(1, []Event{p.follow, *p.ended}, "%s has token %d, which is not newer than %d, which was led under before %s began to follow",
				where, token, c.newestAt(p.since(p.follow.At)), p.worker)
		default:
			unseen[p] = token
			c.summary.Unseen++
			return
		}
		reported[token] = true
	}
	for _, k := range c.keys {
		for _, r := range c.ticks[k].rows {
			explain(r.Token, "the row of "+k.String())
		}
		for _, e := range c.ticks[k].effects {
			explain(e.Token, "an effect of "+k.String())
		}
	}
}

// newestAt is the newest token that anybody is known to have had then.
func (c *check) newestAt(at int64) uint64 {
	var newest uint64
	for _, t := range c.terms {
		if t.gained.to < at {
			newest = max(newest, t.Token)
		}
	}
	return newest
}
