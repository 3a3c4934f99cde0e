package config

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cronlease/cronlease/cmd/worker/internal/httpjob"
)

var httpFields = []field[httpjob.Request]{
	{"url", func(v value, r *httpjob.Request) {
		either(v, yaml.MappingNode, func(v value) {
			found := readMapping(v, "an address", urlFields, r)
			require(v, found, "file", "the file that holds the URL")
		}, func(v value) { readURL(v, r) })
	}},
	{"method", func(v value, r *httpjob.Request) {
		if i := readOneOf(v, methods...); i >= 0 {
			r.Method = methods[i]
		}
	}},
	{"headers", readHeaders},
	{"body", func(v value, r *httpjob.Request) {
		either(v, yaml.MappingNode, func(v value) {
			found := readMapping(v, "a body", bodyFields, r)
			exactlyOne(v, found, "file", "template")
		}, func(v value) {
			if t, ok := readSecret(v, "text, {file: /etc/worker/body.json}, or {template: ...} that is filled in with the arguments of the run", &r.Secrets); ok {
				r.Body = t.expanded
			}
		})
	}},
	{"expect", func(v value, r *httpjob.Request) {
		const what = "a list of status codes such as [200, 404] or [2xx]"
		readList(v, what, func(v value) {
			if t, ok := readText(v, what); ok {
				codes, err := httpjob.ParseCodes(t.expanded)
				if err != nil {
					t.bad("%v", err)
					return
				}
				r.Expect = append(r.Expect, codes)
			}
		})
	}},
	{"ca", func(v value, r *httpjob.Request) { r.TLS.CA = readPath(v, "/etc/ssl/internal-ca.pem") }},
	{"cert", func(v value, r *httpjob.Request) { r.TLS.Cert = readPath(v, "/etc/worker/client.pem") }},
	{"key", func(v value, r *httpjob.Request) { r.TLS.Key = readPath(v, "/run/secrets/client-key.pem") }},
}

// urlFields are the keys of an address that is not its text.
var urlFields = []field[httpjob.Request]{
	{"file", func(v value, r *httpjob.Request) { r.URLFile = readPath(v, "/run/secrets/hook") }},
}

func readURL(v value, r *httpjob.Request) {
	const what = `an absolute URL such as "http://127.0.0.1:8080/ping", or {file: /run/secrets/hook}`
	if t, ok := readSecret(v, what, &r.Secrets); ok {
		if err := httpjob.CheckURL(t.expanded); err != nil { // it may hold a password, and so is not shown
			t.report("%v", err)
			return
		}
		u, _ := url.Parse(t.expanded) // it was checked
		if password, ok := u.User.Password(); ok {
			r.Secrets = append(r.Secrets, password)
		}
		r.URL = t.expanded
	}
}

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

var bodyFields = []field[httpjob.Request]{
	{"file", func(v value, r *httpjob.Request) { r.BodyFile = readPath(v, "/etc/worker/body.json") }},
	{"template", func(v value, r *httpjob.Request) {
		const what = `a template in Go's text/template such as '{"text": {{json .text}}}'`
		if t, ok := readSecret(v, what, &r.Secrets); ok {
			if err := httpjob.CheckTemplate(t.expanded); err != nil || t.expanded == "" {
				t.report("expected %s: %v", what, err)
			}
			r.Template = t.expanded
		}
	}},
}

// headerFields are the keys of a header whose value is not its text.
var headerFields = []field[httpjob.Header]{
	{"file", func(v value, h *httpjob.Header) { h.File = readPath(v, "/run/secrets/token") }},
	{"prefix", func(v value, h *httpjob.Header) {
		if t, ok := readText(v, `the text before the file's, such as "Bearer "`); ok {
			reportAt(t.value, httpjob.CheckHeaderValue(t.expanded))
			h.Prefix = t.expanded
		}
	}},
}

func readHTTP(v value, f *jobFile) {
	request := httpjob.Request{Method: "POST"}
	found := readMapping(v, `a request such as {url: "http://127.0.0.1:8080/ping"}`, httpFields, &request)
	require(v, found, "url", "the address to send the request to")
	for _, pair := range [][2]string{{"cert", "key"}, {"key", "cert"}} {
		onlyBeside(found, pair[0], "a client's certificate and its key belong together", pair[1])
	}
	if u, err := url.Parse(request.URL); err == nil && request.URL != "" {
		for _, key := range []string{"ca", "cert", "key"} {
			if at, ok := found[key]; ok && u.Scheme == "http" {
				at.report("expected it only for an https URL")
			}
		}
		authorized := func(h httpjob.Header) bool { return strings.EqualFold(h.Name, "Authorization") }
		if u.User != nil && slices.ContainsFunc(request.Headers, authorized) {
			found["headers"].report("Authorization beside a user in url: expected only one of them")
		}
	}
	f.job.HTTP = &request
	if f.job.About = request.Method + " the URL in " + request.URLFile; request.URLFile == "" && request.URL != "" {
		at, _ := found["url"].resolve()
		f.job.About = request.Method + " " + hostOf(at.node.Value)
	}
}

// readHeaders reads the headers: each has its text, or a file that holds it.
func readHeaders(v value, r *httpjob.Request) {
	const what = `headers such as {Content-Type: application/json, Authorization: {file: /run/secrets/token, prefix: "Bearer "}}`
	readNamed(v, what, "a header's name such as Authorization", http.CanonicalHeaderKey, httpjob.CheckHeader, func(v value, name string) {
		h := httpjob.Header{Name: name}
		either(v, yaml.MappingNode, func(v value) {
			found := readMapping(v, "a value", headerFields, &h)
			require(v, found, "file", "the file that holds the value")
		}, func(v value) {
			if t, ok := readSecret(v, "text, or {file: /run/secrets/token}", &r.Secrets); ok {
				reportAt(t.value, httpjob.CheckHeaderValue(t.expanded))
				h.Value = t.expanded
			}
		})
		r.Headers = append(r.Headers, h)
	})
}

// readSecret reads a text that may hold secrets, and notes the values of its
// variables, which are.
func readSecret(v value, what string, secrets *[]string) (text, bool) {
	t, ok := readRaw(v, what)
	if !ok {
		return t, false
	}
	lookup := func(name string) (string, bool) {
		value, ok := t.doc.lookup(name)
		*secrets = append(*secrets, value)
		return value, ok
	}
	if t.doc.lookup == nil {
		lookup = nil
	}
	return t.expand(lookup)
}
