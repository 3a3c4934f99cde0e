package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/internal/cuttext"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/refusal"
)

var _ store.Checker = (*Store)(nil)

var infoScript = newScript("info")

// Check implements [store.Checker]. It changes nothing, and needs no rights beyond those of the other methods. It
// refuses a server that evicts keys which never expire, or that is older than 5.0, with an error that matches
// [lease.ErrSetup]; and one that takes no writes, as a replica does, or refuses the login or what the user may not do,
// with an error that matches [lease.ErrNotReady] too. What else it takes to keep what the server has acknowledged,
// [Store.Examine] says.
func (s *Store) Check(ctx context.Context) error {
	is, err := s.info(ctx, false)
	switch {
	case err != nil:
		return err
	case is["role"] != "master":
		return fmt.Errorf("redisstore: check server: %w: it is a replica, which takes no writes: give the address of the primary", lease.ErrNotReady)
	case is.older(5, 0):
		return fmt.Errorf("redisstore: check server: %w: its version is %s: use 6.2 or later", lease.ErrSetup, is["redis_version"])
	case is.number("maxmemory") > 0 && strings.HasPrefix(is["maxmemory_policy"], "allkeys"):
		return fmt.Errorf("redisstore: check server: %w: maxmemory-policy is %s, which may delete leases and claims: set it to noeviction",
			lease.ErrSetup, is["maxmemory_policy"])
	}
	if _, err = s.info(ctx, true); err != nil {
		return err
	}
	return s.mayListen(ctx)
}

// subscribeLimit is how long a server may take to confirm a subscription if the context has no deadline.
const subscribeLimit = 5 * time.Second

// mayListen refuses a user without the right to subscribe: a script cannot try that, and signals would never come, without any error.
func (s *Store) mayListen(ctx context.Context) error {
	listening := s.client.Subscribe(ctx, s.key("notify", "nothing"))
	_, err := listening.ReceiveTimeout(ctx, subscribeLimit)
	if err = errors.Join(err, listening.Close()); err != nil {
		return fmt.Errorf("redisstore: check server: subscribe: %w", s.explain(err))
	}
	return nil
}

const (
	noSentinel = "the server is no sentinel: write redis:// instead of redis+sentinel://, without the name, or give the addresses of the sentinels"
	noScripts  = "if this is the port of a sentinel, write redis+sentinel:// instead of redis://, with the name of the primary; otherwise let the server know EVAL and EVALSHA"
)

const grant = "give the user what the documentation of the store names (ACL SETUSER)"

// refusals are the errors by which a server says that it does not do what was asked, for now, with what helps.
var refusals = []struct {
	code string
	is   error
	cure string
}{
	{"NOAUTH", lease.ErrDenied, "give a user and a password"},
	{"WRONGPASS", lease.ErrDenied, "check the user and the password"},
	{"NOPERM", lease.ErrNotReady, grant},
	// NOPERM in a script: since 7.2, and before.
	{"ACL failure in script:", lease.ErrNotReady, grant},
	{"The user executing the script", lease.ErrNotReady, grant},
	{"READONLY", lease.ErrNotReady, "give the address of the primary, or of the sentinels that know it"},
	{"NOREPLICAS", lease.ErrNotReady, "bring its replicas back, or lower min-replicas-to-write"},
	{"MISCONF", lease.ErrNotReady, "look at the server's log and its disk"},
	{"OOM", lease.ErrNotReady, "give the server more memory (maxmemory), or remove what is not needed"},
	{"MASTERDOWN", lease.ErrNotReady, "it is a replica: give the address of the primary"},
	{"ERR DB", lease.ErrNotReady, "give the number of a database that the server has (0 to 15 by default)"},
	{"ERR max number of clients", lease.ErrNotReady, "raise maxclients, or end connections that nobody needs"},
	{"LOADING", lease.ErrNotReady, "wait until the server has read its data"},
	{"CLUSTERDOWN", lease.ErrNotReady, "look at the cluster (redis-cli cluster info)"},
	{"MOVED", lease.ErrNotReady, "the server is one of a cluster: write redis+cluster:// instead of redis://, with its servers"},
	{"ERR This instance has cluster support disabled", lease.ErrNotReady, "the server is none of a cluster: write redis:// instead of redis+cluster://"},
	// A server that does not know the command of sentinels, and a sentinel that knows no scripts.
	{"ERR unknown command 'sentinel',", lease.ErrNotReady, noSentinel},
	{"ERR unknown command `sentinel`,", lease.ErrNotReady, noSentinel},
	{"ERR unknown command 'evalsha',", lease.ErrNotReady, noScripts},
	{"ERR unknown command `evalsha`,", lease.ErrNotReady, noScripts},
	{"ASK", lease.ErrNotReady, "wait until the cluster has moved the slot"},
	{"TRYAGAIN", lease.ErrNotReady, "wait until the cluster has moved the slot"},
}

// explain says of such an error what it means. Its text has no password, although a server may repeat what it was sent.
func (s *Store) explain(err error) error {
	if err == nil {
		return nil
	}
	err = s.hidden(err)
	if errors.Is(err, redis.Nil) { // see [isNil]
		return &refusal.Error{Is: lease.ErrNotReady, Answer: errors.New("the sentinels know no primary of that name"), Cure: "check the name after their addresses"}
	}
	for _, r := range refusals {
		if !saying(err, r.code) {
			continue
		}
		if errors.Is(r.is, lease.ErrDenied) && strings.Contains(err.Error(), "sentinels") {
			r.cure = "check sentinel_user and sentinel_password"
		}
		return &refusal.Error{Is: r.is, Answer: err, Cure: r.cure}
	}
	return err
}

// hidden takes out of an error what a server has repeated of a login.
func (s *Store) hidden(err error) error {
	lines := strings.Split(err.Error(), "\n") // one for each sentinel
	for i, line := range lines {
		lines[i], _, _ = strings.Cut(line, " with args beginning with") // of a command that the server does not know, such as AUTH
	}
	text := strings.Join(lines, "\n")
	if s.target != nil {
		for _, secret := range []string{s.target.secret(), s.target.sentinelPass} {
			if secret != "" {
				text = strings.ReplaceAll(text, secret, "(hidden)")
			}
		}
	}
	return cuttext.Error(err, text)
}

// saying reports whether an error has the code. Those of a script have text around it on some versions.
func saying(err error, code string) bool {
	return strings.Contains(" "+err.Error()+" ", " "+code+" ") || strings.Contains(err.Error(), "-"+code+" ")
}

// info is what the server says of itself.
type info map[string]string

// info asks the server, which fails if it takes no writes and writes is true.
func (s *Store) info(ctx context.Context, writes bool) (info, error) {
	f, err := s.fieldsOf(ctx, "check server", infoScript, flag(writes))
	if err != nil {
		return nil, err
	}
	is := info{}
	for len(f.values) > 0 {
		for line := range strings.Lines(f.text()) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				is[name] = value
			}
		}
	}
	return is, f.err
}

func (i info) number(name string) int64 {
	n, err := strconv.ParseInt(i[name], 10, 64)
	if err != nil {
		return 0 // not told
	}
	return n
}

// older reports whether the version is known to be lower.
func (i info) older(major, minor int) bool {
	var is [2]int
	if n, err := fmt.Sscanf(i["redis_version"], "%d.%d", &is[0], &is[1]); err != nil || n != 2 {
		return false
	}
	return is[0] < major || is[0] == major && is[1] < minor
}
