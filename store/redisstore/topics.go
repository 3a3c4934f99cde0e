package redisstore

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// topics are the channels of the server that a store listens to, by one connection. A listener is woken by each message, and whenever
// its channel was subscribed to again after the connection was lost, since a message may have been lost with it.
type topics struct {
	client redis.UniversalClient

	mu        sync.Mutex
	pubsub    *redis.PubSub // nil: nothing was listened to yet
	done      chan struct{} // closed when no message is dealt with any more
	listeners map[string]map[*listener]struct{}
	leaving   map[string]chan struct{} // closed when the server has confirmed that a channel was left
	shut      bool
}

// listener listens to a channel.
type listener struct {
	topics  *topics
	channel string
	ready   chan struct{} // closed when the server has confirmed
	once    sync.Once
	woken   chan struct{} // of capacity 1
}

func newTopics(client redis.UniversalClient) *topics {
	return &topics{client: client, listeners: map[string]map[*listener]struct{}{}, leaving: map[string]chan struct{}{}, done: make(chan struct{})}
}

// listen begins to listen, and returns when the server has confirmed it.
func (t *topics) listen(ctx context.Context, channel string) (*listener, error) {
	l := &listener{topics: t, channel: channel, ready: make(chan struct{}), woken: make(chan struct{}, 1)}
	if err := t.add(ctx, l); err != nil {
		l.stop()
		return nil, err
	}
	select {
	case <-l.ready:
		return l, nil
	case <-t.done:
		l.stop()
		return nil, ErrClosed
	case <-ctx.Done():
		l.stop()
		return nil, ctx.Err()
	}
}

func (t *topics) add(ctx context.Context, l *listener) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shut {
		return ErrClosed
	}
	if t.listeners[l.channel] == nil {
		t.listeners[l.channel] = map[*listener]struct{}{}
	}
	t.listeners[l.channel][l] = struct{}{}
	first := t.pubsub == nil
	if first {
		t.pubsub = t.client.Subscribe(ctx)
	}
	// The server confirms each subscription, also one of a channel that it has already. In a cluster, the first one
	// decides which server the connection leads to: the one whose scripts count the listeners.
	err := t.pubsub.Subscribe(ctx, l.channel)
	if first {
		go t.receive(t.pubsub.ChannelWithSubscriptions())
	}
	return err
}

func (t *topics) receive(messages <-chan any) {
	defer close(t.done)
	for message := range messages {
		switch m := message.(type) {
		case *redis.Subscription:
			switch m.Kind {
			case "subscribe":
				t.wake(m.Channel, true)
			case "unsubscribe":
				t.left(m.Channel)
			}
		case *redis.Message:
			t.wake(m.Channel, false)
		}
	}
}

func (t *topics) wake(channel string, subscribed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := range t.listeners[channel] {
		first := false
		if subscribed {
			l.once.Do(func() { close(l.ready); first = true })
		}
		if first {
			continue
		}
		select {
		case l.woken <- struct{}{}:
		default:
		}
	}
}

func (t *topics) left(channel string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if left := t.leaving[channel]; left != nil {
		close(left)
		delete(t.leaving, channel)
	}
}

// stop ends a listener. The channel that it returns is closed when the server has
// confirmed it, which it does not if the connection is lost before; nil: others listen to the same channel.
func (l *listener) stop() <-chan struct{} {
	t := l.topics
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.listeners[l.channel], l)
	if len(t.listeners[l.channel]) > 0 {
		return nil
	}
	delete(t.listeners, l.channel)
	if t.pubsub == nil || t.shut {
		return nil
	}
	left := t.leaving[l.channel]
	if left == nil {
		left = make(chan struct{})
		t.leaving[l.channel] = left
	}
	// If it does not reach the server, the connection is lost, and the next one has only
	// what is still listened to.
	_ = t.pubsub.Unsubscribe(context.Background(), l.channel)
	return left
}

func (t *topics) close() error {
	t.mu.Lock()
	pubsub := t.pubsub
	t.shut = true
	t.mu.Unlock()
	if pubsub == nil {
		return nil
	}
	err := pubsub.Close()
	<-t.done
	return err
}
