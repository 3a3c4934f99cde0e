package config_test

import (
	"reflect"
	"testing"

	"github.com/cronlease/cronlease/cmd/worker/internal/httpjob"
)

func TestHTTP(t *testing.T) {
	t.Parallel()
	c := parse(t, `
database: sqlite:x
group: g
jobs:
  - name: full
    every: 1m
    http:
      url: "https://user:canary1@x.example/?key=${BAD}"
      method: PUT
      headers: {Content-Type: application/json, X-Token: {file: /run/secrets/token, prefix: "Token "}, x-key: "k ${BAD}"}
      body: '{"every": "${EVERY}"}'
      expect: [2xx, 404]
      ca: /etc/ca.pem
      cert: /etc/cert.pem
      key: /etc/key.pem
  - {name: file, every: 1m, http: {url: "http://x/", body: {file: /etc/body.json}}}
`)
	want := httpjob.Request{
		Method: "PUT", URL: "https://user:canary1@x.example/?key=canary",
		Headers: []httpjob.Header{
			{Name: "Content-Type", Value: "application/json"}, {Name: "X-Token", File: "/run/secrets/token", Prefix: "Token "}, {Name: "x-key", Value: "k canary"},
		},
		Body: `{"every": "5m"}`, Expect: []httpjob.Codes{{First: 200, Last: 299}, {First: 404, Last: 404}},
		TLS:     httpjob.TLS{CA: "/etc/ca.pem", Cert: "/etc/cert.pem", Key: "/etc/key.pem"},
		Secrets: []string{"canary", "canary1", "canary", "5m"},
	}
	if got := *c.Jobs[0].HTTP; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	equal(t, "body", c.Jobs[1].HTTP.BodyFile, "/etc/body.json")
}
