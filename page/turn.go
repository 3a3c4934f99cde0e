package page

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"
)

const (
	// readsFor bounds the work for one request.
	readsFor = 10 * time.Second
	// maxReads is how many requests read the database at a time.
	maxReads = 4
	// perUser is how many answers of that kind one user has in the making, or on the way, at a time.
	perUser = 8
)

// turn is a handler that reads the database: a few of them do so at a time, each not for
// long. One that gets no turn fails. The answer is made whole before it is sent, so that a
// client that is slow to read it keeps no other from its turn.
func (p *Page) turn(do http.HandlerFunc, fail func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		patience := p.patience()
		wait, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		leave, err := p.seats.take(wait, userOf(wait).Name)
		if err != nil {
			fail(w, r, errBusy)
			return
		}
		defer leave()
		select {
		case p.turns <- struct{}{}:
		case <-wait.Done():
			fail(w, r, errBusy)
			return
		}
		// What a request has begun to read goes on when its client leaves, and keeps the turn: or
		// clients that leave at once would have any number of them.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), patience)
		defer cancel()
		a := answer{header: w.Header(), status: http.StatusOK}
		func() {
			defer func() { <-p.turns }()
			do(&a, r.WithContext(ctx))
		}()
		w.WriteHeader(a.status)
		_, _ = a.body.WriteTo(w) // the client has gone
	})
}

// answer keeps what a handler answers.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// seats bounds how many answers each user waits for or reads at a time. The zero seats are
// ready for use.
type seats struct {
	mu sync.Mutex
	of map[string]*row
}

// row has the seats of a user.
type row struct {
	taken chan struct{} // of perUser
	users int           // that have one or wait for one
}

// take waits for a seat. leave has to be called in the end.
func (s *seats) take(ctx context.Context, user string) (leave func(), err error) {
	s.mu.Lock()
	if s.of == nil {
		s.of = map[string]*row{}
	}
	in, ok := s.of[user]
	if !ok {
		in = &row{taken: make(chan struct{}, perUser)}
		s.of[user] = in
	}
	in.users++
	s.mu.Unlock()
	gone := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if in.users--; in.users == 0 {
			delete(s.of, user)
		}
	}
	select {
	case in.taken <- struct{}{}:
		return func() { <-in.taken; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
}
