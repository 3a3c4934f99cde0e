package jobs_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

func TestCheckArgs(t *testing.T) {
	long := `"` + strings.Repeat("x", jobs.MaxArgs-2) + `"`
	for args, want := range map[string]string{
		`{"x":1}`: "", `null`: "", " [1] \n": "", long: "",
		long + " ":      "65537 bytes: at most 65536",
		`{"x":secret}`:  "not JSON, at offset 6",
		`{"x":1} {}`:    "not JSON, at offset 9",
		``:              "not JSON",
		"\"\xff secr\"": "not UTF-8",
	} {
		err := jobs.CheckArgs([]byte(args))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", args, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secr") {
			t.Errorf("%.20q: %v: shows the arguments", args, err)
		}
	}
}

func TestArgsOf(t *testing.T) {
	type span struct {
		From time.Time
		Days int
	}
	run := func(args string) jobs.Run { return jobs.Run{Job: "report", Args: json.RawMessage(args)} }
	got, err := jobs.ArgsOf[span](run(`{"From":"2027-01-01T00:00:00Z","Days":3,"Other":true}`))
	if err != nil || got.Days != 3 || got.From.Year() != 2027 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := jobs.StrictArgsOf[span](jobs.Run{Job: "report"}); err != nil || got != (span{}) {
		t.Errorf("without arguments: %+v, %v", got, err)
	}
	for args, want := range map[string]string{
		`{"Days":"secret"}`:        `jobs: arguments of job "report", at offset 16: expected a value of type int in Days`,
		`{"Days":47.11}`:           `jobs: arguments of job "report", at offset 13: expected a value of type int in Days`,
		`{"From":"secret"}`:        `jobs: arguments of job "report", at offset *: does not fit a jobs_test.span`,
		`{"Days":1}{}`:             `jobs: arguments of job "report", at offset *: more than one value`,
		`{"Days":1,"Other":"47"}x`: `jobs: arguments of job "report", at offset *: unknown field "Other"`,
	} {
		_, err := jobs.StrictArgsOf[span](run(args))
		var bad *jobs.ArgsError
		before, after, _ := strings.Cut(want, "*")
		switch {
		case err == nil || !strings.HasPrefix(err.Error(), before) || !strings.HasSuffix(err.Error(), after):
			t.Errorf("%s: %v, want %s", args, err, want)
		case !errors.As(err, &bad) || bad.Job != "report" || !jobs.IsPermanent(err):
			t.Errorf("%s: %#v, want a permanent ArgsError", args, err)
		case strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "47"):
			t.Errorf("%s: %v: shows a value", args, err)
		}
	}
}
