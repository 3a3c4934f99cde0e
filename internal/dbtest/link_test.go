package dbtest

import (
	"slices"
	"testing"
)

func TestSplitterFindsRequests(t *testing.T) {
	t.Parallel()
	// A login (the second packet of an exchange, whose first byte looks like a command), two requests, an empty packet.
	stream := []byte("\x02\x00\x00\x01\x03x" + "\x04\x00\x00\x00\x03one" + "\x04\x00\x00\x00\x16two" + "\x00\x00\x00\x00")
	want := []string{"\x03one", "\x16two"}
	for size := 1; size <= len(stream); size++ {
		var packets splitter
		var got []string
		for piece := range slices.Chunk(stream, size) {
			for _, packet := range packets.add(piece) {
				got = append(got, string(packet))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pieces of %d: %q, want %q", size, got, want)
		}
	}
}
