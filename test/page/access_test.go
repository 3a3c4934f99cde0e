package page_test

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cronlease/cronlease/jobs"
)

// faults of a view, as it is shown now.
const faults = `(() => {
	const found = [];
	const seen = (e) => e.checkVisibility() && e.getBoundingClientRect().width > 0;
	const what = (e) => e.outerHTML.slice(0, 160);
	for (const e of document.querySelectorAll("a[href], button")) {
		const title = e.querySelector(":scope > title");
		if (seen(e) && !(e.getAttribute("aria-label") || (title ? title.textContent : e.innerText || e.textContent)).trim()) found.push("no name: " + what(e));
	}
	for (const e of document.querySelectorAll("[role=img] a, [role=img] button, a a, a button, button a")) found.push("nested: " + what(e));
	for (const e of document.querySelectorAll("main *")) {
		const style = getComputedStyle(e);
		const x = /auto|scroll/.test(style.overflowX) && e.scrollWidth > e.clientWidth + 1, y = /auto|scroll/.test(style.overflowY) && e.scrollHeight > e.clientHeight + 1;
		if (seen(e) && (x || y) && e.tabIndex < 0 && !e.querySelector("a[href], button, input, [tabindex='0']")) found.push("scrolls without focus: " + what(e));
	}
	const parse = (text) => { const p = text.match(/[\d.]+/g).map(Number); return p.length < 4 ? [...p, 1] : p; };
	const light = (c) => c.slice(0, 3).map((v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (const seenAlready = new Set(); texts.nextNode();) {
		const e = texts.currentNode.parentElement;
		if (!texts.data && !texts.currentNode.data.trim() || seenAlready.has(e) || !seen(e) || e.closest("title, script, noscript, option, [aria-disabled], .tip")) continue;
		seenAlready.add(e);
		const style = getComputedStyle(e);
		let under = e;
		while (under && (under instanceof SVGElement || parse(getComputedStyle(under).backgroundColor)[3] === 0)) under = under.parentElement;
		const back = under ? parse(getComputedStyle(under).backgroundColor) : [255, 255, 255, 1];
		const a = light(parse(e instanceof SVGElement ? style.fill : style.color)), b = light(back);
		const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
		if (ratio < 4.5) found.push("contrast " + ratio.toFixed(2) + ": " + what(e));
	}
	for (const axis of document.querySelectorAll(".axis")) {
		const boxes = [...axis.querySelectorAll("text")].filter(seen).map((e) => e.getBoundingClientRect()).sort((a, b) => a.left - b.left);
		boxes.forEach((b, i) => { if (i > 0 && b.left < boxes[i - 1].right + 2) found.push("labels of the axis overlap at " + Math.round(b.left)); });
	}
	for (const e of document.querySelectorAll(".owner")) {
		if (seen(e) && e.getBBox().width + 12 > e.parentElement.width.animVal.value + 1) found.push("cut: " + e.textContent);
	}
	return found;
})()`

// Each view can be read and used by all: contrast, names of links, areas that scroll by the keyboard, and labels that neither
// overlap nor are cut, on a desk, on a tablet and on a phone.
func TestAccessible(t *testing.T) {
	g := newGroup(t)
	g.lock()
	base := served(t, g.store, groupName)
	b := newBrowser(t)
	for _, as := range []struct {
		name        string
		width, high int64
		dark, phone bool
	}{{"light", 1280, 800, false, false}, {"dark", 1280, 800, true, false}, {"tablet", 768, 1024, false, false}, {"phone", 390, 844, false, true}} {
		b.size(as.width, as.high, as.dark, as.phone)
		for _, v := range views {
			b.do(chromedp.Navigate(base+v.path), chromedp.WaitReady("footer"))
			for _, fault := range ask(b, chromedp.Evaluate[[]string](faults)) {
				t.Errorf("%s, %s: %s", v.name, as.name, fault)
			}
			if axe != "" {
				axeFaults(b, v.name+", "+as.name)
			}
		}
	}
}

// axe is where axe-core is, for the checks of a release: CRONLEASE_AXE=.../axe.min.js.
var axe = os.Getenv("CRONLEASE_AXE")

func axeFaults(b *browser, where string) {
	b.Helper()
	script, err := os.ReadFile(axe)
	if err != nil {
		b.Fatal(err)
	}
	ask(b, chromedp.Evaluate[bool](string(script)+`; window.axeSays = null; axe.run().then((r) => { window.axeSays = r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html.slice(0, 160) + " " + n.failureSummary.slice(0, 200))); }); true`))
	b.wait("axe", `window.axeSays !== null`)
	for _, fault := range ask(b, chromedp.Evaluate[[]string](`window.axeSays`)) {
		b.Errorf("%s: axe: %s", where, fault)
	}
}

// A user can stop a page from changing by itself, and switch its keys off. Both stay so.
func TestSwitches(t *testing.T) {
	g := newGroup(t)
	b := newBrowser(t)
	base := served(t, g.store, groupName)
	b.do(chromedp.Navigate(base + "/job?name=mail.digest"))
	b.wait("it follows", `document.querySelector(".live").dataset.is === "live"`)
	b.do(chromedp.Click(`[data-switch="live"]`), chromedp.Click(`[data-switch="keys"]`))
	b.wait("it says so", `document.querySelector(".live").textContent === "stopped"`)
	if err := jobs.NewGroup(g.store, groupName).Pause(t.Context(), "mail.digest"); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.KeyEvent("a"), chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent("-"))
	if ask(b, chromedp.Evaluate[bool](`document.querySelector("#notes").textContent.includes("Paused since") || location.search !== "?name=mail.digest" || location.pathname !== "/job"`)) {
		t.Error("the page changes, or takes keys, after both were switched off")
	}
	b.do(chromedp.Navigate(base + "/"))
	b.wait("another page is stopped, too", `document.querySelector(".live").textContent === "stopped"`)
	b.do(chromedp.Navigate(base + "/locks"))
	b.do(chromedp.Click(`[data-switch="live"]`), chromedp.Click(`[data-switch="keys"]`))
	b.wait("it follows again", `document.querySelector(".live").dataset.is === "live"`)
	b.do(chromedp.KeyEvent("a"))
	b.wait("the keys are back", `location.pathname === "/audit"`)
}
