package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/plainfile"
	"github.com/cronlease/cronlease/page"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

// What bounds a client. Events set deadlines of their own.
const (
	headersWithin = 5 * time.Second
	requestWithin = 30 * time.Second
	answerWithin  = time.Minute
	idleFor       = time.Minute
	maxHeaders    = 32 << 10 // bytes
	// endsWithin is how long requests may go on when the worker ends.
	endsWithin = time.Second
	maxPEM     = 1 << 20
)

// Mount is a handler beside the page, for GET requests.
type Mount struct {
	Path    string
	Handler http.Handler
}

// Server serves what a worker has to show, until it is closed.
type Server struct {
	listener net.Listener
	http     *http.Server
	end      context.CancelFunc
	wait     sync.WaitGroup
	log      *zap.Logger
}

// Start listens and serves. The store is for the page, and remains the caller's. With NoPage
// it is not used. The error says why it cannot listen.
func Start(set Settings, s *scheduler.Scheduler, db store.Jobs, log *zap.Logger, mounts ...Mount) (*Server, error) {
	if err := set.Check(); err != nil {
		return nil, err
	}
	handler, err := handlerOf(set, s, db, log, mounts)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", set.Address)
	if err != nil {
		return nil, err
	}
	// localhost may be any address.
	if at, ok := listener.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		if err := set.checkOpen(); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", listener.Addr(), err), listener.Close())
		}
		if set.PasswordFile != "" && set.Cert == "" && !set.NoPage {
			log.Warn("passwords of the page go over the network as they are: set listen.cert and listen.key, or have a proxy with TLS before it")
		}
	}
	for _, file := range []string{set.PasswordFile, set.Key} {
		if file != "" && plainfile.Exposed(file) {
			log.Warn("every user of this machine can read a file with secrets: chmod o-r takes that right away", zap.String("file", file))
		}
	}
	base, end := context.WithCancel(context.Background())
	server := &Server{listener: listener, end: end, log: log}
	server.http = &http.Server{
		Handler: handler, ReadHeaderTimeout: headersWithin, ReadTimeout: requestWithin, WriteTimeout: answerWithin, IdleTimeout: idleFor, MaxHeaderBytes: maxHeaders,
		BaseContext: func(net.Listener) context.Context { return base },
		ErrorLog:    zap.NewStdLog(log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))), // such as broken handshakes, which anybody can cause: not shown
		ConnState:   newConnections().changed,
	}
	serve := func() error { return server.http.Serve(listener) }
	if set.Cert != "" {
		server.http.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: set.certificate}
		serve = func() error { return server.http.ServeTLS(listener, "", "") }
	}
	server.wait.Go(func() {
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the page is not served any more", zap.Error(err)) // the jobs go on
		}
	})
	return server, nil
}

// Address is where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close ends the server: what goes on has a moment to finish.
func (s *Server) Close() error {
	s.end() // of events
	ctx, cancel := context.WithTimeout(context.Background(), endsWithin)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	s.wait.Wait()
	return err
}

// handlerOf is all that is served.
func handlerOf(set Settings, s *scheduler.Scheduler, db store.Jobs, log *zap.Logger, mounts []Mount) (http.Handler, error) {
	if set.NoPage {
		mux := http.NewServeMux()
		mux.Handle("/healthz", page.Healthz(s))
		mux.Handle("/readyz", page.Readyz(s))
		for _, m := range mounts {
			mux.Handle("GET "+m.Path, newShares(m.Handler))
		}
		return mux, nil
	}
	options := []page.Option{page.WithHosts(set.Hosts...), page.WithLogger(log)}
	if set.logins() {
		options = append(options, page.WithAuth(newLogin(set, s.Group(), log).user))
	}
	for _, m := range mounts {
		options = append(options, page.WithHandler(m.Path, newShares(m.Handler)))
	}
	return page.New(s, db, options...)
}

// certificate reads the certificate and its key, so that new ones count at once.
func (s Settings) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	cert, err := plainfile.Read(s.Cert, maxPEM)
	if err != nil {
		return nil, err
	}
	key, err := plainfile.Read(s.Key, maxPEM)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil { // which shows nothing of the key
		return nil, fmt.Errorf("%s and %s: expected a certificate and its key in PEM: %w", s.Cert, s.Key, err)
	}
	return &pair, nil
}
