package storetest

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/cronlease/cronlease/store"
)

const (
	// alice and bob are replicas; the others differ from alice in ways that a
	// database may ignore.
	alice       = "worker/alice/1/x"
	bob         = "worker/bob/2/y"
	carol       = "worker/carol/3/z"
	aliceUpper  = "Worker/alice/1/x"
	aliceLonger = "worker/alice/1/x-"

	group    = "billing"
	otherOne = "indexing"
	ttl      = 15 * time.Second
)

// env is one case on one database.
type env struct {
	testing.TB
	h     Harness
	limit context.Context
}

// ctx ends with the harness's patience.
func (e *env) ctx() context.Context { return e.limit }

func (e *env) ok(err error, what string) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v, want no error", what, err)
	}
}

func (e *env) equal(got, want any, what string) {
	e.Helper()
	if got != want {
		e.Errorf("%s: %v, want %v", what, got, want)
	}
}

// open opens a store of the database, which has to implement S.
func open[S store.Leases](e *env) S {
	e.Helper()
	opened := e.h.Open(e.TB)
	s, ok := opened.(S)
	if !ok {
		e.Fatalf("Harness.Open returned a %T: it does not implement %v", opened, reflect.TypeFor[S]())
	}
	return s
}
