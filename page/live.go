package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

const (
	// lookEvery is how often the database is looked at while a client follows the events.
	lookEvery = time.Second
	// looksFor bounds a look, of which each reads few rows: clients do not take a page for live for longer.
	looksFor = 3 * time.Second
	// keepAlive is how often a client hears that its connection lives.
	keepAlive = 15 * time.Second
	// sendsFor bounds each write to a client.
	sendsFor = 10 * time.Second
	// followsFor bounds how long a client follows at a time; browsers connect again. So a user that
	// may not look any more, does not for long.
	followsFor = 10 * time.Minute
	// looksBack is how many of the newest runs are watched.
	looksBack = 100
)

// news is one event: what a page can show at once, and whether it is worth
// loading again.
type news struct {
	// Version differs when something has changed that views show.
	Version string `json:"version"`
	// State is held, expired, released or none, as worker status has it; empty with an Error.
	State string `json:"state"`
	Owner string `json:"owner"`
	// Token is a text, since numbers of scripts are too short.
	Token string `json:"token"`
	// Error says in words why the database could not be read.
	Error string `json:"error,omitempty"`
}

// live tells clients what changes. It looks at the database only while there are any.
type live struct {
	source Source
	most   int
	note   func(begun time.Time, err error) // takes in how each look ended

	mu      sync.Mutex // guards all below
	clients map[chan news]struct{}
	last    news
	known   bool // last is from the present look-out
	stop    context.CancelFunc
	stopped chan struct{} // closed when the look-out that stop ends has ended
}

func newLive(source Source, most int) *live {
	return &live{source: source, most: most, note: func(time.Time, error) {}, clients: map[chan news]struct{}{}}
}

// errFull says that there are as many clients as there may be.
var errFull = errors.New("too many clients follow the page's events")

// follow returns a channel that has the newest event, once there is one. leave has to be
// called in the end.
func (l *live) follow() (events <-chan news, leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.clients) >= l.most {
		return nil, nil, errFull
	}
	client := make(chan news, 1)
	l.clients[client] = struct{}{}
	if len(l.clients) == 1 {
		var ctx context.Context
		ctx, l.stop = context.WithCancel(context.Background())
		before := l.stopped
		ended := make(chan struct{})
		l.stopped = ended
		go func() {
			defer close(ended)
			if before != nil {
				<-before
			}
			l.lookOut(ctx)
		}()
	} else if l.known {
		client <- l.last
	}
	return client, func() { l.leave(client) }, nil
}

// leave ends the look-out with the last client, and waits for its end.
func (l *live) leave(client chan news) {
	l.mu.Lock()
	delete(l.clients, client)
	if len(l.clients) > 0 {
		l.mu.Unlock()
		return
	}
	l.stop()
	l.known = false
	ended := l.stopped
	l.mu.Unlock()
	<-ended
}

// lookOut looks at the database until ctx ends.
func (l *live) lookOut(ctx context.Context) {
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for {
		begun := time.Now()
		n, err := guarded(ctx, l.look)
		if ctx.Err() != nil {
			return
		}
		if l.note(begun, err); err != nil {
			n = news{Error: inWords(err)}
		}
		l.tell(n)
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// tell gives the event to all clients. One that has not taken the event before gets
// this one instead.
func (l *live) tell(n news) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.Error != "" { // the page stays as it is
		n.Version = l.last.Version
	}
	l.last, l.known = n, true
	for client := range l.clients {
		select {
		case <-client:
		default:
		}
		client <- n // only this sends, with mu held
	}
}

// look reads what tells whether something has changed.
func (l *live) look(ctx context.Context) (news, error) {
	ctx, cancel := context.WithTimeout(ctx, looksFor)
	defer cancel()
	leader, err := l.source.Leader(ctx)
	if err != nil {
		return news{}, err
	}
	changes, err := l.source.Changes(ctx)
	if err != nil {
		return news{}, err
	}
	runs, err := l.source.Runs(ctx, jobs.Filter{Limit: looksBack})
	if err != nil {
		return news{}, err
	}
	n := news{State: stateOf(leader), Owner: leader.Owner, Token: strconv.FormatUint(leader.Token, 10)}
	h := fnv.New64a()
	// Each quarter of a minute is a version of its own, for what is not looked at here.
	fmt.Fprintln(h, n.State, n.Owner, n.Token, leader.ResignAsked, changes.Number, changes.Now.Unix()/15)
	for _, r := range runs {
		fmt.Fprintln(h, r.Job, r.Tick.UnixMicro(), r.Trigger, r.State, r.Attempt, r.CancelAsked, r.Missed)
	}
	n.Version = strconv.FormatUint(h.Sum64(), 36)
	return n, nil
}

// events sends what changes as server-sent events, each a [news] as JSON. The first one is
// the present state.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	events, leave, err := p.live.follow()
	if err != nil {
		w.Header().Set("Retry-After", "60")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer leave()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // for nginx
	end := time.NewTimer(followsFor)
	defer end.Stop()
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	_ = out.SetReadDeadline(time.Time{}) // that of the request would end the connection; where there is none, nothing does
	text := "retry: 3000\n\n"
	var sent *news
	for {
		// Where there are no deadlines, the server's own holds, or none.
		if err := out.SetWriteDeadline(time.Now().Add(sendsFor)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return
		}
		if _, err := w.Write([]byte(text)); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
		text = ""
		select {
		case n := <-events:
			if sent != nil && *sent == n {
				continue
			}
			sent = &n
			data, err := json.Marshal(n) // of one line
			if err != nil {
				return
			}
			text = "data: " + string(data) + "\n\n"
		case <-alive.C:
			text = ": alive\n\n"
		case <-end.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}
