package peers

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/redisserver"
	"github.com/cronlease/cronlease/internal/zkserver"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(playerVariable); spec != "" {
		if err := play(spec); err != nil {
			fmt.Fprintln(os.Stderr, "player:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// onServers runs a test on a Redis that writes nothing to its disk, as it is mostly run, and on a ZooKeeper.
func onServers[B interface {
	testing.TB
	Run(name string, f func(B)) bool
}](b B, f func(b B, addr string, openers []opener),
) {
	onRedis(b, "redis", f)
	b.Run("zookeeper", func(b B) {
		program, err := zkserver.Find()
		if err != nil {
			b.Fatal(err)
		}
		s := zkserver.New(program)
		begin(b, s)
		f(b, s.Addr(), zkOpeners)
	})
}

// onRedis runs a test on a Redis with these arguments.
func onRedis[B interface {
	testing.TB
	Run(name string, f func(B)) bool
}](b B, name string, f func(b B, addr string, openers []opener), args ...string,
) {
	b.Run(name, func(b B) {
		program, err := redisserver.Find()
		if err != nil {
			b.Fatal(err)
		}
		s := redisserver.New(program, append([]string{"--save", "", "--appendonly", "no"}, args...)...)
		begin(b, s)
		f(b, s.Addr(), redisOpeners)
	})
}

// measureOnServers is onServers, with a Redis besides that keeps on its disk what it has answered, as our guarantees ask for.
func measureOnServers(b *testing.B, f func(b *testing.B, addr string, openers []opener)) {
	onServers(b, f)
	onRedis(b, "redis, appendfsync always", f, "--appendonly", "yes", "--appendfsync", "always")
}

// begin starts a server that ends with the test.
func begin(b testing.TB, s interface {
	Start(ctx context.Context) error
	Close() error
}) {
	b.Helper()
	if err := s.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
}
