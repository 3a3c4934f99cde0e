package page_test

import (
	"fmt"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

func quoted(text string) string { return strconv.Quote(text) }

// evil are texts that another program, a job or a user may have written into the database.
var evil = []string{
	`<script>window.evil=1</script>`,
	`"><img src=x onerror="window.evil=1">`,
	`' onmouseover='window.evil=1' x='`,
	`</title></svg><svg onload=window.evil=1>`,
	`javascript:window.evil=1`,
	`{{.}}${window.evil=1}`,
	"</pre><iframe src=\"javascript:parent.evil=1\"></iframe>\u202e\u0000\x1b[31m\n\xff",
}

// What anyone has written is text on each view, and nothing else: no element comes of it, and nothing
// runs. Names are checked by this module, but others may write to the database.
func TestHostileTexts(t *testing.T) {
	b := newBrowser(t)
	db := memdb.New()
	ctx := by(t.Context(), evil[1], jobs.Via(evil[0][:20]))
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().UTC().Truncate(time.Second)
	h := store.Holder{Group: groupName, Owner: evil[0], Token: uint64(now.UnixMicro())}
	db.Update(groupName, func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) {
		return &store.Lease{Owner: h.Owner, Token: h.Token, Heartbeat: 1, RenewedAt: now, TTL: time.Hour}, &store.Fence{Owner: h.Owner, Token: h.Token}
	})
	ok(db.NoteTerm(ctx, store.TermNote{Holder: h, Began: time.Minute}))
	name := evil[1]
	var declared []store.Declared
	plain := func(i int) string { return fmt.Sprint("job-", i) }
	for i, text := range evil[:6] {
		declared = append(declared, store.Declared{Name: plain(i), Schedule: text, From: now.Add(-time.Hour)})
	}
	ok(db.Declare(ctx, h, declared))
	key := jobs.Key{Job: plain(1), Tick: now.Add(-time.Minute)}
	id := store.ClaimID{1}
	_, err := db.Claim(ctx, h, id, []store.Claim{{Key: key, State: jobs.Running}})
	ok(err)
	_, err = db.Move(ctx, h, []store.Move{{Key: key, From: jobs.Running, Attempt: 1, Owner: h.Owner, Token: h.Token, To: jobs.Panicked, Error: evil[6], Output: []byte(evil[6])}})
	ok(err)
	of := jobs.NewGroup(db, groupName)
	ok(of.Pause(ctx, plain(1)))
	_ = of.Pause(ctx, evil[3]) // recorded either way
	for i, text := range evil[:6] {
		db.Rename(groupName, plain(i), text)
	}

	base := served(t, db, groupName)
	run := url.Values{"job": {name}, "tick": {key.Tick.Format(time.RFC3339Nano)}, "trigger": {"0"}}
	for _, path := range []string{
		"/", "/?zoom=1m", "/?zoom=30d", "/?q=" + url.QueryEscape(evil[1]), "/?zoom=" + url.QueryEscape(evil[0]) + "&end=" + url.QueryEscape(evil[2]),
		"/job?name=" + url.QueryEscape(name), "/job?name=" + url.QueryEscape(name) + "&state=" + url.QueryEscape(evil[0]), "/run?" + run.Encode(),
		"/job?name=" + url.QueryEscape(evil[3]+"none"), "/runs", "/runs?state=trouble&job=" + url.QueryEscape(name) + "&replica=" + url.QueryEscape(evil[1]), "/locks?after=" + url.QueryEscape(evil[1]), "/audit", "/audit?q=" + url.QueryEscape(evil[1]),
		"/audit?before=" + url.QueryEscape(evil[0]), "/confirm?action=pause&job=" + url.QueryEscape(name), "/" + url.PathEscape(evil[0]), "/?done=" + url.QueryEscape(evil[0]),
	} {
		b.do(chromedp.Navigate(base + path))
		found := ask(b, chromedp.Evaluate[[]string](`(() => {
			for (const e of document.querySelectorAll("a, [title], .lane *")) e.dispatchEvent(new PointerEvent("pointerover", {bubbles: true}));
			const found = [];
			if (window.evil) found.push("a script ran");
			for (const e of document.querySelectorAll("img, iframe, object, embed, script:not([src]), style, base")) found.push(e.outerHTML);
			for (const e of document.querySelectorAll("*")) for (const a of e.attributes) if (a.name.startsWith("on") || a.name === "style" && !e.classList.contains("tip")) found.push(a.name + " of " + e.outerHTML);
			for (const e of document.querySelectorAll("a[href]")) if (new URL(e.href.baseVal || e.href, location).origin !== location.origin) found.push("a link to " + e.outerHTML);
			if (/[\u202a-\u202e\u0000\u001b]/.test(document.body.textContent)) found.push("a hidden character");
			return found;
		})()`))
		for _, what := range found {
			t.Errorf("%s: %s", path, what)
		}
	}
}
