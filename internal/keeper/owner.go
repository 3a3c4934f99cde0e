package keeper

import (
	"cmp"
	"crypto/rand"
	"os"
	"strconv"
	"strings"

	"github.com/cronlease/cronlease/internal/names"
)

// NewOwner returns an owner name for one start of one process,
// "label/host/pid/random". It is never empty and never reused: a restarted
// process, or a second one with the same label, is another owner, so that no
// process can renew or release a predecessor's term. An empty label is
// replaced by "worker"; characters that names cannot have become "-".
func NewOwner(label string) string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	if label == "" {
		label = "worker"
	}
	return strings.Join([]string{namePart(label), namePart(host), strconv.Itoa(os.Getpid()), rand.Text()[:13]}, "/")
}

// namePart makes s fit for a part of a name. Two parts of 40 bytes, a pid and
// 13 random characters (65 bits) stay below MaxName.
func namePart(s string) string {
	const most = 40
	part := strings.Map(func(r rune) rune {
		if r != '/' && names.Valid("x"+string(r)) {
			return r
		}
		return '-'
	}, s)
	part = strings.TrimLeft(part, "._:@+-")
	return cmp.Or(part[:min(len(part), most)], "x")
}
