package gameday

import "time"

// ledgerFaults are of the tables that have the runs, while the lease is kept.
func ledgerFaults() []fault {
	return []fault{
		{
			name: "table-gone", what: "The table of runs is gone", lasts: short,
			want: want{alerts: []string{"CronleaseNotFiring", "CronleaseDatabase"}, notReady: 3, status: []int{4}, doctor: []string{"tables"}, exit: 5, page: "The database answers, but cannot be used as it is"},
			do: func(s *scene) func() {
				s.exec("RENAME TABLE app.cronlease_run TO app.away")
				return func() { s.exec("RENAME TABLE app.away TO app.cronlease_run") }
			},
		},
		{
			name: "right-revoked", what: "The right to UPDATE the table of runs is revoked", lasts: short,
			// Ticks are claimed, and their ends cannot be recorded: the database does not show that, and worker status
			// sees only the database. Only replicas that have led know of it: one, or all, if they have to take turns.
			want: want{alerts: []string{"CronleaseDatabase"}, anyReady: true, doctor: []string{"grants"}, exit: 5, page: "cannot use the database"},
			do: func(s *scene) func() {
				for _, account := range accounts {
					for _, table := range []string{"lease", "fence", "job", "lock", "replica", "audit", "term", "attempt"} {
						s.exec("GRANT UPDATE ON app.cronlease_" + table + " TO " + account + "@'%'")
					}
					s.exec("REVOKE UPDATE ON app.* FROM " + account + "@'%'")
				}
				s.killConnections() // which have the rights of when they began
				return func() {
					for _, account := range accounts {
						s.exec("GRANT UPDATE ON app.* TO " + account + "@'%'")
					}
				}
			},
		},
		{
			name: "gone-back", what: "The newest rows of the ledger are gone, as after a restore; the replica that noticed is restarted. Until `worker resume`", lasts: short,
			want: want{within: 75 * time.Second, alerts: []string{"CronleaseLeaderIdle"}, notReady: 3, silent: 1, back: true, status: []int{4}, doctor: []string{"paused"}, exit: 5, page: "The group has paused itself", restores: true},
			before: func(s *scene) { // so that those that do not lead have seen the ticks: they read the ledger when a term begins
				if code, out, complaint := s.watch.run("resign", s.victim); code != 0 {
					s.t.Errorf("resign: %s %s", out, complaint)
				}
				former := s.victim
				s.wait("another one leads, and all is well", func() bool {
					s.victim = s.leader()
					return s.victim != nil && s.victim != former && s.watch.allWell(len(s.replicas))
				})
			},
			do: func(s *scene) func() {
				s.exec("DELETE FROM app.cronlease_run WHERE tick > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - 20000000")
				s.victim.kill()
				s.victim.start()
				return func() {
					if code, out, complaint := s.watch.run("resume", s.victim); code != 0 {
						s.t.Errorf("resume: %s %s", out, complaint)
					}
				}
			},
		},
	}
}
