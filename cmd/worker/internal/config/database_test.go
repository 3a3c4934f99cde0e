package config_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/cmd/worker/internal/sqljob"
)

func TestDatabase(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]struct{ kind, open, show string }{
		"sqlite:/var/lib/x.db":   {config.SQLite, "/var/lib/x.db", "sqlite:/var/lib/x.db"},
		"sqlite:///var/lib/x.db": {config.SQLite, "/var/lib/x.db", "sqlite:/var/lib/x.db"},
		"sqlite:x ${EVERY}.db":   {config.SQLite, "x 5m.db", "sqlite:x 5m.db"},
		"${URL}":                 {config.MySQL, "mysql://me:canary@db.example:3306/app", "mysql://me@db.example:3306/app"},
		"mysql://h/d":            {config.MySQL, "mysql://h/d", "mysql://h/d"},
		"mysql://u:canary%40@h:1/d?tls=true&x=canary":  {config.MySQL, "mysql://u:canary%40@h:1/d?tls=true&x=canary", "mysql://u@h:1/d"},
		"mysql://u:${PASSWORD}@h:1/d":                  {config.MySQL, "mysql://u:canary%2Fp%23a%3As%25%40%22%27s%3F@h:1/d", "mysql://u@h:1/d"},
		"mysql://u:${PASSWORD}@a:1, b,[::1]:2/d?x=1":   {config.MySQL, "mysql://u:canary%2Fp%23a%3As%25%40%22%27s%3F@a:1,b,[::1]:2/d?x=1", "mysql://u@a:1,b,[::1]:2/d"},
		"mysql://u:x,y@a,b/d":                          {config.MySQL, "mysql://u:x,y@a,b/d", "mysql://u@a,b/d"},
		"mysql://u@${HOSTS}/d":                         {config.MySQL, "mysql://u@a,b:2/d", "mysql://u@a,b:2/d"},
		"mysql://u:p@ss@h/d":                           {config.MySQL, "mysql://u:p%40ss@h/d", "mysql://u@h/d"},
		"mysql://u:canary@/d?socket=/run/s&ca=/canary": {config.MySQL, "mysql://u:canary@/d?socket=/run/s&ca=/canary", "mysql://u@/d?socket=/run/s"},
		"redis://:canary@h":                            {config.Redis, "redis://:canary@h", "redis://h"},
		"redis://u:${PASSWORD}@h:1/2?ca=/canary":       {config.Redis, "redis://u:canary%2Fp%23a%3As%25%40%22%27s%3F@h:1/2?ca=/canary", "redis://u@h:1/2"},
		"rediss+sentinel://u:p@a,b:2/m/1":              {config.Redis, "rediss+sentinel://u:p@a,b:2/m/1", "rediss+sentinel://u@a,b:2/m/1"},
		"redis+cluster://u@${HOSTS}?name={x}":          {config.Redis, "redis+cluster://u@a,b:2?name={x}", "redis+cluster://u@a,b:2"},
		"zk://u:${PASSWORD}@a:1,b/x/y":                 {config.ZooKeeper, "zk://u:canary%2Fp%23a%3As%25%40%22%27s%3F@a:1,b/x/y", "zk://u@a:1,b/x/y"},
		"zk://h":                                       {config.ZooKeeper, "zk://h", "zk://h"},
		"zks://u:canary@h/r?auth=sasl&ca=/canary":      {config.ZooKeeper, "zks://u:canary@h/r?auth=sasl&ca=/canary", "zks://u@h/r"},
		"redis:///1?socket=/run/s&pool_size=2":         {config.Redis, "redis:///1?socket=/run/s&pool_size=2", "redis:///1?socket=/run/s"},
		"mysql://u:$${x}@h/d":                          {config.MySQL, "mysql://u:$%7Bx%7D@h/d", "mysql://u@h/d"},
	} {
		t.Run(raw, func(t *testing.T) {
			t.Parallel()
			d, err := config.ParseDatabase(raw, variables)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "kind", d.Kind(), want.kind)
			equal(t, "open", d.Open(), want.open)
			for _, shown := range []string{d.String(), fmt.Sprintf("%v", d), fmt.Sprintf("%+v", d), fmt.Sprintf("%#v", d), fmt.Sprintf("%+v", &d)} {
				equal(t, "shown", shown, want.show)
			}
			c := config.Config{Database: d}
			for _, format := range []string{"%v", "%+v", "%#v"} {
				if shown := fmt.Sprintf(format, c); strings.Contains(shown, "canary") {
					t.Errorf("%s shows the password: %s", format, shown)
				}
			}
		})
	}
}

func TestSQL(t *testing.T) {
	t.Parallel()
	c := parse(t, `
database: sqlite:x
group: g
jobs:
  - name: a
    every: 1m
    sql:
      - DELETE FROM session WHERE 1 > 0
      - {statement: "INSERT INTO log VALUES (?, ?, ${EVERY}, '?')", args: [tick, token]}
      - statement: INSERT INTO log VALUES ('a\\b')
`)
	want := []sqljob.Statement{
		{Text: "DELETE FROM session WHERE 1 > 0"},
		{Text: "INSERT INTO log VALUES (?, ?, 5m, '?')", Args: []string{"tick", "token"}},
		{Text: `INSERT INTO log VALUES ('a\\b')`},
	}
	if got := c.Jobs[0].SQL; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
}
