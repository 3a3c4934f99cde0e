package config_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/execjob"
)

func TestExec(t *testing.T) {
	t.Parallel()
	c := parse(t, job("name: a", "every: 1m", "exec: [x]", "dir: /var/lib/x", "umask: 027", "user: www-data:1000",
		"limits: {memory: 512M, file_size: 2T, open_files: 100, processes: 20, cpu: 10m}"))
	mask := 0o27
	want := execjob.Settings{
		Dir: "/var/lib/x", Umask: &mask, User: "www-data:1000",
		Limits: execjob.Limits{Memory: 512 << 20, FileSize: 2 << 40, OpenFiles: 100, Processes: 20, CPU: 10 * time.Minute},
	}
	if got := c.Jobs[0].Settings; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
