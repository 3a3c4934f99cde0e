package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// redirectsMost is how often a command follows the slot of the store to another server of a cluster.
	redirectsMost = 5
	// redirectWait is the time before each, in which the client finds out which server that is.
	redirectWait = 50 * time.Millisecond
)

// onPrimary runs a command on the server that has the store's keys. In a cluster it goes there by itself, since the
// client of a cluster would repeat a command whose answer was lost. A server that has them no more has done nothing,
// and only then is the command repeated. While they move, it fails: see [script].
func (s *Store) onPrimary(ctx context.Context, do func(redis.UniversalClient) error) error {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return do(s.client)
	}
	for try := 1; ; try++ {
		server, err := cluster.MasterForKey(ctx, s.name)
		if err == nil {
			err = do(server)
		}
		if err == nil || isNil(err) {
			return err
		}
		_, moved := redis.IsMovedError(err)
		if answered := redis.Error(nil); moved || !errors.As(err, &answered) {
			cluster.ReloadState(ctx) // the server may have been replaced
		}
		if !moved || try > redirectsMost {
			return err
		}
		wait := time.NewTimer(redirectWait)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return err
		}
	}
}

// ask asks that server, and returns its answer.
func ask[T any](ctx context.Context, s *Store, question func(redis.UniversalClient) (T, error)) (answer T, err error) {
	err = s.onPrimary(ctx, func(c redis.UniversalClient) (err error) {
		answer, err = question(c)
		return err
	})
	return answer, err
}
