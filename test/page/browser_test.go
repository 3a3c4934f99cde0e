package page_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/page"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

// chromium is the program, or empty.
func chromium() string {
	if program := os.Getenv("CRONLEASE_CHROMIUM"); program != "" {
		return program
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if program, err := exec.LookPath(name); err == nil {
			return program
		}
	}
	return ""
}

// browser is a tab of a headless browser.
type browser struct {
	*testing.T
	tab context.Context
}

// newBrowser starts a browser that ends with the test. Where there is none, the test
// fails.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	program := chromium()
	if program == "" {
		t.Fatal("no chromium: scripts/install-chromium installs it")
	}
	flags := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-gpu", true),
		chromedp.Flag("font-render-hinting", "none"), chromedp.WSURLReadTimeout(time.Minute))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), flags...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{t, ctx}
	// What a page complains of is a fault of it: an exception, or a refusal by its content security policy.
	console := chromedp.Console(ctx)
	listens := make(chan struct{})
	go func() {
		defer close(listens)
		for message, err := range console {
			if err == nil && (message.Type == "error" || message.IsException()) && message.Source != "network" {
				t.Errorf("the page's console: %v", message)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-listens })
	// The first action's context is the browser's.
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	return b
}

// limited bounds what is done in the browser.
func (b *browser) limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.tab, 40*time.Second)
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

// size makes the window so wide and high, and light or dark.
func (b *browser) size(width, height int64, dark, phone bool) {
	b.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	var options []chromedp.EmulateViewportOption
	if phone {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulatePortrait)
	}
	b.do(chromedp.EmulateViewport(width, height, options...))
	_, err := chromedp.Call(b.tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	if err != nil {
		b.Fatal(err)
	}
}

// ask runs an action, and returns its value.
func ask[T any](b *browser, a chromedp.Action[T]) T {
	b.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	value, err := chromedp.Run(ctx, a)
	if err != nil {
		b.Fatal(err)
	}
	return value
}

// text is what an element shows.
func (b *browser) text(selector string) string {
	b.Helper()
	return ask(b, chromedp.Text(selector))
}

// wait waits until an expression of the page's is true, also while another page is loaded.
func (b *browser) wait(what, expression string) {
	b.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	end := time.Now().Add(30 * time.Second)
	for {
		ctx, cancel := b.limited()
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		cancel()
		if err == nil && is {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("not within 30 s: %s: %v; the page says: %.2000s", what, err, b.text("body"))
		}
		<-again.C
	}
}

// served is the address of a group's page, for a scheduler that does not run.
func served(t *testing.T, db store.Jobs, group string) string {
	t.Helper()
	s, err := scheduler.New(db, group)
	if err != nil {
		t.Fatal(err)
	}
	p, err := page.New(s, db, page.WithLogger(zap.NewExample()))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(closing(p))
	t.Cleanup(server.Close)
	return server.URL
}

// closing ends connections that browsers keep, so that the server can be closed.
func closing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}
