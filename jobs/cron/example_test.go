package cron_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/jobs/cron"
)

func Example() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := cron.Parse("0 30 2 * * *", cron.In(berlin))
	if err != nil {
		fmt.Println(err)
		return
	}
	// On 29 March 2026 there is no 02:30 in Berlin, on 25 October there are two.
	for _, day := range []string{"2026-03-28", "2026-10-24"} {
		now, _ := time.ParseInLocation(time.DateOnly, day, berlin)
		for range 3 {
			now = e.Next(now)
			fmt.Println(now.Format(time.RFC3339), now.In(berlin).Format("15:04 MST"))
		}
	}
	// Output:
	// 2026-03-28T01:30:00Z 02:30 CET
	// 2026-03-29T01:30:00Z 03:30 CEST
	// 2026-03-30T00:30:00Z 02:30 CEST
	// 2026-10-24T00:30:00Z 02:30 CEST
	// 2026-10-25T00:30:00Z 02:30 CEST
	// 2026-10-26T01:30:00Z 02:30 CET
}

func ExampleWithDialect() {
	monday := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for _, dialect := range []cron.Dialect{cron.Spring, cron.Quartz} {
		e, err := cron.Parse("0 0 9 ? * 2", cron.WithDialect(dialect))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(dialect, e.Next(monday).Format("Mon 15:04"))
	}
	// Output:
	// spring Tue 09:00
	// quartz Mon 09:00
}

func ExampleExpression_Prev() {
	e, err := cron.Parse("0 0 18 LW * *")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Prev(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)))
	// Output: 2026-05-29 18:00:00 +0000 UTC
}

func ExampleError() {
	_, err := cron.Parse("0 0 25 * * *")
	fmt.Println(err)
	var refused *cron.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Field, refused.Offset)
	}
	// Output:
	// cron: hours "25" in "0 0 25 * * *": at most 23
	// hours 4
}
