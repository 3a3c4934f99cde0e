package locks_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store/memstore"
)

// Do holds a lock for as long as a function runs. The context that the function
// gets also ends when the lock is lost.
func ExampleClient_Do() {
	ctx := context.Background()
	client, err := locks.New(memstore.New(), locks.WithLabel("shop")) // one for the whole program
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)
	err = client.Do(ctx, "order/42", func(ctx context.Context) error {
		fmt.Println("holding order/42")
		return nil
	})
	fmt.Println(err)
	// Output:
	// holding order/42
	// <nil>
}

// Two processes want one lock: the one that only tries goes on without it.
func ExampleMutex_TryLock() {
	ctx := context.Background()
	database := memstore.New() // what the processes share
	shop, err := locks.New(database, locks.WithLabel("shop"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer shop.Close(ctx)
	office, err := locks.New(database, locks.WithLabel("office"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer office.Close(ctx)

	lock, err := shop.Mutex("order/42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = office.Mutex("order/42").TryLock(ctx)
	fmt.Println("busy:", errors.Is(err, locks.ErrBusy))

	fmt.Println(lock.Unlock(ctx))
	next, err := office.Mutex("order/42").TryLock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("a higher token:", next.Token() > lock.Token())
	fmt.Println(next.Unlock(ctx))
	// Output:
	// busy: true
	// <nil>
	// a higher token: true
	// <nil>
}

// LockFor limits how long a lock is held, even if its holder does not unlock it.
func ExampleMutex_LockFor() {
	ctx := context.Background()
	client, err := locks.New(memstore.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)
	lock, err := client.Mutex("report").LockFor(ctx, 50*time.Millisecond)
	if err != nil {
		fmt.Println(err)
		return
	}
	<-lock.Context().Done()
	fmt.Println(errors.Is(context.Cause(lock.Context()), locks.ErrLimit))
	fmt.Println(errors.Is(lock.Unlock(ctx), locks.ErrLimit))
	// Output:
	// true
	// true
}

// Readers share a lock, and a writer waits until the last of them has gone.
func ExampleClient_RWMutex() {
	ctx := context.Background()
	client, err := locks.New(memstore.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)
	catalogue := client.RWMutex("catalogue")
	first, err := catalogue.RLock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := catalogue.RLock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = catalogue.TryLock(ctx)
	fmt.Println("a writer has to wait:", errors.Is(err, locks.ErrBusy))
	fmt.Println(errors.Join(first.Unlock(ctx), second.Unlock(ctx)))
	// Output:
	// a writer has to wait: true
	// <nil>
}
