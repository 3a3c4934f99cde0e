package gameday

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/internal/subprocess"
)

// fault is what happens to a group.
type fault struct {
	name  string // of the subtest, and of the job that Prometheus scrapes
	what  string // in words
	lasts time.Duration
	// do injects it, and returns what ends it.
	do func(*scene) (end func())

	// What has to be said of it: alerts that fire, checks of worker doctor that find a problem or a warning, the exit code of
	// worker status, and how many replicas are not ready.
	alerts   []string
	doctor   []string
	status   int
	notReady int
	anyReady bool // how many are not ready depends on which connections they have
}

// faults are those of the game day, the longest first.
func faults() []fault {
	const short, long = 4 * time.Minute, 7 * time.Minute
	return []fault{
		{
			name: "job-fails", what: "A job fails each time", lasts: long, alerts: []string{"CronleaseJobFails"}, doctor: []string{"failing"},
			do: func(s *scene) func() {
				s.target.fails.Store(true)
				return func() { s.target.fails.Store(false) }
			},
		},
		{
			name: "job-hangs", what: "A job without a timeout hangs, until `worker cancel`", lasts: long,
			alerts: []string{"CronleaseJobHeldUp"}, doctor: []string{"open runs"},
			do: func(s *scene) func() {
				s.target.hangs.Store(true)
				return func() {
					s.target.hangs.Store(false)
					s.cancel("flaky")
				}
			},
		},
		{
			name: "clock", what: "The database's clock jumps an hour ahead", lasts: long, notReady: 3, status: 3,
			alerts: []string{"CronleaseNoLeader", "CronleaseDatabase", "CronleaseClockSkew"}, doctor: []string{"clock", "leader"},
			do: func(s *scene) func() {
				step := func(by time.Duration) {
					if err := s.server.StepClock(by); err != nil {
						s.t.Error(err)
					}
				}
				step(time.Hour)
				return func() { step(0) }
			},
		},
		{
			name: "connections", what: "Other programs take all connections of the database", lasts: long, doctor: []string{"connection"}, status: 1, anyReady: true,
			alerts: []string{"CronleaseJobFails"},
			do:     takeConnections,
		},
		{
			name: "database-killed", what: "The database's process is killed, and starts again later", lasts: short, notReady: 3, status: 1,
			alerts: []string{"CronleaseNoLeader", "CronleaseDatabase"}, doctor: []string{"connection"},
			do: func(s *scene) func() {
				if err := s.server.Kill(); err != nil {
					s.t.Error(err)
				}
				return func() {
					ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), patience)
					defer cancel()
					if err := s.server.Start(ctx); err != nil {
						s.t.Error(err)
					}
				}
			},
		},
		{
			name: "database-hangs", what: "The database's process hangs (SIGSTOP)", lasts: short, notReady: 3, status: 1,
			alerts: []string{"CronleaseNoLeader", "CronleaseDatabase"}, doctor: []string{"connection"},
			do: func(s *scene) func() {
				if err := s.server.Pause(); err != nil {
					s.t.Error(err)
				}
				return func() {
					if err := s.server.Resume(); err != nil {
						s.t.Error(err)
					}
				}
			},
		},
		{
			name: "network", what: "The network between the leader and the database drops everything", lasts: short, notReady: 1, status: 1,
			alerts: []string{"CronleaseDatabase"}, doctor: []string{"connection"},
			do: func(s *scene) func() {
				s.victim.proxy.BlackHole()
				return s.victim.proxy.Pass
			},
		},
		{
			name: "password", what: "The account's password is changed, and its connections are ended", lasts: short, notReady: 3, status: 1,
			alerts: []string{"CronleaseNoLeader", "CronleaseDatabase"}, doctor: []string{"connection"},
			do: func(s *scene) func() {
				s.exec("ALTER USER app@'%' IDENTIFIED BY 'second'")
				s.killConnections()
				return func() { s.tell("second") }
			},
		},
		{
			name: "read-only", what: "The database becomes read-only", lasts: short, notReady: 3, status: 3,
			alerts: []string{"CronleaseNoLeader", "CronleaseDatabase"}, doctor: []string{"server", "leader"},
			do: func(s *scene) func() {
				s.exec("SET GLOBAL read_only = ON")
				return func() { s.exec("SET GLOBAL read_only = OFF") }
			},
		},
		{
			name: "ledger-locked", what: "A backup locks the table of runs (LOCK TABLES)", lasts: short, status: 4, anyReady: true,
			alerts: []string{"CronleaseNotFiring"}, doctor: []string{"locked", "overdue"},
			do: func(s *scene) func() { return s.hold("LOCK TABLES app.cronlease_run READ") },
		},
		{
			name: "lease-locked", what: "A forgotten transaction locks the row of the lease", lasts: short, status: 3, notReady: 3,
			alerts: []string{"CronleaseNoLeader", "CronleaseDatabase"}, doctor: []string{"locked", "leader"},
			do: func(s *scene) func() { return s.hold("BEGIN", "SELECT * FROM app.cronlease_lease FOR UPDATE") },
		},
		{
			name: "leader-hangs", what: "The leader's process hangs (SIGSTOP)", lasts: short, notReady: 1,
			alerts: []string{"CronleaseReplicaDown"},
			do: func(s *scene) func() {
				s.victim.signal(subprocess.Suspend)
				return func() { s.victim.signal(subprocess.Resume) }
			},
		},
		{
			name: "leader-killed", what: "The leader's process is killed, and starts again later", lasts: short, notReady: 1,
			alerts: []string{"CronleaseRunsInterrupted", "CronleaseReplicaDown"},
			do: func(s *scene) func() {
				s.waitForReport()
				s.victim.kill()
				return s.victim.start
			},
		},
		{
			name: "all-killed", what: "All workers are killed, and start again later", lasts: short, notReady: 3, status: 3,
			alerts: []string{"CronleaseGroupGone"}, doctor: []string{"leader"},
			do: func(s *scene) func() {
				for _, r := range s.replicas {
					r.kill()
				}
				return func() {
					for _, r := range s.replicas {
						r.start()
					}
				}
			},
		},
	}
}

// hold keeps what the statements have locked.
func (s *scene) hold(statements ...string) (end func()) {
	ctx := context.WithoutCancel(s.t.Context())
	c, err := s.root.Conn(ctx)
	if err != nil {
		s.t.Error(err)
		return func() {}
	}
	for _, statement := range statements {
		// A statement of a worker may be quicker.
		for try := 0; ; try++ {
			if _, err = c.ExecContext(ctx, statement); err == nil || try == 5 {
				break
			}
		}
		if err != nil {
			s.t.Errorf("%s: %v", statement, err)
		}
	}
	return func() {
		for _, statement := range []string{"ROLLBACK", "UNLOCK TABLES"} {
			if _, err := c.ExecContext(ctx, statement); err != nil {
				s.t.Error(err)
			}
		}
		_ = c.Close()
	}
}

// cancel cancels the run of a job, as an operator would.
func (s *scene) cancel(job string) {
	if code, out, complaint := s.watch.run("cancel", s.victim, job); code != 0 {
		s.t.Errorf("cancel %s: %s %s", job, out, complaint)
	}
}

// killConnections ends the workers' connections.
func (s *scene) killConnections() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 30*time.Second)
	defer cancel()
	rows, err := s.root.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE user = 'app'")
	if err != nil {
		s.t.Error(err)
		return
	}
	defer rows.Close()
	var ids []uint64
	for rows.Next() {
		var id uint64
		if err := rows.Scan(&id); err != nil {
			s.t.Error(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		s.t.Error(err)
	}
	for _, id := range ids {
		_, _ = s.root.ExecContext(ctx, fmt.Sprint("KILL ", id)) // it may have ended
	}
}

// takeConnections opens connections until the server refuses more, and takes each that becomes free.
func takeConnections(s *scene) (end func()) {
	s.exec("SET GLOBAL max_connections = 60")
	s.exec("CREATE USER hog@'%' IDENTIFIED BY 'hog'")
	hog := open(s.t, s.server, "hog", "hog")
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		var taken []*sql.Conn
		for ctx.Err() == nil {
			c, err := hog.Conn(ctx)
			if err != nil {
				rest(s.t, 20*time.Millisecond)
				continue
			}
			taken = append(taken, c)
		}
		for _, c := range taken {
			_ = c.Close()
		}
		_ = hog.Close()
	}()
	return func() {
		cancel()
		<-done
		s.exec("SET GLOBAL max_connections = 500")
	}
}

// waitForReport waits until a run of the job "report" goes on for some time still.
func (s *scene) waitForReport() {
	rest(s.t, time.Until(time.Now().Truncate(30*time.Second).Add(32*time.Second)))
	s.began = time.Now()
}
