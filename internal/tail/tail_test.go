package tail_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/cronlease/cronlease/internal/tail"
)

func TestTailIsTheEnd(t *testing.T) {
	t.Parallel()
	for range 200 {
		most := 1 + rand.IntN(20)
		kept := tail.New(most)
		var all []byte
		for range rand.IntN(30) {
			p := make([]byte, rand.IntN(3*most))
			for i := range p {
				p[i] = byte(rand.Uint32())
			}
			if n, err := kept.Write(p); n != len(p) || err != nil {
				t.Fatalf("Write of %d: %d, %v", len(p), n, err)
			}
			all = append(all, p...)
			if want := all[max(0, len(all)-most):]; !bytes.Equal(kept.Bytes(), want) {
				t.Fatalf("of %d bytes, at most %d: %x, want %x", len(all), most, kept.Bytes(), want)
			}
		}
	}
	if got := tail.New(5).Bytes(); got != nil {
		t.Errorf("nothing was written: %x, want nil", got)
	}
	if tail.Of(t.Context()) != nil {
		t.Error("a context without a tail has one")
	}
}
