package outbox

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, time.March, 28, 12, 0, 0, 0, time.UTC)

var errRejected = errors.New("rejected")

// rows is a write of a job, by the numbers of its rows.
type rows struct {
	job     string
	numbers []int
}

func (r rows) Name() string { return r.job }
func (r rows) Rows() int    { return len(r.numbers) }

func (r rows) Cut() (parts []rows) {
	if len(r.numbers) == 1 {
		return nil
	}
	for part := range slices.Chunk(r.numbers, (len(r.numbers)+3)/4) {
		parts = append(parts, rows{r.job, part})
	}
	return parts
}

// of are writes of jobs with these names, of one row each.
func of(names string) (all []rows) {
	for _, name := range strings.Fields(names) {
		all = append(all, rows{name, []int{1}})
	}
	return all
}

func text(part []rows) string {
	var names []string
	for _, w := range part {
		names = append(names, w.job)
	}
	return strings.Join(names, " ")
}

// steady waits a tenth of a second after each failure.
func steady() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMultiplier(1), backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0))
}

// box is an outbox with a clock.
type box struct {
	*Outbox[rows]
	t   *testing.T
	now time.Time
}

func newBox(t *testing.T, most int, writes ...rows) *box {
	t.Helper()
	b := &box{New[rows](most, steady()), t, noon}
	for _, w := range writes {
		b.Add(w)
	}
	return b
}

// want takes the next statement, which has to be of those jobs.
func (b *box) want(names string) *Batch[rows] {
	b.t.Helper()
	batch := b.Next(b.now, 1)
	if batch == nil {
		b.t.Fatalf("nothing is sent, want %s", names)
	}
	if got := text(batch.Part); got != names {
		b.t.Fatalf("sends %q, want %q", got, names)
	}
	return batch
}

func (b *box) nothing() {
	b.t.Helper()
	if batch := b.Next(b.now, 1); batch != nil {
		b.t.Fatalf("sends %q", text(batch.Part))
	}
}

func (b *box) works(batch *Batch[rows]) bool {
	b.now = b.now.Add(time.Millisecond)
	return b.Succeeded(batch, b.now)
}

func (b *box) fails(batch *Batch[rows]) Trouble {
	b.now = b.now.Add(time.Millisecond)
	return b.Failed(batch, Failure{Err: errRejected}, b.now)
}

// A statement has as many rows as may be, and one write at least.
func TestStatementsAreCut(t *testing.T) {
	t.Parallel()
	b := newBox(t, 3, append(of("a b c d"), rows{"e", []int{1, 2, 3, 4}}, rows{"f", []int{1}})...)
	if len(b.Fresh()) != 6 || b.IsIdle() || b.IsSettled() || b.IsSending() {
		t.Errorf("%d are new", len(b.Fresh()))
	}
	for _, names := range []string{"a b c", "d", "e", "f"} {
		batch := b.want(names)
		if !b.IsSending() || b.IsSettled() {
			t.Errorf("%s: while it is sent, nothing is", names)
		}
		b.works(batch)
	}
	b.nothing()
	if !b.IsIdle() || b.IsSending() {
		t.Error("something is left")
	}
	b.Add(of("g")[0])
	if fresh := b.TakeFresh(); text(fresh) != "g" || !b.IsIdle() {
		t.Errorf("%v", fresh)
	}
}

// No more statements are under way than may be, and new writes and those that failed take turns.
func TestTurns(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, of("a b")...)
	first := b.want("a")
	b.nothing()
	b.fails(first)
	b.nothing() // it waits
	b.now = b.now.Add(time.Second)
	b.works(b.want("a"))
	second := b.want("b")
	b.fails(second)
	b.Add(of("c")[0])
	b.Add(of("d")[0])
	b.now = b.now.Add(time.Second)
	for _, name := range []string{"b", "c"} {
		b.works(b.want(name))
	}
	b.works(b.want("d"))
}

func TestTurnsOfFailures(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, of("a b c d")...)
	one, two := b.Next(b.now, 2), b.Next(b.now, 2)
	if text(one.Part) != "a" || text(two.Part) != "b" || b.Next(b.now, 2) != nil {
		t.Fatal("two are under way")
	}
	b.fails(one)
	b.fails(two)
	b.now = b.now.Add(time.Second)
	for _, name := range []string{"a", "c", "b", "d"} {
		b.works(b.want(name))
	}
}

// The one row that is rejected is found, set aside, and keeps nothing else.
func TestRefusedRow(t *testing.T) {
	t.Parallel()
	b := newBox(t, 8, of("a b c d e f g h")...)
	trouble := b.fails(b.want("a b c d e f g h"))
	if !trouble.Outage || trouble.Wait != 100*time.Millisecond || trouble.Aside {
		t.Errorf("%+v", trouble)
	}
	b.now = b.now.Add(trouble.Wait - 1)
	b.nothing()
	b.now = b.now.Add(1)
	b.works(b.want("a b"))
	if trouble = b.fails(b.want("c d e f")); trouble.Outage || trouble.Wait > 0 {
		t.Errorf("since others succeed: %+v", trouble)
	}
	for _, name := range []string{"g", "h", "c"} { // no more go together
		b.works(b.want(name))
	}
	if trouble = b.fails(b.want("d")); trouble.Outage || trouble.Wait > 0 || trouble.Aside {
		t.Errorf("alone, once: %+v", trouble)
	}
	for _, name := range []string{"e", "f", "d"} { // the database takes it now
		b.works(b.want(name))
	}
	if !b.IsIdle() {
		t.Error("something is left")
	}

	b.Add(of("d")[0])
	b.Add(of("e")[0])
	b.fails(b.want("d e"))
	b.now = b.now.Add(time.Second)
	b.fails(b.want("d"))
	b.now = b.now.Add(time.Second)
	b.works(b.want("e"))
	trouble = b.fails(b.want("d"))
	if !trouble.New || !trouble.Aside || trouble.Wait != asideEvery || trouble.Outage {
		t.Errorf("alone, twice, while others succeed: %+v", trouble)
	}
	if !b.IsSettled() || b.IsIdle() || !errors.Is(b.Rejected("d"), errRejected) || b.Rejected("e") != nil {
		t.Error("it is not set aside")
	}
	b.nothing()
	if b.NextAside(b.now.Add(asideEvery-1), false) != nil {
		t.Error("it is tried too soon")
	}
	b.Add(of("d")[0]) // behind it, at once
	at := b.NextAside(b.now, false)
	if at == nil || text(at.Part) != "d" || b.NextAside(b.now, true) != nil || b.IsIdle() {
		t.Fatal("one is tried at a time")
	}
	if trouble = b.fails(at); trouble.New || !trouble.Aside || trouble.Wait != asideEvery {
		t.Errorf("again: %+v", trouble)
	}
	if at = b.NextAside(b.now, true); b.works(at) {
		t.Error("one of two works, and the job is mended")
	}
	b.Hurry()
	if at = b.NextAside(b.now, false); at == nil || !b.works(at) || b.Rejected("d") != nil || !b.IsIdle() {
		t.Error("it is not mended")
	}
	b.Add(of("d")[0])
	b.works(b.want("d"))
}

// While nothing succeeds, nothing is set aside, and each failure waits.
func TestOutage(t *testing.T) {
	t.Parallel()
	b := newBox(t, 4, of("a b c d")...)
	b.works(b.want("a b c d"))
	for _, w := range of("a b c d") {
		b.Add(w)
	}
	for range 20 {
		batch := b.Next(b.now, 1)
		if batch == nil {
			t.Fatal("nothing is sent")
		}
		if trouble := b.fails(batch); !trouble.Outage || trouble.Wait == 0 || trouble.Aside {
			t.Fatalf("%s: %+v", text(batch.Part), trouble)
		}
		b.nothing()
		b.now = b.now.Add(time.Second)
	}
	for !b.IsIdle() {
		b.works(b.Next(b.now, 1))
	}
}

// A server that is not ready refuses some statements and takes others: for a while, no row is to blame.
func TestNotReady(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, of("a b")...)
	notReady := Failure{Err: errRejected, NotReady: true}
	first := b.want("a")
	b.Failed(first, notReady, b.now)
	for second := range 9 {
		b.now = noon.Add(time.Duration(second+1) * time.Second)
		b.Add(of("b")[0])
		batch := b.Next(b.now, 1)
		for text(batch.Part) != "a" {
			b.Succeeded(batch, b.now)
			batch = b.Next(b.now, 1)
		}
		if trouble := b.Failed(batch, notReady, b.now); !trouble.Outage || trouble.Aside {
			t.Fatalf("after %d s: %+v", second+1, trouble)
		}
	}
	b.now = noon.Add(notReadyFor)
	b.Succeeded(b.Next(b.now, 1), b.now)
	if trouble := b.Failed(b.want("a"), notReady, b.now); !trouble.New {
		t.Errorf("after a while: %+v", trouble)
	}
}

// What another server answers is no write's fault, and no outage.
func TestBlameless(t *testing.T) {
	t.Parallel()
	b := newBox(t, 1, of("a b")...)
	blameless := Failure{Err: errRejected, Blameless: true}
	first := b.want("a")
	for range 5 {
		trouble := b.Failed(first, blameless, b.now)
		if trouble.Outage || trouble.Wait == 0 || trouble.Aside {
			t.Fatalf("%+v", trouble)
		}
		b.Hurry()
		b.now = b.now.Add(time.Millisecond)
		first = b.Next(b.now, 1)
		if text(first.Part) == "b" {
			b.works(first)
			first = b.Next(b.now, 1)
		}
	}
	if trouble := b.fails(first); trouble.Aside {
		t.Errorf("its first failure: %+v", trouble)
	}
}

// A write of several rows is cut, until the row that is rejected is alone, and its parts are sent one at a time.
func TestWriteOfSeveralRows(t *testing.T) {
	t.Parallel()
	b := newBox(t, 10, rows{"a", []int{1, 2, 3, 4, 5}})
	b.fails(b.want("a"))
	b.now = b.now.Add(time.Second)
	first := b.want("a")
	if !slices.Equal(first.Part[0].numbers, []int{1, 2}) || b.Next(b.now, 9) != nil {
		t.Fatalf("%v", first.Part)
	}
	b.works(first)
	both := b.want("a a")
	if trouble := b.fails(both); trouble.Outage {
		t.Errorf("%+v", trouble)
	}
	second := b.want("a")
	if !slices.Equal(second.Part[0].numbers, []int{3, 4}) {
		t.Fatalf("%v", second.Part)
	}
	b.fails(second)
	seen := map[int]bool{}
	for !b.IsSettled() {
		batch := b.Next(b.now, 1)
		if slices.ContainsFunc(batch.Part, func(r rows) bool { return slices.Contains(r.numbers, 4) }) {
			if trouble := b.fails(batch); trouble.New && !slices.Equal(batch.Part[0].numbers, []int{4}) {
				t.Fatalf("%+v", trouble)
			}
			continue
		}
		for _, r := range batch.Part {
			for _, n := range r.numbers {
				seen[n] = true
			}
		}
		b.works(batch)
	}
	if !seen[3] || !seen[5] || seen[4] || b.Rejected("a") == nil {
		t.Errorf("sent: %v", seen)
	}

	b.Add(rows{"a", []int{6, 7}}) // behind it
	if batch := b.NextAside(b.now, false); !slices.Equal(batch.Part[0].numbers, []int{6, 7}) {
		t.Fatalf("%v", batch.Part)
	} else if trouble := b.fails(batch); trouble.Aside || trouble.Wait > 0 {
		t.Fatalf("%+v", trouble)
	}
	for _, want := range []int{6, 7} {
		batch := b.NextAside(b.now, false)
		if !slices.Equal(batch.Part[0].numbers, []int{want}) {
			t.Fatalf("%v, want %d", batch.Part, want)
		}
		b.works(batch)
	}
}

// A few rows that others keep locked hold up the others for a few statements, each of which takes long.
func TestLockedRows(t *testing.T) {
	t.Parallel()
	for n, most := range map[int]int{500: 14, 100: 12, 20: 8} {
		b := newBox(t, n)
		locked := map[string]bool{}
		for i := range n {
			name := strconv.Itoa(i)
			locked[name] = i%(n/5) == 7%(n/5)
			b.Add(rows{name, []int{1}})
		}
		failed, written := 0, 0
		for written < n-5 {
			batch := b.Next(b.now, 1)
			if batch == nil {
				b.now = b.now.Add(time.Second)
				continue
			}
			if slices.ContainsFunc(batch.Part, func(r rows) bool { return locked[r.job] }) {
				failed++
				b.fails(batch)
				continue
			}
			written += len(batch.Part)
			b.works(batch)
		}
		if failed > most {
			t.Errorf("of %d rows, 5 are locked: %d statements failed until all others were written, want at most %d", n, failed, most)
		}
	}
}

// The parts of one write stay in their order, whatever fails, until one of them is to blame.
func TestPartsStayInOrder(t *testing.T) {
	t.Parallel()
	for outage := range 9 {
		b := newBox(t, 9, rows{"a", []int{1, 2, 3, 4, 5, 6, 7}})
		var written []int
		for tries := 0; !b.IsIdle(); tries++ {
			batch := b.Next(b.now, 1)
			if batch == nil {
				b.now = b.now.Add(time.Second)
				tries--
				continue
			}
			if tries < outage {
				b.fails(batch)
				continue
			}
			for _, r := range batch.Part {
				written = append(written, r.numbers...)
			}
			b.works(batch)
		}
		if outage < 4 && !slices.Equal(written, []int{1, 2, 3, 4, 5, 6, 7}) || len(written) != 7 {
			t.Errorf("after %d failures: %v", outage, written)
		}
	}
	// The first of two is refused, and nothing else is written that would tell.
	b := newBox(t, 9, rows{"a", []int{1, 2}})
	b.fails(b.want("a"))
	for range 2 {
		b.now = b.now.Add(time.Second)
		if part := b.want("a"); part.Part[0].numbers[0] != 1 {
			t.Fatalf("%v", part.Part)
		} else if trouble := b.fails(part); trouble.Aside {
			t.Fatal("nothing else succeeds")
		}
	}
	b.now = b.now.Add(time.Second)
	second := b.want("a")
	if second.Part[0].numbers[0] != 2 {
		t.Fatalf("%v", second.Part)
	}
	b.fails(second) // perhaps it is an outage
	b.now = b.now.Add(time.Second)
	first := b.want("a")
	if first.Part[0].numbers[0] != 1 {
		t.Fatalf("%v", first.Part)
	}
	b.fails(first)
	b.now = b.now.Add(time.Second)
	b.fails(b.want("a")) // the second once more
	b.now = b.now.Add(time.Second)
	if first = b.want("a"); first.Part[0].numbers[0] != 1 {
		t.Fatalf("%v", first.Part)
	}
	b.fails(first)
	b.now = b.now.Add(time.Second)
	b.works(b.want("a"))
	if trouble := b.fails(b.want("a")); !trouble.New {
		t.Errorf("the second succeeds, and the first fails: %+v", trouble)
	}

	// The last part has no other to be passed by.
	b = newBox(t, 9, rows{"a", []int{1, 2}})
	b.fails(b.want("a"))
	b.now = b.now.Add(time.Second)
	b.works(b.want("a"))
	for range 3 {
		last := b.want("a")
		if last.Part[0].numbers[0] != 2 {
			t.Fatalf("%v", last.Part)
		}
		b.Failed(last, Failure{Err: errRejected, NotReady: true}, b.now)
		b.now = b.now.Add(time.Second)
	}
}

// What is given up is told with why it failed, and what is dropped is not sent again.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	b := newBox(t, 4, of("a b c d")...)
	batch := b.want("a b c d")
	b.fails(batch)
	b.now = b.now.Add(time.Second)
	b.Dropped(b.want("a"))
	b.fails(b.want("b"))
	b.now = b.now.Add(time.Second)
	b.works(b.want("c"))
	b.works(b.want("d b"))
	if !b.IsIdle() {
		t.Fatal("something is left")
	}
	b.Add(of("e")[0])
	b.fails(b.want("e"))
	b.GiveUp(func(writes []rows, err error) {
		if text(writes) != "e" || !errors.Is(err, errRejected) {
			t.Errorf("%v: %v", writes, err)
		}
	})
	if !b.IsIdle() {
		t.Error("something is left")
	}
}

// Whatever the database rejects, all else is written once, and in the end every row is written that it takes.
func TestOutboxProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bad := map[int]bool{}
		o := New[rows](rapid.IntRange(1, 20).Draw(t, "rows"), steady())
		n, written := 0, map[int]int{}
		for job := range rapid.IntRange(1, 30).Draw(t, "jobs") {
			w := rows{job: string(rune('A' + job))}
			for range rapid.SampledFrom([]int{1, 1, 1, 2, 7}).Draw(t, "size") {
				n++
				w.numbers = append(w.numbers, n)
				bad[n] = rapid.IntRange(0, 9).Draw(t, "bad") == 0
			}
			o.Add(w)
		}
		now, statements := noon, 0
		for round := range 20 * (n + 10) {
			mended := round > 10*(n+10) // then it takes all
			var under []*Batch[rows]
			for b := o.Next(now, 2); b != nil; b = o.Next(now, 2) {
				under = append(under, b)
			}
			if b := o.NextAside(now, false); b != nil {
				under = append(under, b)
			}
			statements += len(under)
			for _, b := range under {
				now = now.Add(time.Millisecond)
				refuses := false
				for _, w := range b.Part {
					refuses = refuses || !mended && slices.ContainsFunc(w.numbers, func(n int) bool { return bad[n] })
				}
				if refuses {
					o.Failed(b, Failure{Err: errRejected}, now)
					continue
				}
				o.Succeeded(b, now)
				for _, w := range b.Part {
					for _, n := range w.numbers {
						written[n]++
					}
				}
			}
			now = now.Add(50 * time.Millisecond)
		}
		for i := 1; i <= n; i++ {
			if written[i] != 1 {
				t.Fatalf("row %d is written %d times", i, written[i])
			}
		}
		if !o.IsIdle() || len(o.rejected) > 0 {
			t.Fatalf("%+v", o)
		}
	})
}
