package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/examining"
)

var _ store.Examiner = (*Store)(nil)

// Examine implements [store.Examiner]. It needs no rights beyond those of the other methods, but for CONFIG GET:
// without that it does not know how often the server writes to its disk, nor whether writes wait for replicas.
func (s *Store) Examine(ctx context.Context, ttl time.Duration) []store.Finding {
	return examining.Run(ctx, ttl, failedFinding,
		examining.Step{Check: "server", Look: s.examineServer}, examining.Step{Check: "memory", Look: s.examineMemory},
		examining.Step{Check: "durability", Look: s.examineDurability}, examining.Step{Check: "replication", Look: s.examineReplication},
		examining.Step{Check: "commits", Look: s.examineCommits})
}

// failedFinding is what an error says. Those of Check name the cure in their last part.
func failedFinding(err error, first bool) (f store.Finding, over bool) {
	f = examining.Refused(err, err.Error(), "redisstore: ", "check server: ")
	if over = first && f.Grade == store.Unknown; over { // each step would wait in vain
		f = silentFinding(err)
	}
	return f, over
}

// silentFinding is what an error says that is no refusal by the server.
func silentFinding(err error) store.Finding {
	f := store.Finding{
		Grade: store.Problem, Text: "the server does not answer: " + err.Error(),
		Cure: "look whether it runs, at its address, and at the way to it",
	}
	// A server that wants a certificate of the client may say so only after the handshake.
	handshake, alert := (*handshakeError)(nil), (*net.OpError)(nil)
	if errors.As(err, &handshake) || errors.As(err, &alert) && alert.Op == "remote error" {
		f.Text = "there is no TLS with the server: " + err.Error()
		f.Cure = "write redis instead of rediss if this port takes no TLS; otherwise look at the certificates, and at ca, cert, key and server_name"
	} else if errors.Is(err, errUnwanted) {
		f.Text = "the server closes the connection: " + err.Error()
		f.Cure = "write rediss instead of redis if this port expects TLS, or raise maxclients if it has no connection left; otherwise look at the server's log"
	}
	return f
}

func (s *Store) examineServer(ctx context.Context, _ time.Duration) (store.Finding, error) {
	if err := s.Check(ctx); err != nil {
		return store.Finding{}, err
	}
	is, err := s.info(ctx, false)
	if err != nil {
		return store.Finding{}, err
	}
	return judgeServer(is), nil
}

func judgeServer(is info) store.Finding {
	name := "Redis " + is["redis_version"]
	if is["valkey_version"] != "" {
		name = "Valkey " + is["valkey_version"]
	}
	f := store.Finding{Text: name + ", a primary"}
	if is.older(6, 2) {
		f.Grade, f.Text, f.Cure = store.Warning, name+" gets no fixes any more", "use 6.2 or later"
	}
	return f
}

func (s *Store) examineMemory(ctx context.Context, _ time.Duration) (store.Finding, error) {
	is, err := s.info(ctx, false)
	return judgeMemory(is), err
}

func judgeMemory(is info) store.Finding {
	used, most := is.number("used_memory"), is.number("maxmemory")
	if most == 0 {
		return store.Finding{Text: mebibytes(used) + " used, without a limit"}
	}
	f := store.Finding{Text: fmt.Sprintf("%s of %s used, %s", mebibytes(used), mebibytes(most), is["maxmemory_policy"])}
	switch {
	case used >= most:
		f.Grade, f.Text, f.Cure = store.Problem, "the server is full: "+f.Text, "give the server more memory, or keep less history"
	case used > most/10*9:
		f.Grade, f.Cure = store.Warning, "give the server more memory, or keep less history: no lease can be renewed once it is full"
	}
	return f
}

// mebibytes writes a size of memory, with a digit after the point where it is small.
func mebibytes(n int64) string {
	if n < 10<<20 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// setting reads a setting; the error says that it cannot be seen.
func (s *Store) setting(ctx context.Context, name string) (string, error) {
	all, err := ask(ctx, s, func(c redis.UniversalClient) (map[string]string, error) { return c.ConfigGet(ctx, name).Result() })
	if err != nil {
		return "", fmt.Errorf("redisstore: read the setting %s: %w", name, err)
	}
	value, ok := all[name]
	if !ok {
		return "", fmt.Errorf("redisstore: read the setting %s: the server does not tell", name)
	}
	return value, nil
}

func (s *Store) examineDurability(ctx context.Context, _ time.Duration) (store.Finding, error) {
	is, err := s.info(ctx, false)
	if err != nil {
		return store.Finding{}, err
	}
	sync, err := s.setting(ctx, "appendfsync")
	return judgeDurability(is, sync, err), nil
}

// judgeDurability judges what a crash loses; unseen says why appendfsync cannot be seen.
func judgeDurability(is info, sync string, unseen error) store.Finding {
	const twice = ", and ticks may run twice"
	switch {
	case is["aof_enabled"] != "1":
		return store.Finding{
			Grade: store.Warning, Text: "there is no append-only file: a crash of the server loses all since its last snapshot: claims, history, pauses" + twice,
			Cure: "set appendonly to yes and appendfsync to always",
		}
	case is["aof_last_write_status"] == "err":
		return store.Finding{Grade: store.Problem, Text: "the server cannot write its append-only file", Cure: "look at its log and its disk"}
	case unseen != nil:
		return store.Finding{Grade: store.Unknown, Text: "there is an append-only file; how often it is written to the disk cannot be seen: " + unseen.Error()}
	case sync != "always":
		return store.Finding{
			Grade: store.Warning, Text: "appendfsync is " + sync + ": a crash of the server's machine loses the last claims" + twice,
			Cure: "set appendfsync to always",
		}
	}
	return store.Finding{Text: "append-only file, written to the disk before each answer"}
}

func (s *Store) examineReplication(ctx context.Context, _ time.Duration) (store.Finding, error) {
	is, err := s.info(ctx, false)
	if err != nil {
		return store.Finding{}, err
	}
	least, err := s.setting(ctx, "min-replicas-to-write")
	return judgeReplication(is, least, err), nil
}

// judgeReplication judges what a failover loses; unseen says why min-replicas-to-write cannot be seen.
func judgeReplication(is info, least string, unseen error) store.Finding {
	replicas := is.number("connected_slaves")
	switch {
	case replicas == 0:
		return store.Finding{Text: "no replicas"}
	case unseen != nil:
		return store.Finding{Grade: store.Unknown, Text: fmt.Sprintf("%d replicas; whether writes need them cannot be seen: %v", replicas, unseen)}
	case least == "0":
		return store.Finding{
			Grade: store.Warning, Text: "min-replicas-to-write is 0: a primary that is cut off goes on to take claims, which the failover loses, and ticks may run twice",
			Cure: "set min-replicas-to-write to 1 or more, and min-replicas-max-lag to a few seconds",
		}
	}
	return store.Finding{Text: fmt.Sprintf("%d replicas, of which writes need %s", replicas, least)}
}

// examineCommits measures how long a write takes, with a key of its own, which expires if it cannot be deleted.
func (s *Store) examineCommits(ctx context.Context, ttl time.Duration) (store.Finding, error) {
	key := s.key("examined", rand.Text())
	took, err := examining.Measure(func() error {
		return s.onPrimary(ctx, func(c redis.UniversalClient) error { return c.Set(ctx, key, "", time.Minute).Err() })
	})
	if err != nil {
		return store.Finding{}, s.failed(ctx, "measure commits", err)
	}
	if err := s.onPrimary(ctx, func(c redis.UniversalClient) error { return c.Del(ctx, key).Err() }); err != nil {
		return store.Finding{}, s.failed(ctx, "measure commits", err)
	}
	return took.Finding(ttl, "writes", "look at the network, the disk, and the slow log"), nil
}
