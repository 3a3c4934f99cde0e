package page_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var (
	pictures = flag.String("pictures", "", "the folder into which the pictures are written")
	all      = flag.Bool("all", false, "each view light and dark, on a desk and on a phone, instead of those of the documents")
)

// documents have these pictures.
var documents = map[string]bool{
	"overview-light": true, "overview-dark": true, "overview-phone": true, "overview-week-light": true, "job-light": true, "run-light": true, "locks-light": true, "audit-light": true,
}

// views are the addresses of the views in pictures.
var views = []struct{ name, path string }{
	{"overview", "/"},
	{"overview-week", "/?zoom=7d"},
	{"job", "/job?name=accounts.reconcile"},
	{"run", "/run?job=accounts.reconcile&tick=2027-03-15T10:10:00Z&trigger=0"},
	{"runs", "/runs?state=trouble"},
	{"locks", "/locks"},
	{"audit", "/audit"},
	{"confirm", "/confirm?action=trigger&job=export.tax"},
	{"overview-minute", "/?zoom=1m"},
	{"overview-month", "/?zoom=30d"},
}

// TestPictures makes the pictures of the documents (make screenshots).
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("make screenshots gives a folder with -pictures")
	}
	g := newGroup(t)
	g.lock()
	url := served(t, g.store, groupName)
	b := newBrowser(t)
	for _, v := range views {
		for _, as := range []struct {
			name        string
			width, high int64
			dark, phone bool
		}{{"light", 1280, 800, false, false}, {"dark", 1280, 800, true, false}, {"phone", 390, 844, false, true}, {"phone-dark", 390, 844, true, true}} {
			name := v.name + "-" + as.name
			if !*all && !documents[name] {
				continue
			}
			b.size(as.width, as.high, as.dark, as.phone)
			g.step(monday)
			g.heartbeat(1100 * time.Millisecond)
			b.do(chromedp.Navigate(url+v.path), chromedp.WaitReady("footer"))
			b.wait("it follows", `document.querySelector(".live").dataset.is === "live"`)
			png := ask(b, chromedp.FullScreenshot(100))
			if err := os.WriteFile(filepath.Join(*pictures, "page-"+name+".png"), png, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
