package gameday

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/subprocess"
)

// fault is what happens to a group.
type fault struct {
	name   string // of the subtest, and of the job that Prometheus scrapes
	what   string // in words
	lasts  time.Duration
	before func(*scene) // has what it needs come about, before it begins; may be nil
	// do injects it, and returns what ends it.
	do func(*scene) (end func())

	// prepare returns more options of its server, before that starts.
	prepare  func(*scene) []string
	replicas int    // how many the group has; zero: three
	jobs     string // it has besides
	mariadb  bool   // has no other kind of server
	settings string // of each replica besides
	last     string // the same of the last one
	at       int    // where the commands are called: 0 is the leader, 1 the first follower

	want want
}

// want is what has to be said of a fault, and within which time of its beginning: the one table of that. The document has it too.
type want struct {
	within   time.Duration // for the probes, the commands and the page; zero: usual
	alerts   []string      // that fire while it lasts, each within what its rule waits for besides
	notReady int           // replicas that are not ready
	anyReady bool          // how many are not ready depends on which connections they have
	silent   int           // replicas whose probes do not answer; all others say that they are not stuck, throughout
	back     bool          // those answer again while it lasts
	status   []int         // exit codes of worker status, one of which it has from then on; none: 0, throughout; with 0 others: not any more then
	says     string        // part of what worker status prints
	doctor   []string      // checks of worker doctor that find a problem or a warning
	exit     int           // code of worker doctor, from then on
	never    string        // what no cure says
	page     string        // part of a note, or of what is marked, of a page in the end; empty: there is no note
	again    time.Duration // within which all are well again after its end; zero: usual
	restores bool          // it takes rows out of the ledger: ticks are not counted
}

// usual is within which time a fault is named, and within which all is well again.
const usual = 45 * time.Second

func (w want) bounds() (within, again time.Duration) {
	within, again = w.within, w.again
	if within == 0 {
		within = usual
	}
	if again == 0 {
		again = usual
	}
	return within, again
}

// faults are those of the game day, the longest first.
func faults() []fault {
	return slices.Concat(oftenFaults(), commitFaults(), ledgerFaults())
}

const (
	brief = 3 * time.Minute
	short = 4 * time.Minute
	long  = 7 * time.Minute
)

// oftenFaults are of jobs, processes and the server as a whole.
func oftenFaults() []fault {
	return []fault{
		{
			name: "job-fails", what: "A job fails each time", lasts: long,
			want: want{alerts: []string{"CronleaseJobFails"}, doctor: []string{"failing"}, page: "failed are listed: flaky"},
			do: func(s *scene) func() {
				s.target.fails.Store(true)
				return func() { s.target.fails.Store(false) }
			},
		},
		{
			name: "notices", what: "More jobs fail than a notifier may tell of", lasts: brief,
			jobs: `
  - name: another
    every: 10s
    http: {url: "{target}/flaky", method: POST}
  - name: tell
    notify: {on_failure: all, limit: 1, per: 1h}
    http: {url: "{target}/notices", method: POST}
`,
			want: want{alerts: []string{"CronleaseNoticesLeftOut"}, doctor: []string{"failing"}, page: "failed are listed: another, flaky"},
			do: func(s *scene) func() {
				s.target.fails.Store(true)
				return func() { s.target.fails.Store(false) }
			},
		},
		{
			name: "job-hangs", what: "A job without a timeout hangs, until `worker cancel`", lasts: long,
			want: want{within: 6 * time.Minute, alerts: []string{"CronleaseJobHeldUp"}, doctor: []string{"open runs"}},
			do: func(s *scene) func() {
				s.target.hangs.Store(true)
				return func() {
					s.target.hangs.Store(false)
					s.cancel("flaky")
				}
			},
		},
		{
			name: "clock", what: "The database's clock jumps an hour ahead", lasts: long,
			want: want{alerts: []string{"CronleaseNoLeader", "CronleaseDatabase", "CronleaseClockSkew"}, notReady: 3, status: []int{3}, doctor: []string{"clock", "leader"}, exit: 5, page: "No replica leads"},
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
			name: "connections", what: "Other programs take all connections of the database", lasts: long,
			want: want{alerts: []string{"CronleaseJobFails"}, anyReady: true, status: []int{1}, doctor: []string{"connection"}, exit: 5, page: "failed are listed: sweep"},
			do:   takeConnections,
		},
		{
			name: "database-killed", what: "The database's process is killed, and starts again later", lasts: short,
			want: want{alerts: []string{"CronleaseNoLeader", "CronleaseDatabase"}, notReady: 3, status: []int{1}, doctor: []string{"connection"}, exit: 5, page: "The database cannot be"},
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
			name: "database-hangs", what: "The database's process hangs (SIGSTOP)", lasts: short,
			// A doctor takes up to half a minute then, and what it has begun before does not count.
			want: want{within: 75 * time.Second, alerts: []string{"CronleaseNoLeader", "CronleaseDatabase"}, notReady: 3, status: []int{1}, doctor: []string{"connection"}, exit: 5, page: "The database does not answer"},
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
			name: "network", what: "The network between the leader and the database drops everything", lasts: short,
			// A doctor takes up to half a minute then, and what it has begun before does not count.
			want: want{within: 75 * time.Second, alerts: []string{"CronleaseDatabase"}, notReady: 1, status: []int{1}, doctor: []string{"connection"}, exit: 5, page: "The database does not answer"},
			do: func(s *scene) func() {
				s.victim.proxy.BlackHole()
				return s.victim.proxy.Pass
			},
		},
		{
			name: "password", what: "The account's password is changed, and its connections are ended", lasts: short,
			want: want{alerts: []string{"CronleaseNoLeader", "CronleaseDatabase"}, notReady: 3, status: []int{1}, doctor: []string{"connection"}, exit: 5, page: "The database refuses this replica's login"},
			do: func(s *scene) func() {
				for _, account := range accounts {
					s.exec("ALTER USER " + account + "@'%' IDENTIFIED BY 'second'")
				}
				s.killConnections()
				return func() { s.tell("second") }
			},
		},
		{
			name: "account-locked", what: "The account is locked, and its connections are ended; then it is unlocked", lasts: brief,
			want: want{alerts: []string{"CronleaseNoLeader", "CronleaseDatabase"}, notReady: 3, status: []int{1}, doctor: []string{"connection"}, exit: 5, page: "The database refuses this replica's login"},
			do: func(s *scene) func() {
				alter := func(to string) {
					for _, account := range accounts {
						s.exec("ALTER USER " + account + "@'%' ACCOUNT " + to)
					}
				}
				alter("LOCK")
				s.killConnections()
				return func() { alter("UNLOCK") }
			},
		},
		{
			name: "password-expired", what: "The account's password expires, and its connections are ended; then it is set again", lasts: brief,
			want: want{alerts: []string{"CronleaseNoLeader", "CronleaseDatabase"}, notReady: 3, status: []int{1}, doctor: []string{"connection"}, exit: 5, page: "The database refuses this replica's login"},
			do: func(s *scene) func() {
				alter := func(to string) {
					for _, account := range accounts {
						s.exec("ALTER USER " + account + "@'%' " + to)
					}
				}
				alter("PASSWORD EXPIRE")
				s.killConnections()
				return func() { alter("IDENTIFIED BY 'first'") }
			},
		},
		{
			name: "slow-network", what: "Each round trip to the database takes half a second", lasts: brief,
			// A doctor takes some 40 s then, and what it has begun before does not count.
			want: want{within: 2 * time.Minute, doctor: []string{"connection"}, exit: 5},
			do: func(s *scene) func() {
				for _, r := range s.replicas {
					r.proxy.Delay(250 * time.Millisecond)
				}
				return func() {
					for _, r := range s.replicas {
						r.proxy.Pass()
					}
				}
			},
		},
		{
			name: "read-only", what: "The database becomes read-only", lasts: short,
			want: want{alerts: []string{"CronleaseNoLeader", "CronleaseDatabase"}, notReady: 3, status: []int{3}, doctor: []string{"server", "leader"}, exit: 5, page: "No replica leads"},
			do: func(s *scene) func() {
				s.exec("SET GLOBAL read_only = ON")
				return func() { s.exec("SET GLOBAL read_only = OFF") }
			},
		},
		{
			name: "ledger-locked", what: "A backup locks the table of runs (LOCK TABLES)", lasts: short,
			want: want{alerts: []string{"CronleaseNotFiring"}, anyReady: true, status: []int{4}, doctor: []string{"locked", "overdue"}, exit: 5, page: "jobs have ticks that no leader has claimed"},
			do:   func(s *scene) func() { return s.hold("LOCK TABLES app.cronlease_run READ") },
		},
		{
			name: "lease-locked", what: "A forgotten transaction locks the row of the lease", lasts: short,
			want: want{alerts: []string{"CronleaseNoLeader", "CronleaseDatabase"}, notReady: 3, status: []int{3}, doctor: []string{"locked", "leader"}, exit: 5, page: "No replica leads"},
			do:   func(s *scene) func() { return s.hold("BEGIN", "SELECT * FROM app.cronlease_lease FOR UPDATE") },
		},
		{
			name: "leader-hangs", what: "The leader's process hangs (SIGSTOP)", lasts: short,
			want: want{alerts: []string{"CronleaseReplicaDown"}, notReady: 1, silent: 1, says: "does not see", doctor: []string{"replicas"}},
			do: func(s *scene) func() {
				s.victim.signal(subprocess.Suspend)
				return func() { s.victim.signal(subprocess.Resume) }
			},
		},
		{
			name: "leader-killed", what: "The leader's process is killed, and starts again later", lasts: short,
			want: want{alerts: []string{"CronleaseRunsInterrupted", "CronleaseReplicaDown"}, notReady: 1, silent: 1, says: "does not see", doctor: []string{"replicas"}, page: "failed are listed: report"},
			do: func(s *scene) func() {
				s.waitForReport(true)
				s.victim.kill()
				return s.victim.start
			},
		},
		{
			name: "all-killed", what: "All workers are killed, and start again later", lasts: short,
			want: want{alerts: []string{"CronleaseGroupGone"}, notReady: 3, silent: 3, status: []int{3}, doctor: []string{"leader", "replicas"}, exit: 5, page: "no answer"},
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
		{
			name: "follower-killed", what: "A follower's process is killed, and starts again later", lasts: brief,
			want: want{within: 20 * time.Second, alerts: []string{"CronleaseReplicaDown"}, notReady: 1, silent: 1, says: "does not see", doctor: []string{"replicas"}},
			do:   killFollower,
		},
		{
			name: "last-follower-killed", what: "The only follower's process is killed, and starts again later: nobody could take over", lasts: brief, replicas: 2,
			want: want{within: 20 * time.Second, alerts: []string{"CronleaseReplicaDown"}, notReady: 1, silent: 1, says: "does not see", doctor: []string{"replicas"}, page: "1 nobody could take over"},
			do:   killFollower,
		},
		{
			name: "follower-powerless", what: "A follower lives, and its account may no longer write: it could not lead", lasts: long, at: 1,
			// It reads all that it wants to, and writes that it is there every 210 s.
			want: want{within: 4 * time.Minute, alerts: []string{"CronleaseDatabase"}, notReady: 1, doctor: []string{"grants"}, exit: 5, page: "cannot use the database"},
			do: func(s *scene) func() {
				account := s.follower().account
				s.exec("REVOKE INSERT, UPDATE, DELETE ON app.* FROM " + account + "@'%'")
				s.killConnections() // which have the rights of when they began
				return func() { s.exec("GRANT INSERT, UPDATE, DELETE ON app.* TO " + account + "@'%'") }
			},
		},
		{
			name: "labelled-killed", what: "Where runs are spread, the only worker with a label is killed, and starts again later: a job waits for it", lasts: long,
			settings: spread, last: "labels: {disk: ssd}\nfollower_only: true\n",
			jobs: `
  - name: labelled
    every: 10s
    on: {disk: ssd}
    exec: ["true"]
`,
			want: want{alerts: []string{"CronleaseReplicaDown", "CronleaseNoReplica"}, notReady: 1, silent: 1, says: "does not see", doctor: []string{"replicas", "labels"}},
			do: func(s *scene) func() {
				s.waitForReport(false)
				last := s.replicas[len(s.replicas)-1]
				last.kill()
				return last.start
			},
		},
		{
			name: "mode-switched", what: "The runs of the group are spread from now on: the operator starts one worker anew with the mode, switches, and starts the others later", lasts: short,
			want: want{alerts: []string{"CronleaseDatabase"}, notReady: 2, says: "cannot lead", doctor: []string{"replicas"}, page: "the group has another mode"},
			do: func(s *scene) func() {
				last := s.replicas[len(s.replicas)-1]
				last.change(spread)
				s.spread("on")
				return func() {
					for _, r := range s.replicas[:len(s.replicas)-1] {
						r.change(spread)
					}
				}
			},
		},
		{
			name: "only-restarted", what: "The only replica is killed, and starts again at once", lasts: brief, replicas: 1,
			// Until the old lease has expired, it waits for a leader of which it cannot know that it is gone.
			want: want{within: 30 * time.Second, silent: 1, back: true, status: []int{0, 3}, page: "1 nobody could take over"},
			do: func(s *scene) func() {
				s.victim.kill()
				s.victim.start()
				return func() {}
			},
		},
	}
}

func killFollower(s *scene) func() {
	s.follower().kill()
	return s.follower().start
}

// follower is one that did not lead when the fault began.
func (s *scene) follower() *replica {
	return s.replicas[(slices.Index(s.replicas, s.victim)+1)%len(s.replicas)]
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

// spread is the setting of a replica whose runs are spread.
const spread = "spread: true\n"

// spread switches the mode of the group, as an operator would.
func (s *scene) spread(to string) {
	if code, out, complaint := s.watch.run("spread", s.victim, to); code != 0 {
		s.t.Errorf("spread %s: %s %s", to, out, complaint)
	}
}

// killConnections ends the workers' connections.
func (s *scene) killConnections() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 30*time.Second)
	defer cancel()
	rows, err := s.root.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE user LIKE 'app%'")
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

// waitForReport waits until a run of the job "report" goes on for some time still, or has ended.
func (s *scene) waitForReport(runs bool) {
	at := 32 * time.Second
	if !runs {
		at = 55 * time.Second
	}
	rest(s.t, time.Until(time.Now().Truncate(30*time.Second).Add(at)))
	s.began = time.Now()
}
