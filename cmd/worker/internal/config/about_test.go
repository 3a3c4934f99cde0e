package config_test

import (
	"strings"
	"testing"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
)

// What a job does is told as the file has it: no variable's value is in it, and nothing that looks like a secret.
func TestAbout(t *testing.T) {
	t.Parallel()
	canary := func(string) (string, bool) { return "canary", true }
	for keys, want := range map[string]string{
		`exec: [/usr/local/bin/report, --full, "two words", "it's"]`:                             `/usr/local/bin/report --full 'two words' 'it'\''s'`,
		`exec: [report, "--token=${TOKEN}", --user, alice]`:                                      `report --token=${TOKEN} --user alice`,
		`exec: [report, --password, canary, --db-password=canary, -v, --api-key, canary]`:        `report --password (hidden) --db-password=(hidden) -v --api-key (hidden)`,
		`exec: [report, --password, "${PW}", --secret, --full]`:                                  `report --password ${PW} --secret --full`,
		`exec: [mysqldump, -u, root, -pcanary, app]`:                                             `mysqldump -u root (hidden) app`,
		`exec: [psql, "postgres://app:canary@db/app"]`:                                           `psql postgres://app:(hidden)@db/app`,
		`exec: [sh, -c, "curl -H 'Authorization: Bearer canary' -d API_TOKEN=canary http://x/"]`: `sh -c 'curl -H '\''Authorization: Bearer (hidden)'\'' -d API_TOKEN=(hidden) http://x/'`,
		`http: {url: "https://alice:canary@hooks.example.com/services/canary?key=canary"}`:       `POST https://hooks.example.com/…`,
		`http: {url: "http://127.0.0.1:8080/", method: GET}`:                                     `GET http://127.0.0.1:8080`,
		`http: {url: "http://${HOST}/hook"}`:                                                     `POST http://${HOST}/…`,
		`http: {url: {file: /run/secrets/hook}}`:                                                 `POST the URL in /run/secrets/hook`,
		`sql: ["DELETE FROM a WHERE b = '${B}'", {statement: "UPDATE a SET token = 'canary'"}]`:  "DELETE FROM a WHERE b = '${B}';\nUPDATE a SET token = '(hidden)'",
	} {
		text := "database: sqlite:x\ngroup: g\njobs:\n- {name: a, every: 1m, " + keys + "}\n"
		lookup := canary
		if strings.Contains(keys, "HOST}") {
			lookup = func(string) (string, bool) { return "canary.example.com", true }
		}
		c, err := config.Parse("worker.yaml", []byte(text), lookup)
		if err != nil {
			t.Errorf("%s: %v", keys, err)
		} else if got := c.Jobs[0].About; got != want {
			t.Errorf("%s: got %s, want %s", keys, got, want)
		}
	}
}
