package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

//go:embed templates static
var files embed.FS

// shown is what a view shows.
type shown struct {
	title string
	// template is a file of the folder templates.
	template string
	data     any
	now      time.Time // the database's; zero: this machine's
	// outage: it is shown in place of something that needs the database.
	outage bool
}

// frame is what a template gets: what all views have, and in Data what the view has.
type frame struct {
	Title, Group string
	// Base is what links begin with.
	Base string
	// Version differs when the static files do, for their links.
	Version string
	Nav     []link
	// User is the name of the user, and Steers whether that one may act.
	User   string
	Steers bool
	// Done is what an action has done, on the page that it leads to.
	Done string
	// Now is the time of what is shown, by the clock that Clock names.
	Now    time.Time
	Clock  string
	Outage bool
	Data   any
}

// link is one of the navigation.
type link struct {
	Href, Text, Key string
	Current         bool
}

// navigation has the views that the others link.
var navigation = []struct{ template, href, text, key string }{
	{"overview.html", "./", "Overview", "o"},
	{"runs.html", "runs", "Runs", "r"},
	{"locks.html", "locks", "Locks", "l"},
	{"audit.html", "audit", "Audit", "a"},
}

// templates are all of the folder. They escape values by themselves.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/*.html"))
})

// staticVersion is made of all static files.
var staticVersion = sync.OnceValue(func() string {
	sum := sha256.New()
	err := fs.WalkDir(files, "static", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := files.ReadFile(path)
		_, _ = sum.Write(data) // never fails
		return err
	})
	if err != nil {
		panic(err) // they are in the program
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
})

// render writes a page. It makes it whole first, so that one that fails is not shown in part.
func (p *Page) render(w http.ResponseWriter, r *http.Request, status int, s shown) {
	user := userOf(r.Context())
	f := frame{
		Title: s.title, Group: p.group, Base: "./", Version: staticVersion(), User: user.Name, Steers: user.Role == Steer,
		Done: done[r.URL.Query().Get("done")], Now: time.Now().UTC(), Clock: "this machine’s clock",
		Outage: s.outage, Data: s.data,
	}
	if !s.now.IsZero() {
		f.Now, f.Clock = s.now.UTC(), "the database’s clock"
	}
	for _, n := range navigation {
		f.Nav = append(f.Nav, link{n.href, n.text, n.key, n.template == s.template})
	}
	var page bytes.Buffer
	if err := templates().ExecuteTemplate(&page, s.template, f); err != nil {
		p.set.log.Warn("the page could not be made", zap.String("template", s.template), zap.Error(err))
		http.Error(w, "the page could not be made: the log says why", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // the client has gone
}

// static serves the files of the folder static. Their links change with them.
func static() http.Handler {
	serve := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/") { // no list of them
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "private, max-age=3600")
		serve.ServeHTTP(w, r)
	})
}
