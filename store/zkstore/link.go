package zkstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// link is a store's connection to the ensemble. The client goes on at another server by itself. A link adds what the client has not: calls
// that end with their contexts, nodes that come back with the next session, one watch of a node for all who wait for it, and a client that
// starts anew where the ensemble refuses the old one, as it does after it has lost what that one has seen.
type link struct {
	target *target
	o      settings

	mu       sync.Mutex
	client   *zk.Conn         // nil until the first call
	ready    chan struct{}    // closed while there is a session; replaced when it is lost
	open     bool             // ready is closed
	session  int64            // that the shown nodes are of
	refused  error            // why the user was
	whys     map[string]error // why there is no session, by server
	told     *zk.Conn         // the client that the user was told to
	shown    map[string][]zk.ACL
	watches  map[string]chan struct{}
	renewing *time.Timer // until the client is replaced
	shut     bool
	working  sync.WaitGroup
}

var errNoSession = errors.New("no server of the ensemble answers")

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func newLink(t *target, o settings) *link {
	return &link{target: t, o: o, ready: make(chan struct{}), whys: map[string]error{}, shown: map[string][]zk.ACL{}, watches: map[string]chan struct{}{}}
}

// connect is called with mu held.
func (l *link) connect() {
	var client *zk.Conn
	known := make(chan struct{})
	on := func(e zk.Event) {
		if e.Type == zk.EventSession {
			go func() {
				<-known
				l.turned(client, e.State)
			}()
		}
	}
	var err error
	client, _, err = zk.Connect(l.target.servers, l.o.timeout, zk.WithLogger(quiet{}), zk.WithLogInfo(false), zk.WithDialer(l.dial), zk.WithEventCallback(on),
		zk.WithHostProvider(&hosts{}))
	if err != nil {
		panic(err) // it has no servers, which parseURL refuses
	}
	l.client = client
	close(known)
	l.renew()
}

// dial connects to a server, whose answers are looked at before the client gets them.
func (l *link) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := l.o.dial(network, address, timeout)
	if err != nil {
		l.note(address, err)
		return nil, err
	}
	if l.target.tls {
		secured, err := l.target.secure(conn, address, timeout)
		if err != nil {
			_ = conn.Close()
			l.note(address, err)
			return nil, err
		}
		conn = secured
	}
	w := &wire{Conn: conn, most: l.o.timeout * 2 / 3, failed: func(err error) { l.note(address, fmt.Errorf("%s: %w", address, err)) }}
	if l.target.sasl {
		w.sasl = &saslUser{l.target.user, l.target.password}
	}
	return w, nil
}

// note keeps why there is no session with a server, until there is one with any.
func (l *link) note(address string, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.shut {
		l.whys[address] = why
	}
}

// silent is the error of a call without a session. It is called with mu held.
func (l *link) silent() error {
	var whys []string
	for _, address := range slices.Sorted(maps.Keys(l.whys)) {
		if errors.Is(l.whys[address], zk.ErrAuthFailed) {
			return l.whys[address]
		}
		whys = append(whys, l.whys[address].Error())
	}
	if len(whys) == 0 {
		return errNoSession
	}
	return fmt.Errorf("%w (%s)", errNoSession, strings.Join(whys, "; "))
}

// renew replaces the client unless it has a session in a while. It is called with mu held.
func (l *link) renew() {
	if l.renewing != nil || l.shut {
		return
	}
	l.renewing = time.AfterFunc(2*l.o.timeout, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.renewing = nil
		if l.open || l.shut {
			return
		}
		old := l.client
		l.working.Go(old.Close)
		l.connect()
	})
}

// turned deals with what has become of a client's session. Events may come in another order than they happened, so it asks.
func (l *link) turned(client *zk.Conn, state zk.State) {
	l.mu.Lock()
	if client != l.client || l.shut {
		l.mu.Unlock()
		return
	}
	if state != zk.StateHasSession || client.State() != zk.StateHasSession {
		if client.State() != zk.StateHasSession && l.open {
			l.open, l.ready = false, make(chan struct{})
		}
		if !l.open {
			l.renew()
		}
		l.mu.Unlock()
		return
	}
	l.working.Add(1)
	l.mu.Unlock()
	defer l.working.Done()
	l.begin(client)
}

// begin makes a session ready: the user is told again by the client itself after the first time, and only then it is worth showing nodes.
func (l *link) begin(client *zk.Conn) {
	session := client.SessionID()
	l.mu.Lock()
	fresh := session != l.session
	told := l.told == client
	l.mu.Unlock()
	var refused error
	if !told && l.target.user != "" && !l.target.sasl {
		refused = client.AddAuth("digest", []byte(l.target.user+":"+l.target.password))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if client != l.client || l.shut || client.State() != zk.StateHasSession || client.SessionID() != session {
		return
	}
	l.refused = refused
	clear(l.whys)
	if refused == nil {
		l.told = client
	}
	if fresh {
		l.session = session
		for path, acl := range l.shown {
			l.working.Go(func() { _ = place(client, path, acl) })
		}
	}
	if !l.open {
		l.open = true
		close(l.ready)
	}
	if l.renewing != nil {
		l.renewing.Stop()
		l.renewing = nil
	}
}

// get returns the client once it has a session.
func (l *link) get(ctx context.Context) (*zk.Conn, error) {
	err := ctx.Err()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	if l.client == nil && !l.shut {
		l.connect()
	}
	client, ready, open, refused, shut := l.client, l.ready, l.open, l.refused, l.shut
	l.mu.Unlock()
	switch {
	case shut:
		return nil, ErrClosed
	case open && refused != nil:
		return nil, refused
	case open:
		return client, nil
	}
	over := time.NewTimer(l.o.timeout)
	defer over.Stop()
	select {
	case <-ready:
		return l.get(ctx)
	case <-ctx.Done():
		err = ctx.Err()
	case <-over.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", l.silent(), err)
	}
	return nil, l.silent()
}

// session is one of a client.
type session struct {
	client *zk.Conn
	id     int64
}

// where returns the session that calls are made in. What one session shows never gets older; another one may begin at a
// server that is behind.
func (l *link) where(ctx context.Context) (session, error) {
	client, err := l.get(ctx)
	if err != nil {
		return session{}, err
	}
	return session{client, client.SessionID()}, nil
}

// call calls the client. The call may go on when its context has ended.
func call[T any](ctx context.Context, l *link, f func(*zk.Conn) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	client, err := l.get(ctx)
	if err != nil {
		return *new(T), err
	}
	answered := make(chan answer, 1)
	l.mu.Lock()
	if l.shut {
		l.mu.Unlock()
		return *new(T), ErrClosed
	}
	l.working.Add(1)
	l.mu.Unlock()
	go func() {
		defer l.working.Done()
		value, err := f(client)
		answered <- answer{value, err}
	}()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		return *new(T), ctx.Err()
	}
}

// watch returns a channel that is closed when a node is created, changed or deleted, and when the session is lost.
func (l *link) watch(ctx context.Context, path string) (<-chan struct{}, error) {
	l.mu.Lock()
	w := l.watches[path]
	l.mu.Unlock()
	if w != nil {
		return w, nil
	}
	return call(ctx, l, func(client *zk.Conn) (<-chan struct{}, error) {
		_, _, events, err := client.ExistsW(path)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		w := l.watches[path]
		if w == nil {
			w = make(chan struct{})
			l.watches[path] = w
		}
		l.working.Go(func() {
			<-events
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.watches[path] == w {
				delete(l.watches, path)
				close(w)
			}
		})
		return w, nil
	})
}

// place creates a node of the client's session. One of a session before may still be there, and would end with that.
func place(client *zk.Conn, path string, acl []zk.ACL) error {
	for {
		_, err := client.Create(path, nil, zk.FlagEphemeral, acl)
		if !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
		there, stat, err := client.Exists(path)
		if err != nil || there && stat.EphemeralOwner == client.SessionID() {
			return err
		}
		if err := client.Delete(path, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
}

// show creates a node that is there for as long as the link is connected, also in sessions to come.
func (l *link) show(ctx context.Context, path string, acl []zk.ACL) error {
	l.mu.Lock()
	l.shown[path] = acl
	l.mu.Unlock()
	_, err := call(ctx, l, func(client *zk.Conn) (struct{}, error) { return struct{}{}, place(client, path, acl) })
	return err
}

// hide deletes a node that show has created.
func (l *link) hide(ctx context.Context, path string) error {
	l.mu.Lock()
	delete(l.shown, path)
	l.mu.Unlock()
	_, err := call(ctx, l, func(client *zk.Conn) (struct{}, error) { return struct{}{}, client.Delete(path, -1) })
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// close ends the session, and what waits for it.
func (l *link) close() {
	l.mu.Lock()
	l.shut = true
	client := l.client
	if l.renewing != nil {
		l.renewing.Stop()
	}
	l.mu.Unlock()
	if client != nil {
		client.Close()
	}
	l.working.Wait()
}
