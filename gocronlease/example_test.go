package gocronlease_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/cronlease/cronlease/gocronlease"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store/memstore"
)

// With an elector, gocron starts jobs on the replica that leads.
func ExampleNewElector() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	elector, err := gocronlease.NewElector(ctx, memstore.New(), "billing")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		fmt.Println(err)
		return
	}
	ran := make(chan struct{}, 1)
	job := func() {
		select {
		case ran <- struct{}{}:
			fmt.Println("ran")
		default:
		}
	}
	if _, err := s.NewJob(gocron.DurationJob(100*time.Millisecond), gocron.NewTask(job)); err != nil {
		fmt.Println(err)
		return
	}
	s.Start()
	<-ran
	if err := s.Shutdown(); err != nil {
		fmt.Println(err)
	}
	stop() // the elector steps down
	fmt.Println("released:", elector.Wait(context.Background()))
	// Output:
	// ran
	// released: <nil>
}

// With a locker, each replica starts jobs, one at a time for each name.
func ExampleNewLocker() {
	ctx := context.Background()
	client, err := locks.New(memstore.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(gocronlease.NewLocker(client)))
	if err != nil {
		fmt.Println(err)
		return
	}
	ran := make(chan struct{})
	_, err = s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
		gocron.NewTask(func() { close(ran) }), gocron.WithName("report"))
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Start()
	<-ran
	fmt.Println(s.Shutdown())
	// Output: <nil>
}
