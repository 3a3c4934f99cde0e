// Command receiver is a service that the worker's http jobs call. It has a
// database of its own, and refuses calls of replicas that have been replaced.
//
//	go run . 127.0.0.1:8080 /var/lib/receiver.db
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "modernc.org/sqlite"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: receiver ADDRESS FILE")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "receiver:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, address, path string) (err error) {
	r, err := open(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.db.Close()) }()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// open opens the database. Writers wait for each other, and begin as writers.
func open(ctx context.Context, path string) (*Receiver, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
	if err != nil {
		return nil, err
	}
	r := &Receiver{db: db}
	if err := r.Setup(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return r, nil
}
