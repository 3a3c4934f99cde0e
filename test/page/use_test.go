package page_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// The page says everything before, and without, its script.
func TestWithoutScript(t *testing.T) {
	g := newGroup(t)
	base := served(t, g.store, groupName)
	b := newBrowser(t)
	if _, err := chromedp.Call(b.tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ path, has string }{
		{"/", "web/app-7d9c4-p9fjl/1 leads"},
		{"/", "rates.import every hour at :07 panicked"},
		{"/", "mail.digest timed out 1 5 min ago"},
		{"/job?name=invoices.remind", "at 09:00 on weekdays, Europe/Berlin"},
		{"/job?name=invoices.remind", "Tue 2027-03-16 09:00:00 CET"},
		{"/job?name=accounts.reconcile", "09:50:00 failed"},
		{"/run?job=accounts.reconcile&tick=2027-03-15T10:10:00Z&trigger=0", "matched 209, open 5"},
		{"/audit", "lin page cancel search.reindex 10:00:00 done"},
		{"/confirm?action=pause&job=mail.digest", "Pause: mail.digest?"},
	} {
		b.do(chromedp.Navigate(base + v.path))
		if text := strings.Join(strings.Fields(b.text("main")), " "); !strings.Contains(text, v.has) {
			t.Errorf("%s does not say %q: %s", v.path, v.has, text)
		}
	}
	// An action, too: its link, the page that asks once, and the form.
	b.do(chromedp.Navigate(base+"/job?name=mail.digest"), chromedp.Click(`a[href^="confirm?action=pause"]`), chromedp.WaitVisible(".asks"), chromedp.Click(`.asks button[type="submit"]`), chromedp.WaitVisible(".is-done"))
	if text := b.text("main"); !strings.Contains(text, "Paused since") {
		t.Errorf("the job is not paused: %s", text)
	}
}

// An open page shows what happens at once, and not only when it reads everything again after half a minute.
func TestFollowing(t *testing.T) {
	g := newGroup(t)
	b := newBrowser(t)
	b.do(chromedp.Navigate(served(t, g.store, groupName) + "/job?name=mail.digest"))
	b.wait("it follows", `document.querySelector(".live").dataset.is === "live"`)
	group := jobs.NewGroup(g.store, groupName)
	if err := group.Pause(t.Context(), "mail.digest"); err != nil {
		t.Fatal(err)
	}
	b.wait("it is paused", `document.querySelector("#notes").textContent.includes("Paused since")`)
	if err := group.Resume(t.Context(), "mail.digest"); err != nil { // the page has read everything just now
		t.Fatal(err)
	}
	begun := time.Now()
	b.wait("it goes on", `!document.querySelector("#notes").textContent.includes("Paused since")`)
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("the page shows the end of a pause after %v", took)
	}
}

// Everything can be reached by the keyboard: by tab, and by keys of its own.
func TestKeyboard(t *testing.T) {
	g := newGroup(t)
	b := newBrowser(t)
	b.do(chromedp.Navigate(served(t, g.store, groupName) + "/"))
	b.wait("it follows", `document.querySelector(".live").dataset.is === "live"`)
	// The script of the page that a key leads to has to be there for the next one.
	at := func(what, expression string) {
		t.Helper()
		b.wait(what, `!document.querySelector(".keys").hidden && (`+expression+`)`)
	}

	b.do(chromedp.KeyEvent("-"))
	at("a longer time", `location.search === "?zoom=6h"`)
	b.do(chromedp.KeyEvent(kb.ArrowLeft))
	at("earlier", `/end=\d+/.test(location.search) && location.search.includes("zoom=6h")`)
	b.do(chromedp.KeyEvent("n"))
	at("now", `location.search === "?zoom=6h"`)
	b.do(chromedp.KeyEvent("+"))
	at("a shorter time", `location.search === "?" || location.search === ""`)
	b.do(chromedp.KeyEvent("/"))
	at("the search", `document.activeElement.type === "search"`)
	// The driver sends the key's character by itself, which no browser does after a key that a page has taken.
	ask(b, chromedp.Evaluate[bool](`document.activeElement.select(), true`))
	b.do(chromedp.KeyEvent("mail"))
	at("one job is found", `document.querySelectorAll("#timeline tbody tr:not(.terms)").length === 1`)
	at("the address says so", `location.search === "?q=mail"`)
	b.do(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("a"))
	at("the audit", `location.pathname.endsWith("/audit")`)
	b.do(chromedp.KeyEvent("l"))
	at("the locks", `location.pathname.endsWith("/locks")`)
	b.do(chromedp.KeyEvent("o"))
	at("the overview", `document.querySelector("#timeline") !== null`)

	b.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	at("the content is skipped to", `location.hash === "#main"`)
	ask(b, chromedp.Evaluate[bool](`document.querySelector("#timeline tbody th a").focus(), true`))
	b.do(chromedp.KeyEvent(kb.Enter))
	at("the job", `document.querySelector("h1").textContent.startsWith("accounts.reconcile")`)
}

// On a phone no view is wider than the screen; tables that are scroll by themselves.
func TestPhone(t *testing.T) {
	g := newGroup(t)
	g.lock()
	base := served(t, g.store, groupName)
	b := newBrowser(t)
	b.size(390, 844, false, true)
	for _, v := range views {
		b.do(chromedp.Navigate(base + v.path))
		if wide := ask(b, chromedp.Evaluate[int](`document.documentElement.scrollWidth`)); wide > 390 {
			t.Errorf("%s is %d pixels wide, on a screen of 390", v.name, wide)
		}
	}
}

// away is a database that can be cut off.
type away struct {
	*memdb.Store
	cut atomic.Bool
}

func (a *away) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
	if a.cut.Load() {
		return nil, errors.New("canary")
	}
	return a.Store.Read(ctx, groups...)
}

// A page is never live while the database is away: neither one that is open, nor one that is opened then. Both are again
// by themselves when it is back.
func TestOutage(t *testing.T) {
	g := newGroup(t)
	db := &away{Store: g.store}
	base := served(t, db, groupName)
	b := newBrowser(t)
	b.do(chromedp.Navigate(base + "/"))
	b.wait("it follows", `document.querySelector(".live").dataset.is === "live"`)
	db.cut.Store(true)
	b.wait("it says so", `document.querySelector(".live").textContent === "not live: no database"`)
	if _, err := chromedp.Call(b.tab, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: `
		addEventListener("DOMContentLoaded", () => {
			const at = document.querySelector(".live");
			new MutationObserver(() => { if ("outage" in document.body.dataset && at.textContent === "live") window.lied = true; }).observe(at, {childList: true});
		});`}); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Navigate(base + "/"))
	b.wait("it tells of the outage", `document.querySelector("h1").textContent === "The database cannot be read"`)
	b.wait("it says so, too", `document.querySelector(".live").textContent === "not live: no database"`)
	if ask(b, chromedp.Evaluate[bool](`window.lied === true`)) {
		t.Error("it was live without a database")
	}
	db.cut.Store(false)
	b.wait("it is the overview again", `document.querySelector("#timeline") !== null && document.querySelector(".live").dataset.is === "live"`)
}
