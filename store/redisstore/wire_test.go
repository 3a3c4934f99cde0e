package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/redisstore"
)

// A server that has no connection left is named, with what helps. What it says is lost now and then.
func TestNoConnectionIsLeft(t *testing.T) {
	t.Parallel()
	server := start(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 1})
	defer admin.Close()
	if err := admin.ConfigSet(t.Context(), "maxclients", "1").Err(); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"", "app:secret@"} {
		for range 20 {
			s, err := redisstore.Open("redis://" + user + server.Addr())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Read(t.Context(), "g"); err == nil || !strings.Contains(err.Error(), "maxclients") && !strings.Contains(err.Error(), "no connection left") {
				t.Errorf("%q: Read: %v", user, err)
			}
			if f := s.Examine(t.Context(), 0)[0]; f.Grade != store.Problem || !strings.Contains(f.Cure, "raise maxclients") {
				t.Errorf("%q: %+v", user, f)
			}
			_ = s.Close()
		}
	}
}

// A connection that ends after it was used says nothing about TLS.
func TestEndedConnection(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr())
	proxy := dbtest.NewRedisProxy(t, shared.Addr())
	s := open(t, proxy.Addr(), b.name)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := s.Read(ctx, "g"); err != nil {
		t.Fatal(err)
	}
	lost := proxy.DropReply("evalsha")
	_, err := s.Read(ctx, "g")
	<-lost
	if err == nil || ctx.Err() != nil || strings.Contains(err.Error(), "TLS") {
		t.Errorf("the answer was lost: %v", err)
	}
}
