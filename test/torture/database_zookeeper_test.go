package torture

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // ZooKeeper's digests are of that
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/zkserver"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store/zkstore"
)

// zookeeperDatabase is an ensemble of three.
type zookeeperDatabase struct {
	round   *round
	servers []*zkserver.Server
	admin   *zk.Conn // its user may do everything
}

// Nodes of the store.
const (
	zookeeperLease   = zkstore.DefaultRoot + "/leases/" + Group
	zookeeperFence   = zkstore.DefaultRoot + "/fences/" + Group
	zookeeperLedger  = zkstore.DefaultRoot + "/ledgers/" + Group
	zookeeperPresent = zkstore.DefaultRoot + "/present"
	zookeeperClock   = zkstore.DefaultRoot + "/clock"
	zookeeperID      = zkstore.DefaultRoot + "/id"
)

// zookeeperSuper is the name and the password of the user who may do everything.
const zookeeperSuper = "super:super"

func newZooKeeperDatabase(t testing.TB, r *round) *zookeeperDatabase {
	t.Helper()
	program, err := zkserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	digest := sha1.Sum([]byte(zookeeperSuper)) //nolint:gosec // see above
	// No machine crashes, so that nothing has to be on the disks.
	d := &zookeeperDatabase{round: r, servers: zkserver.NewEnsemble(program, 3, "-Dzookeeper.forceSync=no",
		"-Dzookeeper.DigestAuthenticationProvider.superDigest=super:"+base64.StdEncoding.EncodeToString(digest[:]))}
	for _, server := range d.servers {
		t.Cleanup(func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	d.whole()
	d.admin, _, err = zk.Connect(d.addrs(0), 10*time.Second, zk.WithLogger(quiet{}), zk.WithDialer(net.DialTimeout))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.admin.Close)
	if err := d.admin.AddAuth("digest", []byte(zookeeperSuper)); err != nil {
		t.Fatal(err)
	}
	paths := []string{zookeeperEffects, zookeeperTicks}
	for _, p := range Policies {
		paths = append(paths, zookeeperEffects+"/"+p.Job)
	}
	for _, path := range paths {
		if _, err := d.admin.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// quiet is a logger that logs nothing: connections are broken on purpose.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// zookeeper is the database of a fault that only an ensemble of ZooKeeper has.
func (r *round) zookeeper() *zookeeperDatabase { return r.database.(*zookeeperDatabase) }

func (d *zookeeperDatabase) addrs(int) (all []string) {
	for _, server := range d.servers {
		all = append(all, server.Addr())
	}
	return all
}

func (d *zookeeperDatabase) proxy(t testing.TB, addr string) *dbtest.Proxy {
	return dbtest.NewZooKeeperProxy(t, addr)
}

func (d *zookeeperDatabase) dsn(addrs []string) string {
	return "zk://player:first@" + strings.Join(addrs, ",")
}

func (d *zookeeperDatabase) isGalera() bool { return false }

func (d *zookeeperDatabase) isPair() bool { return false }

func (d *zookeeperDatabase) clock() clock { return nil }

func (d *zookeeperDatabase) faults() []fault { return zookeeperFaults }

func (d *zookeeperDatabase) late() (fault, bool) { return fault{}, false }

func (d *zookeeperDatabase) texts() []string {
	return []string{"", "/clock", "/leases", "/ledgers", "/fences", zookeeperEffects}
}

func (d *zookeeperDatabase) open(*rand.Rand) (operated, error) { return d.store() }

// store is one of the players' user, without a proxy.
func (d *zookeeperDatabase) store() (*zkstore.Store, error) {
	return zkstore.Open(d.dsn(d.addrs(0)), zkstore.WithSessionTimeout(zookeeperSession))
}

// cutLeader deletes what shows that the leader is there, as the end of its session would.
func (d *zookeeperDatabase) cutLeader() (n int) {
	cut := make(chan int, 1)
	go func() {
		n := 0
		names, _, err := d.admin.Children(zookeeperPresent)
		for _, name := range names {
			if err == nil && strings.HasPrefix(name, Group+"~") && d.admin.Delete(zookeeperPresent+"/"+name, -1) == nil {
				n++
			}
		}
		cut <- n
	}()
	select {
	case n := <-cut:
		return n
	case <-time.After(d.round.ttl / 4):
		return 0 // the ensemble is being broken
	}
}

// try does what must work on an ensemble that works, and repeats it while it does not.
func (d *zookeeperDatabase) try(what string, do func() error) {
	for begin := time.Now(); ; d.round.rest(100 * time.Millisecond) {
		ended := make(chan error, 1)
		go func() { ended <- do() }()
		var err error
		select {
		case err = <-ended:
		case <-time.After(patience):
			err = context.DeadlineExceeded
		}
		if err == nil {
			return
		}
		if time.Since(begin) > patience {
			d.round.broken("%s: %v", what, err)
			return
		}
	}
}

// runs are the runs of all ticks.
func (d *zookeeperDatabase) runs(ctx context.Context) ([]jobs.Record, error) {
	store, err := d.store()
	if err != nil {
		return nil, err
	}
	defer store.Close()
	const most = 1_000_000
	runs, err := store.Runs(ctx, Group, jobs.Filter{Limit: most})
	for i := range runs {
		runs[i].Job = nameOf(runs[i].Job, runs[i].Trigger)
	}
	return slices.DeleteFunc(runs, func(r jobs.Record) bool { return r.Job == "" }), err
}

func (d *zookeeperDatabase) heldBack(ctx context.Context) (n int, err error) {
	runs, err := d.runs(ctx)
	for _, r := range runs {
		if r.Error == "paused" {
			n += r.Missed + 1
		}
	}
	return n, err
}

func (d *zookeeperDatabase) left(ctx context.Context, to time.Time) (n int, err error) {
	runs, err := d.runs(ctx)
	for _, r := range runs {
		if r.Job != "hold" && !r.Tick.After(to) && !r.State.Over() {
			n++
		}
	}
	return n, err
}

func (d *zookeeperDatabase) read(ctx context.Context) (rows []Row, effects []Effect, err error) {
	runs, err := d.runs(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("read the ledger: %w", err)
	}
	for _, r := range runs {
		rows = append(rows, Row{Job: r.Job, Tick: r.Tick.UnixMicro(), State: r.State.String(), Owner: r.Owner, Token: r.Token, Attempt: r.Attempt, Text: r.Error})
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Tick, b.Tick)) })
	for _, p := range Policies {
		names, _, err := d.admin.Children(zookeeperEffects + "/" + p.Job)
		if err != nil {
			return nil, nil, fmt.Errorf("read the effects: %w", err)
		}
		for _, name := range names {
			text, _, err := d.admin.Get(zookeeperEffects + "/" + p.Job + "/" + name)
			if err != nil {
				return nil, nil, fmt.Errorf("read the effects: %w", err)
			}
			var e Effect
			if err := json.Unmarshal(text, &e); err != nil {
				return nil, nil, fmt.Errorf("read the effects: %w", err)
			}
			effects = append(effects, e)
		}
	}
	return rows, effects, nil
}
