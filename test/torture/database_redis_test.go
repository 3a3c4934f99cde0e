package torture

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/redisserver"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store/redisstore"
)

// redisDatabase is a server of Redis that keeps what it has acknowledged, or a primary with replicas.
type redisDatabase struct {
	round *round
	nodes []*redisserver.Server
	// admins are for the round's own commands, one for each node.
	admins []*redis.Client
	// password is that of the players, which read it from the file.
	password, file string
	// replicas is how many the primary needs to take writes.
	replicas int

	mu      sync.Mutex // guards primary
	primary int
}

// Keys of the store.
const (
	redisLease = redisstore.DefaultName + ":lease:" + Group
	redisFence = redisstore.DefaultName + ":fence:" + Group
)

// redisRights are those that the documentation names for a user of the store, with the players' own keys.
const redisRights = "~* &* +@all -@admin -@dangerous +info"

// newRedisDatabase starts so many servers, which know nothing of each other.
func newRedisDatabase(t testing.TB, r *round, servers int, args ...string) *redisDatabase {
	t.Helper()
	d := &redisDatabase{round: r, password: "first", file: filepath.Join(t.TempDir(), "password")}
	r.tellPassword(d.file, d.password)
	program, err := redisserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	for range servers {
		users := filepath.Join(t.TempDir(), "users.acl")
		text := "user default on nopass ~* &* +@all\nuser player on >" + d.password + " " + redisRights + "\n"
		if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		own := []string{"--appendfsync", "always", "--aclfile", users, "--lua-time-limit", "100", "--repl-diskless-sync-delay", "0"}
		node := redisserver.New(program, append(own, args...)...)
		startRedis(t, node)
		admin := redis.NewClient(&redis.Options{Addr: node.Addr()})
		t.Cleanup(func() { _ = admin.Close() }) // its server may have gone
		d.nodes, d.admins = append(d.nodes, node), append(d.admins, admin)
	}
	return d
}

// startRedis starts a server that ends with the test.
func startRedis(t testing.TB, s *redisserver.Server) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// redis is the database of a fault that only servers of Redis have.
func (r *round) redis() *redisDatabase {
	if d, ok := r.database.(*sentinelDatabase); ok {
		return d.redisDatabase
	}
	return r.database.(*redisDatabase)
}

// main is the place of the primary.
func (d *redisDatabase) main() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.primary
}

// admin is for commands to the primary.
func (d *redisDatabase) admin() *redis.Client { return d.admins[d.main()] }

func (d *redisDatabase) addrs(int) []string { return []string{d.nodes[0].Addr()} }

func (d *redisDatabase) proxy(t testing.TB, addr string) *dbtest.Proxy {
	return dbtest.NewRedisProxy(t, addr)
}

func (d *redisDatabase) dsn(addrs []string) string {
	return "redis://player@" + addrs[0] + "/0?password_file=" + d.file
}

func (d *redisDatabase) isGalera() bool { return false }

func (d *redisDatabase) isPair() bool { return false }

func (d *redisDatabase) clock() clock { return nil }

func (d *redisDatabase) faults() []fault { return redisFaults }

// isLone says that a server of Redis has no replicas, and nobody who would promote one.
func isLone(d database) bool {
	_, is := d.(*redisDatabase)
	return is
}

func (d *redisDatabase) late() (fault, bool) { return fault{}, false }

func (d *redisDatabase) texts() []string { return []string{"", "evalsha", "exec", "watch", Group} }

func (d *redisDatabase) open(*rand.Rand) (operated, error) {
	return redisstore.Open("redis://" + d.nodes[0].Addr())
}

// cutLeader ends all connections that listen: those of followers too, which listen again. It returns how many there were.
func (d *redisDatabase) cutLeader() (n int) { return d.killConnections("TYPE", "pubsub") }

// killConnections ends connections of the players, and returns how many it ended.
func (d *redisDatabase) killConnections(which ...string) (n int) {
	if !d.nodes[d.main()].Running() {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	killed, err := d.admin().ClientKillByFilter(ctx, append([]string{"USER", "player"}, which...)...).Result()
	if err != nil {
		return 0 // the server is being killed, or stands still
	}
	return int(killed)
}

// try executes what must work on a primary that works.
func (d *redisDatabase) try(args ...any) { d.tryOn(d.admin(), args...) }

func (d *redisDatabase) tryOn(admin *redis.Client, args ...any) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := admin.Do(ctx, args...).Err(); err != nil {
		d.round.broken("%v: %v", args, err)
	}
}

// each calls f with the rows of all ticks, and what they have in these fields.
func (d *redisDatabase) each(ctx context.Context, f func(r Row, fields map[string]string)) error {
	entries, err := d.admin().ZRange(ctx, redisstore.DefaultName+":all:"+Group, 0, -1).Result()
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	for _, entry := range entries {
		parts := strings.Split(entry, " ") // tick, job, trigger
		if len(parts) != 3 {
			return fmt.Errorf("read the ledger: entry %q", entry)
		}
		tick, err := strconv.ParseInt(parts[0], 10, 64)
		if err != nil {
			return fmt.Errorf("read the ledger: entry %q: %w", entry, err)
		}
		trigger, err := strconv.ParseUint(parts[2], 10, 64)
		if err != nil {
			return fmt.Errorf("read the ledger: entry %q: %w", entry, err)
		}
		name := nameOf(parts[1], trigger)
		if name == "" {
			continue
		}
		key := redisstore.DefaultName + ":run:" + Group + " " + parts[1] + " " + parts[0] + " " + parts[2]
		fields, err := d.admin().HGetAll(ctx, key).Result()
		if err != nil {
			return fmt.Errorf("read the ledger: %w", err)
		}
		const offset = 1_000_000_000_000_000_000 // of the ticks of keys
		r := Row{Job: name, Tick: tick - offset, Owner: fields["owner"], Text: fields["error"]}
		for name, to := range map[string]func(uint64){
			"state":   func(n uint64) { r.State = jobs.State(n).String() },
			"token":   func(n uint64) { r.Token = n },
			"attempt": func(n uint64) { r.Attempt = int(n) }, //nolint:gosec // a small number
		} {
			text := cmp.Or(fields[name], "0")
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return fmt.Errorf("read the ledger: %s of %s: %w", name, key, err)
			}
			to(n)
		}
		f(r, fields)
	}
	return nil
}

func (d *redisDatabase) heldBack(ctx context.Context) (n int, err error) {
	err = d.each(ctx, func(r Row, fields map[string]string) {
		if r.Text == "paused" {
			missed, _ := strconv.Atoi(fields["missed"]) // absent: 0
			n += missed + 1
		}
	})
	return n, err
}

func (d *redisDatabase) left(ctx context.Context, to time.Time) (n int, err error) {
	err = d.each(ctx, func(r Row, _ map[string]string) {
		if state, err := jobs.ParseState(r.State); r.Job != "hold" && r.Tick <= to.UnixMicro() && (err != nil || !state.Over()) {
			n++
		}
	})
	return n, err
}

func (d *redisDatabase) read(ctx context.Context) (rows []Row, effects []Effect, err error) {
	if err := d.each(ctx, func(r Row, _ map[string]string) { rows = append(rows, r) }); err != nil {
		return nil, nil, err
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Tick, b.Tick)) })
	for _, p := range Policies {
		list, err := d.admin().LRange(ctx, redisEffects(p.Job), 0, -1).Result()
		if err != nil {
			return nil, nil, fmt.Errorf("read the effects: %w", err)
		}
		for i, text := range list {
			var e Effect
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				return nil, nil, fmt.Errorf("read the effects: %w", err)
			}
			e.Seq = uint64(i) + 1
			effects = append(effects, e)
		}
	}
	return rows, effects, nil
}

// redisRow is a hash as it was.
func (d *redisDatabase) redisRow(key string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	row, err := d.admin().HGetAll(ctx, key).Result()
	if err == nil && len(row) == 0 {
		err = errors.New("it is not there")
	}
	return row, err
}
