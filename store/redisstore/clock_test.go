package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/store/redisstore"
)

// steppedClock has all scripts of a client add a number, which the store's keys have, to the server's clock, and
// another one to its identity; and puts a flaw into one.
type steppedClock struct{ flaw flaw }

const (
	serverClock = "return t[1] .. string.sub('000000' .. t[2], -6)"
	serverIs    = "then return history end"
	otherIs     = "then return history .. (redis.call('GET', KEYS[1] .. ':restarted') or '') end"
	otherClock  = "return string.format('%.0f', t[1] * 1000000 + t[2] + tonumber(redis.call('GET', KEYS[1] .. ':stepped') or 0))"
)

// noScriptError has the client send the text of a script.
type noScriptError struct{}

func (noScriptError) Error() string { return "NOSCRIPT not used here" }
func (noScriptError) RedisError()   {}

func (steppedClock) DialHook(next redis.DialHook) redis.DialHook { return next }

func (steppedClock) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c steppedClock) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch args := cmd.Args(); args[0] {
		case "evalsha":
			cmd.SetErr(noScriptError{})
			return noScriptError{}
		case "eval":
			text := args[1].(string)
			if !strings.Contains(text, serverClock) || !strings.Contains(text, serverIs) {
				panic("the scripts read the clock, or the server's identity, in another way than this test knows")
			}
			if c.flaw.from != "" {
				text = strings.Replace(text, c.flaw.from, c.flaw.to, 1)
			}
			args[1] = strings.Replace(strings.Replace(text, serverClock, otherClock, 1), serverIs, otherIs, 1)
		}
		return next(ctx, cmd)
	}
}

// openFlawed opens a store whose clock stepClock steps, whose server restart starts anew, and that has a flaw.
func openFlawed(t testing.TB, addr, name string, f flaw) *redisstore.Store {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1})
	client.AddHook(steppedClock{f})
	s, err := redisstore.New(client, redisstore.WithName(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// restart has the server show another identity to the stores of that name, as after a restart.
func restart(t testing.TB, client *redis.Client, name string) {
	t.Helper()
	if err := client.Incr(context.Background(), name+":restarted").Err(); err != nil {
		t.Fatal(err)
	}
}

func stepClock(t testing.TB, client *redis.Client, name string, by time.Duration) {
	t.Helper()
	if err := client.IncrBy(context.Background(), name+":stepped", by.Microseconds()).Err(); err != nil {
		t.Fatal(err)
	}
}
