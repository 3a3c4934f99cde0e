package cron_test

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs/cron"
)

// A vector is a line of testdata: what an engine answers.
type vector struct {
	line                            int
	dialect, expression, zone, from string
	want                            []string // instants, or one of never and error
}

func (v vector) key() string {
	return strings.Join([]string{v.dialect, v.expression, v.zone, v.from}, "\t")
}

func readVectors(t *testing.T, name string) (vectors []vector) {
	t.Helper()
	for i, f := range readTable(t, name) {
		vectors = append(vectors, vector{i + 1, f[0], f[1], f[2], f[3], strings.Fields(f[4])})
	}
	return vectors
}

func readTable(t *testing.T, name string) (rows [][]string) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "#") {
			rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
		}
	}
	return rows
}

// TestVectors compares with answers of the engines of Spring Framework 7 and Quartz 2.3.2. Those that cannot be met are
// in cron_deviations.tsv, each with its reason; it may list no others.
func TestVectors(t *testing.T) {
	t.Parallel()
	vectors := readVectors(t, "cron_vectors.tsv")
	if len(vectors) != 800 {
		t.Fatalf("%d vectors, want 800", len(vectors))
	}
	deviations := make(map[string]int)
	for _, f := range readTable(t, "cron_deviations.tsv") {
		agree, err := strconv.Atoi(f[4])
		if err != nil || f[5] == "" {
			t.Fatalf("deviation %q: want a number and a reason", f)
		}
		key := strings.Join(f[:4], "\t")
		if !slices.ContainsFunc(vectors, func(v vector) bool { return v.key() == key }) {
			t.Errorf("deviation of no vector: %s", key)
		}
		deviations[key] = agree
	}
	compare(t, vectors, deviations)
}

// TestDSTVectors compares with answers of the same engines near changes of the clocks, where the other vectors are few.
func TestDSTVectors(t *testing.T) {
	t.Parallel()
	compare(t, readVectors(t, "dst_vectors.tsv"), nil)
}

func compare(t *testing.T, vectors []vector, deviations map[string]int) {
	groups := make(map[string][]vector)
	for _, v := range vectors {
		name := v.dialect + "/" + v.zone
		groups[name] = append(groups[name], v)
	}
	for name, group := range groups {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, v := range group {
				got := answer(t, v)
				agree := 0
				for agree < min(len(got), len(v.want)) && got[agree] == v.want[agree] {
					agree++
				}
				want := len(v.want)
				if n, ok := deviations[v.key()]; ok {
					want = n
				}
				if agree != want || want == len(v.want) && len(got) != want {
					t.Errorf("line %d: %q from %s\n got %s\nwant %s\n%d answers agree, want %d",
						v.line, v.expression, v.from, got, v.want, agree, want)
				}
			}
		})
	}
}

func answer(t *testing.T, v vector) (got []string) {
	dialect, err := cron.ParseDialect(v.dialect)
	if err != nil {
		t.Fatal(err)
	}
	e, err := cron.Parse(v.expression, cron.WithDialect(dialect), cron.In(location(t, v.zone)), cron.WithDST(cron.Native))
	if err != nil {
		var refused *cron.Error
		if !errors.As(err, &refused) || refused.Field == "" || refused.Reason == "" {
			t.Errorf("line %d: %q: error %v points at no field", v.line, v.expression, err)
		} else if !strings.HasPrefix(v.expression[refused.Offset:], refused.Text) {
			t.Errorf("line %d: %q: error %v points at the wrong place %d", v.line, v.expression, err, refused.Offset)
		}
		return []string{"error"}
	}
	for _, next := range chain(e, at(t, v.from), max(1, len(v.want))) {
		got = append(got, next.Format(time.RFC3339))
	}
	if len(got) == 0 {
		return []string{"never"}
	}
	return got
}
