package page_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/cronlease/cronlease/internal/workertest"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// An open page shows a takeover, without being loaded again: the leader's process is killed, and another
// worker's name takes its place.
func TestPageShowsATakeover(t *testing.T) {
	b := newBrowser(t)
	file := filepath.Join(t.TempDir(), "lease.db")
	c := workertest.New(t, workertest.SQLite, "sqlite:"+file)
	c.StartThree()
	db, err := sqlitestore.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	b.do(chromedp.Navigate(served(t, db, groupName) + "/?zoom=1m"))
	b.wait("it follows", `document.querySelector(".live").dataset.is === "live"`)
	b.wait("a replica leads", `document.querySelector("h1").textContent.endsWith(" leads")`)
	before := b.text("#title p")
	ask(b, chromedp.Evaluate[bool](`window.loadedOnce = true`))

	leader := c.Leader()
	if !strings.Contains(before, "/") {
		t.Errorf("the page names no owner: %q", before)
	}
	leader.Kill()
	b.wait("another replica leads", `document.querySelector("h1").textContent.endsWith(" leads") && document.querySelector("#title p").textContent !== `+quoted(before))
	b.wait("the timeline has the takeover", `document.querySelector('.terms use[href="#m-take"]') !== null`)
	b.wait("the new leader runs jobs", `document.querySelectorAll("#timeline tbody tr:not(.terms) .lane a").length > 0`)
	if !ask(b, chromedp.Evaluate[bool](`window.loadedOnce === true`)) {
		t.Error("the page was loaded again")
	}
	c.TerminateAll()
}
