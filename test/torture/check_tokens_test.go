package torture

import (
	"testing"
)

func TestCheckOwners(t *testing.T) {
	// A process that is killed when it has just taken the lease and claimed a tick, before it could say so.
	unsaid := func() *story {
		return takeOver().killed(2100, "w1").up(2200, "w3").killed(4100, "w3").
			row("interrupted", "w3", of(7, "hold", 3, 1))
	}
	judge(t, []judged{
		{name: "two processes of one name", story: handOver().do(func(s *story) { s.event(Up, "w2", "", -1).Owner = ownerOf("w1") }),
			guarantee: 1, want: "two processes are owner-w1"},
		{name: "led under twice", story: handOver().do(func(s *story) { s.event(Lead, "w2", "", -1).Token = 5; s.event(Drain, "w2", "", -1).Token = 5 }),
			guarantee: 1, want: "token 5 was led under twice"},
		{name: "led under again", story: handOver().lead(4600, "w3", 8).up(4590, "w3").yield(4601, "w3", 8).down(4630, "w3"),
			guarantee: 1, want: "token 8 was led under twice"},
		{name: "a row of another owner", story: handOver().do(func(s *story) { s.rowOf("hold", 2).Owner = ownerOf("w1") }),
			guarantee: 1, want: "token 8 is owner-w2's by its Lead event, and owner-w1's by the row of hold@"},
		{name: "a row of no owner", story: handOver().do(func(s *story) { s.rowOf("hold", 2).Owner = "" }),
			guarantee: 1, want: "and 's by the row of hold@"},
		{name: "an effect of another owner", story: handOver().do(func(s *story) { s.effectOf("all", 4).Owner = ownerOf("w1") }),
			guarantee: 1, want: "and owner-w1's by an effect of all@"},

		{name: "a token that grows", story: handOver().do(func(s *story) { s.retoken(8, 6) })},
		{name: "a token that shrinks", story: handOver().do(func(s *story) { s.retoken(8, 4) }),
			guarantee: 3, want: "a transaction under token 4 began when the term of token 5 had been there"},
		{name: "a token that shrinks without work", story: bare().
			up(0, "w1").up(0, "w2").lead(100, "w1", 5).yield(200, "w1", 5).add(350, "w2", Follow, Event{}).lead(400, "w2", 4).yield(500, "w2", 4).down(600, "w1").down(600, "w2"),
			guarantee: 1, want: "the term of token 4 began when the term of token 5 had been there"},
		{name: "taken before, and said late", story: bare().
			up(0, "w1").up(0, "w2").lead(100, "w1", 5).yield(200, "w1", 5).add(190, "w2", Follow, Event{}).lead(400, "w2", 4).yield(500, "w2", 4).down(600, "w1").down(600, "w2")},
		{name: "taken before, and paused before it said so", story: bare().
			up(0, "w1").up(0, "w2").lead(100, "w1", 5).yield(200, "w1", 5).pause(95, 400, "w2").add(401, "w2", Follow, Event{}).lead(402, "w2", 4).yield(500, "w2", 4).down(600, "w1").down(600, "w2")},
		{name: "the same without the pause", story: bare().
			up(0, "w1").up(0, "w2").lead(100, "w1", 5).yield(200, "w1", 5).add(401, "w2", Follow, Event{}).lead(402, "w2", 4).yield(500, "w2", 4).down(600, "w1").down(600, "w2"),
			guarantee: 1, want: "the term of token 4 began when the term of token 5 had been there"},

		{name: "a row of a term that was not recorded", story: unsaid(), count: unseen},
		{name: "two rows of it", story: unsaid().row("interrupted", "w3", of(7, "hold", 4, 1)), count: unseen},
		{name: "two owners of it", story: unsaid().row("interrupted", "w1", of(7, "hold", 4, 1)),
			guarantee: 1, want: "token 7 is owner-w3's by the row of hold@00:00:03, and owner-w1's by the row of hold@00:00:04"},
		{name: "of a process that was not killed", story: unsaid().drop(Killed, "w3", "", -1).down(4100, "w3"),
			guarantee: 2, want: "has token 7, under which w3 never led"},
		{name: "of a process that led under another", story: unsaid().lead(2300, "w3", 6),
			guarantee: 2, want: "has token 7, under which w3 never led"},
		{name: "of no process", story: unsaid().do(func(s *story) { s.rowOf("hold", 3).Owner = "owner-w9" }),
			guarantee: 2, want: "which is no process of this round"},
		{name: "of no term", story: unsaid().do(func(s *story) { s.rowOf("hold", 3).Token = 0 }),
			guarantee: 2, want: "names no term"},
		{name: "two of one process", story: unsaid().do(func(s *story) { r := s.rowOf("hold", 0); r.Owner, r.Token = ownerOf("w3"), 6 }),
			guarantee: 2, want: "w3 was not seen to lead under either"},
		{name: "not newer than what others had", story: unsaid().do(func(s *story) { s.rowOf("hold", 3).Token = 3 }),
			guarantee: 1, want: "has token 3, which is not newer than 5"},
		{name: "a row under no term of its owner", story: handOver().do(func(s *story) { s.rowOf("hold", 2).Token = 7 }),
			guarantee: 2, want: "has token 7, under which w2 never led"},
	})
}

// retoken gives a term another token.
func (s *story) retoken(from, to uint64) {
	for i := range s.Events {
		if s.Events[i].Token == from {
			s.Events[i].Token = to
		}
	}
	for i := range s.Rows {
		if s.Rows[i].Token == from {
			s.Rows[i].Token = to
		}
	}
	for i := range s.Effects {
		if s.Effects[i].Token == from {
			s.Effects[i].Token = to
		}
	}
}
