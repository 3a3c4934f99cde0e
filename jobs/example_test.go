package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // for a machine without zone data

	"github.com/cronlease/cronlease/jobs"
)

// A job that must not be lost: a tick that was missed is made up for, a run whose
// replica died is run again, and one that fails is tried three times.
func ExampleJob() {
	job := jobs.Job{
		Name:     "invoices.monthly",
		Schedule: jobs.Cron("0 0 2 1 * *").In("Europe/Berlin"),
		Timeout:  time.Hour,
		Misfire:  jobs.MisfireOnce,
		Recover:  jobs.RecoverRerun,
		Retry:    jobs.Retry{Attempts: 3, Initial: 10 * time.Second},
		Do: func(ctx context.Context, run jobs.Run) error {
			fmt.Println("invoices for", run.Tick.AddDate(0, -1, 0).Format("January 2006"))
			return nil
		},
	}
	fmt.Println(job.Validate())
	// A test can call the function without a scheduler.
	tick := job.Schedule.Next(time.Date(2027, 3, 15, 0, 0, 0, 0, time.UTC))
	fmt.Println(job.Call(context.Background(), jobs.Run{Job: job.Name, Tick: tick, Attempt: 1}))
	// Output:
	// <nil>
	// invoices for March 2027
	// <nil>
}

// What is wrong with a job is said before anything runs.
func ExampleJob_Validate() {
	job := jobs.Job{Name: "report", Schedule: jobs.Cron("0 0 25 * * *")}
	fmt.Println(job.Validate())
	job.Do = func(context.Context, jobs.Run) error { return nil }
	fmt.Println(job.Validate())
	// Output:
	// jobs: job "report": no Do: give it the function to run
	// jobs: job "report": cron: hours "25" in "0 0 25 * * *": at most 23
	// jobs: job "report": cron: hours "25" in "0 0 25 * * *": at most 23
}

// Ticks are instants in UTC; the zone only says what the expression means.
func ExampleCron() {
	schedule := jobs.Cron("0 30 8 * * MON-FRI").In("America/New_York")
	tick := time.Date(2027, 3, 12, 0, 0, 0, 0, time.UTC)
	for range 3 {
		tick = schedule.Next(tick)
		fmt.Println(tick)
	}
	// Output:
	// 2027-03-12 13:30:00 +0000 UTC
	// 2027-03-15 12:30:00 +0000 UTC
	// 2027-03-16 12:30:00 +0000 UTC
}

// Every has the phase of the clock, so all replicas agree on its ticks.
func ExampleEvery() {
	schedule := jobs.Every(15 * time.Minute)
	fmt.Println(schedule.Next(time.Date(2027, 1, 1, 9, 52, 0, 0, time.UTC)))
	// Output: 2027-01-01 10:00:00 +0000 UTC
}

// payday is the 25th of each month, or the Friday before if that is a weekend.
type payday struct{}

func (payday) String() string { return "payday" }

func (payday) Next(after time.Time) time.Time {
	for month := time.Date(after.Year(), after.Month(), 25, 9, 0, 0, 0, time.UTC); ; month = month.AddDate(0, 1, 0) {
		day := month
		for day.Weekday() == time.Saturday || day.Weekday() == time.Sunday {
			day = day.AddDate(0, 0, -1)
		}
		if day.After(after) {
			return day
		}
	}
}

// A schedule of one's own depends on nothing but the instant that it is asked
// about.
func ExampleSchedule() {
	job := jobs.Job{Name: "pay", Schedule: payday{}, Do: func(context.Context, jobs.Run) error { return nil }}
	fmt.Println(job.Validate())
	fmt.Println(job.Schedule.Next(time.Date(2027, 4, 1, 0, 0, 0, 0, time.UTC)))
	// Output:
	// <nil>
	// 2027-04-23 09:00:00 +0000 UTC
}

// Permanent keeps a failed run from being tried again.
func ExamplePermanent() {
	err := jobs.Permanent(errors.New("the customer has left"))
	fmt.Println(err, jobs.IsPermanent(err))
	// Output: the customer has left true
}
