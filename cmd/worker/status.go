package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cronlease/cronlease/election"
)

// status is what worker status prints. Its JSON form is relied on: keys are
// added, but never renamed or removed.
type status struct {
	Group string `json:"group"`
	// State is held, expired (no heartbeat for a TTL), released or none (nobody
	// has led yet).
	State string `json:"state"`
	// Owner and Token name the present or the last leader.
	Owner               string  `json:"owner"`
	Token               uint64  `json:"token"`
	TTLSeconds          float64 `json:"ttl_seconds"`
	HeartbeatAgeSeconds float64 `json:"heartbeat_age_seconds"`
	ResignAsked         bool    `json:"resign_asked"`
}

// errNoLeader is how status ends when nobody leads.
var errNoLeader = errors.New("nobody leads the group")

func newStatus() *cobra.Command {
	var t target
	var asJSON bool
	command := &cobra.Command{
		Use:   "status",
		Short: "Say who leads the group",
		Long: `Say who leads the group, under which token, and how old the last heartbeat is
by the database's clock. It exits with 3 when nobody leads: the lease was
released, its last heartbeat is older than its TTL, or nobody has led yet.`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			db, group, err := t.open(command)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			l, err := election.Leader(command.Context(), db, group)
			if err != nil {
				return err
			}
			s := newStatusOf(l)
			if err := s.print(command, asJSON); err != nil {
				return err
			}
			if s.State != "held" {
				return fmt.Errorf("%w %s (%s)", errNoLeader, s.Group, s.State)
			}
			return nil
		},
	}
	t.addFlags(command, true)
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

func newStatusOf(l election.Leadership) status {
	s := status{
		Group: l.Group, Owner: l.Owner, Token: l.Token,
		TTLSeconds: l.TTL.Seconds(), HeartbeatAgeSeconds: l.Age.Seconds(), ResignAsked: l.ResignAsked && !l.Released,
	}
	switch {
	case l.Owner == "":
		s.State = "none"
	case l.Released:
		s.State = "released"
	case l.Held():
		s.State = "held"
	default:
		s.State = "expired"
	}
	return s
}

func (s status) print(command *cobra.Command, asJSON bool) error {
	out := command.OutOrStdout()
	if asJSON {
		return json.NewEncoder(out).Encode(s)
	}
	age := time.Duration(s.HeartbeatAgeSeconds * float64(time.Second)).Round(time.Millisecond)
	ttl := time.Duration(s.TTLSeconds * float64(time.Second))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, name+"\t"+format+"\n", args...) // Flush tells of errors
	}
	row("group", "%s", s.Group)
	switch s.State {
	case "none":
		row("leader", "nobody, and nobody has been")
		return table.Flush()
	case "released":
		row("leader", "nobody: the lease is released")
	case "expired":
		row("leader", "nobody: the lease has expired")
	default:
		row("leader", "%s", printable(s.Owner))
	}
	if s.State != "held" {
		row("last leader", "%s", printable(s.Owner))
	}
	row("token", "%d", s.Token)
	row("heartbeat", "%v ago", age)
	row("ttl", "%v", ttl)
	if s.ResignAsked {
		row("resign", "asked to step down")
	}
	return table.Flush()
}
