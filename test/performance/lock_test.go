package performance

import (
	"bufio"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/subprocess"
)

// BenchmarkLock is how many locks a second so many workers can take and give back,
// each on a name of its own: with package locks (ours), with INSERT ... ON DUPLICATE
// KEY UPDATE and DELETE on a pool with a connection for each worker and interpolated
// parameters (upsert), and with Redis, where there is a redis-server. They take
// turns, so that a moment in which the machine is busy hits all of them.
func BenchmarkLock(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		ways := []*lockWay{ourLocks(b, db), upsertLocks(b, db)}
		if redis := redisLocks(b); redis != nil {
			ways = append(ways, redis)
		}
		for _, workers := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) { benchmarkLock(b, ways, workers) })
		}
	})
}

// lockWay is a way to lock. One takes a lock and gives it back.
type lockWay struct {
	name string
	one  func(ctx context.Context, key string) error
}

func benchmarkLock(b *testing.B, ways []*lockWay, workers int) {
	const turns, turn = 4, 500 * time.Millisecond
	done := make([]int64, len(ways))
	took := make([]time.Duration, len(ways))
	run := func(w *lockWay, length time.Duration) (int64, time.Duration) {
		var n atomic.Int64
		var all sync.WaitGroup
		begin := time.Now()
		for i := range workers {
			key := fmt.Sprint("worker:", i)
			all.Go(func() {
				for time.Since(begin) < length {
					if err := w.one(b.Context(), key); err != nil {
						b.Error(err)
						return
					}
					n.Add(1)
				}
			})
		}
		all.Wait()
		return n.Load(), time.Since(begin)
	}
	for _, w := range ways {
		run(w, 200*time.Millisecond) // connections are open, rows exist
	}
	for b.Loop() {
		for range turns {
			for i, w := range ways {
				n, t := run(w, turn)
				done[i] += n
				took[i] += t
			}
		}
	}
	for i, w := range ways {
		b.ReportMetric(float64(done[i])/took[i].Seconds(), w.name+"-locks/s")
	}
	b.ReportMetric(0, "ns/op")
}

func ourLocks(b *testing.B, db dbtest.Database) *lockWay {
	b.Helper()
	client := lockClient(b, open(b, dbtest.Fresh(b, db.Kind)))
	return &lockWay{"ours", func(ctx context.Context, key string) error {
		l, err := client.Mutex(key).Lock(ctx)
		if err != nil {
			return err
		}
		return l.Unlock(ctx)
	}}
}

func upsertLocks(b *testing.B, db dbtest.Database) *lockWay {
	b.Helper()
	config := db.Config(b)
	config.InterpolateParams = true
	connector, err := mysql.NewConnector(config)
	if err != nil {
		b.Fatal(err)
	}
	pool := sql.OpenDB(connector)
	b.Cleanup(func() { _ = pool.Close() })
	pool.SetMaxOpenConns(256)
	pool.SetMaxIdleConns(256)
	_, err = pool.ExecContext(b.Context(), `CREATE TABLE owned_lock (name VARCHAR(64) NOT NULL PRIMARY KEY, owner VARCHAR(64) NOT NULL, expires_at DATETIME NOT NULL)`)
	if err != nil {
		b.Fatal(err)
	}
	return &lockWay{"upsert", func(ctx context.Context, key string) error {
		owner := rand.Text()
		result, err := pool.ExecContext(ctx, `INSERT INTO owned_lock (name, owner, expires_at) VALUES (?, ?, NOW() + INTERVAL 15 SECOND)
ON DUPLICATE KEY UPDATE owner = IF(expires_at < NOW(), VALUES(owner), owner), expires_at = IF(expires_at < NOW(), VALUES(expires_at), expires_at)`, key, owner)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); n == 0 {
			return errors.Join(errors.New("taken"), err)
		}
		_, err = pool.ExecContext(ctx, "DELETE FROM owned_lock WHERE name = ? AND owner = ?", key, owner)
		return err
	}}
}

// The scripts of github.com/bsm/redislock, for one key.
const (
	redisObtain  = `if redis.call("set", KEYS[1], ARGV[1], "nx", "px", ARGV[2]) then return 1 end return 0`
	redisRelease = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`
)

// redisLocks starts a redis-server that keeps nothing on disk, and locks as
// github.com/bsm/redislock does, with a client that does nothing else. It returns nil
// where there is no redis-server.
func redisLocks(b *testing.B) *lockWay {
	b.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		b.Log("no redis-server: its locks are not measured")
		return nil
	}
	socket := filepath.Join(b.TempDir(), "redis.sock")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr := listener.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	_ = listener.Close()
	cmd := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", filepath.Dir(socket))
	cmd.Stderr = os.Stderr
	done := make(chan struct{})
	if err := subprocess.Go(cmd, func() { _ = cmd.Wait(); close(done) }); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	idle := make(chan *redisConn, 256)
	b.Cleanup(func() {
		close(idle)
		for c := range idle {
			_ = c.Close()
		}
	})
	get := func() (*redisConn, error) {
		select {
		case c := <-idle:
			return c, nil
		default:
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				return nil, err
			}
			return &redisConn{conn, bufio.NewReader(conn)}, nil
		}
	}
	do := func(args ...string) (string, error) {
		c, err := get()
		if err != nil {
			return "", err
		}
		answer, err := c.do(args...)
		if err != nil {
			_ = c.Close()
			return "", err
		}
		idle <- c
		return answer, nil
	}
	until(b, "redis-server", func() bool { _, err := do("PING"); return err == nil })
	obtain, err := do("SCRIPT", "LOAD", redisObtain)
	if err != nil {
		b.Fatal(err)
	}
	release, err := do("SCRIPT", "LOAD", redisRelease)
	if err != nil {
		b.Fatal(err)
	}
	return &lockWay{"redis", func(_ context.Context, key string) error {
		owner := rand.Text()
		for _, script := range [][]string{{obtain, "1", key, owner, "15000"}, {release, "1", key, owner}} {
			if got, err := do(append([]string{"EVALSHA"}, script...)...); err != nil || got != "1" {
				return fmt.Errorf("redis: %q: %w", got, err)
			}
		}
		return nil
	}}
}

// redisConn is a connection to Redis.
type redisConn struct {
	net.Conn
	in *bufio.Reader
}

func (c *redisConn) do(args ...string) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(c, out.String()); err != nil {
		return "", err
	}
	line, err := c.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, rest := line[0], strings.TrimSpace(line[1:])
	switch kind {
	case '-':
		return "", errors.New(rest)
	case '$':
		size, err := strconv.Atoi(rest)
		if err != nil || size < 0 {
			return "", err
		}
		text := make([]byte, size+2)
		_, err = io.ReadFull(c.in, text)
		return string(text[:size]), err
	}
	return rest, nil
}
