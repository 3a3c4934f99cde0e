package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/internal/dbserver"
)

// downAfter is how long a server does not answer until a cluster takes it for dead, in milliseconds.
const downAfter = "1000"

// slots is how many slots a cluster has.
const slots = 16384

// Cluster is a cluster of three servers that share the slots, each with a replica. Its methods happen one at a time.
type Cluster struct {
	Servers  [3]*Server
	Replicas [3]*Server
}

// StartCluster starts a cluster, and returns when all its servers know that it is complete.
func StartCluster(ctx context.Context, program string) (c *Cluster, err error) {
	c = &Cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	for i := range c.Servers {
		for _, s := range []**Server{&c.Servers[i], &c.Replicas[i]} {
			*s = New(program, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(dbserver.RandomPort()), "--cluster-node-timeout", downAfter,
				"--repl-diskless-sync-delay", "0")
			if err := (*s).Start(ctx); err != nil {
				return c, err
			}
		}
	}
	return c, c.form(ctx)
}

// form makes the servers one cluster.
func (c *Cluster) form(ctx context.Context) error {
	ids := map[*Server]string{}
	for i, s := range c.Servers {
		from, to := i*slots/len(c.Servers), (i+1)*slots/len(c.Servers)-1
		if err := s.do(ctx, "CLUSTER", "ADDSLOTSRANGE", from, to); err != nil {
			return err
		}
	}
	for _, s := range c.all() {
		id, err := s.ClusterID(ctx)
		if err != nil {
			return err
		}
		ids[s] = id
		host, port, err := net.SplitHostPort(s.Addr())
		if err != nil {
			return err
		}
		if err := c.Servers[0].do(ctx, "CLUSTER", "MEET", host, port, s.args[3]); err != nil {
			return err
		}
	}
	for i, r := range c.Replicas {
		if err := until(ctx, "a replica joins", func() bool { return r.do(ctx, "CLUSTER", "REPLICATE", ids[c.Servers[i]]) == nil }); err != nil {
			return err
		}
	}
	return until(ctx, "the cluster is complete", func() bool {
		for _, s := range c.all() {
			if state, err := s.info(ctx); err != nil || state["cluster_state"] != "ok" || state["cluster_known_nodes"] != "6" || state["cluster_slots_ok"] != strconv.Itoa(slots) {
				return false
			}
		}
		for _, r := range c.Replicas {
			client := r.client()
			all, err := client.InfoMap(ctx, "replication").Result()
			_ = client.Close()
			if err != nil || all["Replication"]["master_link_status"] != "up" {
				return false
			}
		}
		return true
	})
}

func (c *Cluster) all() []*Server {
	return append(append([]*Server(nil), c.Servers[:]...), c.Replicas[:]...)
}

// ClusterID is the server's name in its cluster.
func (s *Server) ClusterID(ctx context.Context) (string, error) {
	client := s.client()
	defer client.Close()
	return client.Do(ctx, "CLUSTER", "MYID").Text()
}

// info is what a server of a cluster says of that.
func (s *Server) info(ctx context.Context) (map[string]string, error) {
	client := s.client()
	defer client.Close()
	text, err := client.ClusterInfo(ctx).Result()
	is := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		is[name] = value
	}
	return is, err
}

// Close kills all servers and removes their data.
func (c *Cluster) Close() error {
	var wrong []error
	for _, s := range c.all() {
		if s != nil {
			wrong = append(wrong, s.Close())
		}
	}
	return errors.Join(wrong...)
}

func (s *Server) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
}

func (s *Server) do(ctx context.Context, command ...any) error {
	client := s.client()
	defer client.Close()
	if err := client.Do(ctx, command...).Err(); err != nil {
		return fmt.Errorf("%v: %w", command, err)
	}
	return nil
}

// until waits until something is so.
func until(ctx context.Context, what string, is func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, ctx.Err())
		}
	}
	return nil
}
