package torture

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
	"github.com/cronlease/cronlease/store/redisstore"
	"github.com/cronlease/cronlease/store/zkstore"
)

// effects is where the runs of a player store what they do.
type effects interface {
	// store stores the effect of a run in a fenced transaction, and returns its number among those of the job. The pause is within the
	// transaction. With once, an effect of the same tick is errNone.
	store(ctx context.Context, run jobs.Run, pause time.Duration, once bool) (seq uint64, err error)
}

// errNone says that the run's effect already exists.
var errNone = errors.New("the effect is there")

// playerStore is what a player contends on.
type playerStore interface {
	store.Jobs
	io.Closer
}

// open opens what the DSN of a player says.
func open(dsn string) (playerStore, effects, error) {
	if strings.HasPrefix(dsn, "redis") {
		s, err := redisstore.Open(dsn)
		return s, keys{s}, err
	}
	if strings.HasPrefix(dsn, "zk://") {
		s, err := zkstore.Open(dsn, zkstore.WithSessionTimeout(zookeeperSession))
		return s, nodes{s}, err
	}
	s, err := mysqlstore.Open(dsn)
	return s, tables{s}, err
}

// tables are effects in MariaDB or MySQL.
type tables struct{ of *mysqlstore.Store }

// Schema are the statements that create the players' own tables, in the schema torture, and one for the faults.
var Schema = []string{
	"CREATE TABLE torture.counter (job VARBINARY(64) PRIMARY KEY, value BIGINT UNSIGNED NOT NULL) ENGINE=InnoDB",
	`CREATE TABLE torture.effect (job VARBINARY(64), seq BIGINT UNSIGNED, tick BIGINT NOT NULL, attempt INT NOT NULL,
		token BIGINT UNSIGNED NOT NULL, owner VARBINARY(128) NOT NULL, PRIMARY KEY (job, seq), KEY (job, tick)) ENGINE=InnoDB`,
	"CREATE TABLE torture.marker (id INT PRIMARY KEY) ENGINE=InnoDB",
	"INSERT INTO torture.counter (job, value) VALUES ('all', 0), ('once', 0), ('parts-0', 0), ('parts-1', 0), ('rerun', 0), ('slow', 0), ('text', 0)",
}

func (t tables) store(ctx context.Context, run jobs.Run, pause time.Duration, once bool) (seq uint64, err error) {
	err = t.fenced(ctx, run, func(tx *sql.Tx) error {
		// The transaction must not wait for another run's locks for as long as servers do by default, and a process that
		// stands still must not keep its own for long.
		if _, err := tx.ExecContext(ctx, "SET SESSION innodb_lock_wait_timeout = 2, wait_timeout = 3"); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, "UPDATE counter SET value = LAST_INSERT_ID(value + 1) WHERE job = ?", run.Job)
		if err != nil {
			return err
		}
		n, err := result.LastInsertId()
		if err != nil {
			return err
		}
		seq = uint64(n) //nolint:gosec // a count
		if once {
			var n int
			if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM effect WHERE job = ? AND tick = ?", run.Job, run.Tick.UnixMicro()).Scan(&n); err != nil {
				return err
			}
			if n > 0 {
				return errNone
			}
		}
		wait(ctx, pause)
		_, err = tx.ExecContext(ctx, "INSERT INTO effect (job, seq, tick, attempt, token, owner) VALUES (?, ?, ?, ?, ?, ?)",
			run.Job, seq, run.Tick.UnixMicro(), run.Attempt, run.Token, run.Owner)
		return err
	})
	return seq, err
}

// fenced runs fn in one of the two kinds of fenced transactions, by turns.
func (t tables) fenced(ctx context.Context, run jobs.Run, fn func(*sql.Tx) error) error {
	if run.Tick.Unix()/2%2 == 0 {
		return fence.Do(ctx, t.of.DB(), fn)
	}
	tx, err := t.of.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := fn(tx); err != nil {
		return err
	}
	return fence.Commit(ctx, tx)
}

func wait(ctx context.Context, d time.Duration) {
	if d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
}

// keys are effects in Redis, beside the store's keys: a list for each job, in which an effect's place is its number, and a key for each tick that has
// one.
type keys struct{ of *redisstore.Store }

// redisEffects is the list of a job's effects.
func redisEffects(job string) string { return "effects" + redisstore.DefaultName + job }

func (k keys) store(ctx context.Context, run jobs.Run, pause time.Duration, once bool) (seq uint64, err error) {
	tick := fmt.Sprintf("effect%s%s:%d", redisstore.DefaultName, run.Job, run.Tick.UnixMicro())
	text, err := json.Marshal(Effect{Job: run.Job, Tick: run.Tick.UnixMicro(), Attempt: run.Attempt, Token: run.Token, Owner: run.Owner})
	if err != nil {
		return 0, err
	}
	var watch []string
	if once {
		watch = append(watch, tick)
	}
	var length *redis.IntCmd
	err = k.of.Do(ctx, func(tx *redis.Tx, queue redis.Pipeliner) error {
		if once {
			if n, err := tx.Exists(ctx, tick).Result(); err != nil {
				return err
			} else if n > 0 {
				return errNone
			}
		}
		wait(ctx, pause)
		length = queue.RPush(ctx, redisEffects(run.Job), text)
		queue.Incr(ctx, tick)
		return nil
	}, watch...)
	if err != nil {
		return 0, err
	}
	return uint64(length.Val()), nil //nolint:gosec // a length
}

// zookeeperSession is how long the ensemble waits for a player: half of the TTL, as doc.go of zkstore advises.
const zookeeperSession = time.Second

// nodes are effects in ZooKeeper: below a node for each job, whose data are their number, and a node for each tick that has one.
type nodes struct{ of *zkstore.Store }

// The nodes that those are below.
const zookeeperEffects, zookeeperTicks = "/effects", "/ticks"

func (n nodes) store(ctx context.Context, run jobs.Run, pause time.Duration, once bool) (seq uint64, err error) {
	root, tick := zookeeperEffects+"/"+run.Job, fmt.Sprintf("%s/%s:%d", zookeeperTicks, run.Job, run.Tick.UnixMicro())
	for {
		err = n.of.Do(ctx, func(tx *zkstore.Tx) error {
			if once {
				if _, _, err := tx.Get(ctx, tick); err == nil {
					return errNone
				} else if !errors.Is(err, zk.ErrNoNode) {
					return err
				}
				tx.Queue(&zk.CreateRequest{Path: tick})
			}
			wait(ctx, pause)
			data, stat, err := tx.Get(ctx, root)
			if err != nil {
				return err
			}
			seq = 1
			if len(data) > 0 {
				before, err := strconv.ParseUint(string(data), 10, 64)
				if err != nil {
					return err
				}
				seq = before + 1
			}
			text, err := json.Marshal(Effect{Job: run.Job, Seq: seq, Tick: run.Tick.UnixMicro(), Attempt: run.Attempt, Token: run.Token, Owner: run.Owner})
			if err != nil {
				return err
			}
			number := strconv.AppendUint(nil, seq, 10)
			tx.Queue(&zk.SetDataRequest{Path: root, Data: number, Version: stat.Version}, &zk.CreateRequest{Path: root + "/" + string(number), Data: text})
			return nil
		})
		// Another run of the job, or of the tick, has come first.
		if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNodeExists) {
			return seq, err
		}
	}
}
