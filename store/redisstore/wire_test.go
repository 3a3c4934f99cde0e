package redisstore_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"sync"
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

// A server may repeat what it was sent: one that does not know a command does, and so may one that is not Redis.
func TestAnswerRepeatsThePassword(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"ERR unknown command 'auth', with args beginning with: 'app' 'canary17' ",
		"ERR unknown command `auth`, with args beginning with: `app`, `canary17`, ",
		"ERR you said auth app canary17",
	} {
		addr := answering(t, answer)
		for _, url := range []string{"redis://app:canary17@" + addr, "redis+sentinel://" + addr + "/primary?sentinel_user=app&sentinel_password=canary17"} {
			s, err := redisstore.Open(url)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			_, err = s.Read(ctx, "g")
			if err == nil || strings.Contains(err.Error(), "canary17") {
				t.Errorf("Read: %v", err)
			}
			for _, f := range s.Examine(ctx, 0) {
				if strings.Contains(f.Text+f.Cure, "canary17") {
					t.Errorf("%+v", f)
				}
			}
			cancel()
			_ = s.Close()
		}
		if !strings.Contains(answer, "unknown command") {
			continue // what a client of the caller sends, the store does not know
		}
		client := redis.NewClient(&redis.Options{Addr: addr, Username: "app", Password: "canary17", MaxRetries: -1})
		s, err := redisstore.New(client)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.Read(t.Context(), "g"); err == nil || strings.Contains(err.Error(), "canary17") {
			t.Errorf("Read by the caller's client: %v", err)
		}
		_, _ = s.Close(), client.Close()
	}
}

// answering is the address of a server that answers every command with an error.
func answering(t *testing.T, answer string) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					if strings.HasPrefix(lines.Text(), "*") { // the beginning of a command
						_, _ = io.WriteString(conn, "-"+answer+"\r\n")
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	return listener.Addr().String()
}
