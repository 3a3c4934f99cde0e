package page

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

// maxBody bounds the form of an action, in bytes. Arguments may have 64 KiB, and each byte
// of a form may take three.
const maxBody = 3*jobs.MaxArgs + 16<<10

// Page is the handler of a group's page. It is safe for concurrent use.
type Page struct {
	group  string
	source *shared
	steer  steering
	health func() scheduler.Health // nil in tests that have no scheduler
	here   *scheduler.Scheduler    // the same
	set    settings
	live   *live
	seats  seats
	turns  chan struct{} // of maxReads
	once   once
	cross  *http.CrossOriginProtection
	parsed schedules
	late   slow[late]
	day    slow[lastDay]
	mux    *http.ServeMux
}

// New returns the page of the scheduler's group. db is the scheduler's store, or another
// one of the same database: with one of its own, the page never waits for a connection
// with the jobs, nor they with it. New starts nothing and reads nothing. Until the
// scheduler runs, the page shows what the database has.
func New(s *scheduler.Scheduler, db store.Jobs, options ...Option) (*Page, error) {
	switch {
	case s == nil:
		return nil, errors.New("page: the scheduler is nil")
	case db == nil:
		return nil, errors.New("page: the store is nil")
	}
	d := &database{Group: jobs.NewGroup(db, s.Group()), store: db, name: s.Group()}
	p, err := newPage(s.Group(), d, d, options...)
	if err != nil {
		return nil, err
	}
	p.health, p.here = s.Health, s
	p.mux.Handle("GET /healthz", Healthz(s))
	p.mux.Handle("GET /readyz", Readyz(s))
	return p, nil
}

// newPage returns a page without health.
func newPage(group string, source Source, steer steering, options ...Option) (*Page, error) {
	set, err := settingsOf(options)
	if err != nil {
		return nil, err
	}
	p := &Page{group: group, source: newShared(source), steer: steer, set: set, turns: make(chan struct{}, maxReads), mux: http.NewServeMux(), cross: http.NewCrossOriginProtection()}
	p.live = newLive(p.source.Source, set.clients)
	p.live.note = p.source.outages.note
	p.routes()
	return p, nil
}

// ownPaths are those that no other handler may have.
var ownPaths = append([]string{"/", "/job", "/run", "/runs", "/locks", "/audit", "/confirm", "/do", "/events", "/api/", "/static/", "/healthz", "/readyz"}, apiPaths...)

// routes are all that the page answers, all of them at one depth: its links are relative.
// Jobs are named in queries, because their names may look like paths.
func (p *Page) routes() {
	p.mux.Handle("GET /{$}", p.guard(p.view(p.overview)))
	p.mux.Handle("GET /job", p.guard(p.view(p.job)))
	p.mux.Handle("GET /run", p.guard(p.view(p.run)))
	p.mux.Handle("GET /runs", p.guard(p.view(p.runs)))
	p.mux.Handle("GET /locks", p.guard(p.view(p.locks)))
	p.mux.Handle("GET /audit", p.guard(p.view(p.audit)))
	p.mux.Handle("GET /confirm", p.guard(p.steers(p.view(p.confirm))))
	p.mux.Handle("POST /do", p.guard(p.steers(http.HandlerFunc(p.do))))
	p.mux.Handle("GET /events", p.guard(http.HandlerFunc(p.events)))
	for i, read := range []func(*http.Request) (any, error){p.apiStatus, p.apiJobs, p.apiRuns, p.apiRun} {
		p.mux.Handle("GET "+apiPaths[i], p.guard(p.api(read)))
	}
	p.mux.Handle("GET /static/", p.guard(static()))
	for _, m := range p.set.handlers {
		p.mux.Handle("GET "+m.path, p.guard(m.handler))
	}
	p.mux.Handle("/", p.guard(http.HandlerFunc(p.none)))
}

// none answers what no other handler takes.
func (p *Page) none(w http.ResponseWriter, r *http.Request) {
	err := errNoPage
	if methods := p.methods(r); methods != "" {
		w.Header().Set("Allow", methods)
		err = fmt.Errorf("%w: expected %s", errMethod, methods)
	}
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/"):
		writeJSON(w, statusOf(err), map[string]any{"error": err.Error(), "paths": apiPaths})
	case wantsJSON(r):
		p.failJSON(w, r, err)
	default:
		p.fail(w, r, err)
	}
}

// methods are those that the path of a request takes, as a header Allow has them; empty: there is
// nothing at the path.
func (p *Page) methods(r *http.Request) string {
	for method, allow := range map[string]string{http.MethodGet: "GET, HEAD", http.MethodPost: http.MethodPost} {
		other := *r
		other.Method = method
		if _, pattern := p.mux.Handler(&other); pattern != "/" {
			return allow
		}
	}
	return ""
}

// ServeHTTP implements [http.Handler].
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// view is the handler of a view, which says what is to be shown.
func (p *Page) view(do func(r *http.Request) (shown, error)) http.Handler {
	return p.turn(func(w http.ResponseWriter, r *http.Request) {
		s, err := do(r)
		if err != nil {
			p.fail(w, r, err)
			return
		}
		p.render(w, r, http.StatusOK, s)
	}, p.fail)
}

// fail says what went wrong.
func (p *Page) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	if status >= http.StatusInternalServerError {
		p.set.log.Debug("the page could not show what was asked for", zap.String("path", r.URL.Path), zap.Error(err))
	}
	o, is := p.outage(err)
	title := http.StatusText(status)
	if is {
		title = noDatabase
	}
	p.render(w, r, status, shown{title: title, template: "error.html", data: failure{o.Error, o.known(time.Now())}, outage: is})
}

// failure is what error.html gets.
type failure struct {
	Text string
	// Known is what there is to say beside it.
	Known []pair
}

var (
	// errNoPage says that there is nothing at a path.
	errNoPage = errors.New("there is no such page")
	// errMethod says that there is something at a path, for requests of other methods.
	errMethod = errors.New("the path takes other methods")
	// errUnfit matches errors about a request that is wrong.
	errUnfit = errors.New("the request is wrong")
)

// statusOf is the status of an answer that says err.
func statusOf(err error) int {
	switch {
	case errors.Is(err, errNoPage), errors.Is(err, jobs.ErrNoJob), errors.Is(err, jobs.ErrNoRun):
		return http.StatusNotFound
	case errors.Is(err, errMethod):
		return http.StatusMethodNotAllowed
	case errors.As(err, new(*http.MaxBytesError)):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, errUnfit):
		return http.StatusBadRequest
	case errors.Is(err, jobs.ErrDeclared), errors.Is(err, jobs.ErrNotDeclared), errors.Is(err, jobs.ErrManyOpen), errors.Is(err, election.ErrNotLeading):
		return http.StatusConflict
	case errors.Is(err, errors.ErrUnsupported):
		return http.StatusNotImplemented
	}
	return http.StatusServiceUnavailable
}
