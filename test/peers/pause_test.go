package peers

import (
	"context"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/subprocess"
)

// A holder that stands still for longer than its lock lasts is replaced, with each way. When it goes on, only one of
// them tells it, and has a number that grows from holder to holder, by which what it writes to can refuse it.
func TestPausedHolder(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, addr string, openers []opener) {
		for _, o := range openers {
			t.Run(o.name, func(t *testing.T) {
				t.Parallel()
				p := startPlayer(t, o, addr)
				if err := subprocess.Suspend(p.cmd.Process); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				l, err := o.open(t, addr).lock(ctx, o.name)
				if err != nil {
					t.Fatal(err)
				}
				if err := subprocess.Resume(p.cmd.Process); err != nil {
					t.Fatal(err)
				}
				told := p.says() == "lost"
				grows := l.token > p.token
				if is := o.name == "ours"; told != is || grows != is {
					t.Errorf("told: %v, with a token that grows: %v", told, grows)
				}
				if err := l.unlock(ctx); err != nil {
					t.Error(err)
				}
			})
		}
	})
}
