package page_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
)

// form is that of an action on a job.
func form(action, job string) url.Values {
	values := url.Values{"action": {action}}
	if job != "" {
		values.Set("job", job)
	}
	return values
}

// with is a form with one more field.
func with(values url.Values, name, value string) url.Values {
	values.Set(name, value)
	return values
}

func (b *bench) snapshot() jobs.Snapshot {
	b.Helper()
	snapshot, err := b.scheduler.Jobs().Load(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return snapshot
}

func (b *bench) runs() []jobs.Record {
	b.Helper()
	runs, err := b.scheduler.Jobs().Runs(b.Context(), jobs.Filter{})
	if err != nil {
		b.Fatal(err)
	}
	return runs
}

var onceForm = regexp.MustCompile(`name="once" value="([A-Z0-9]+)"`)

// do carries an action out as a user does: it asks, and sends the form that is shown.
func (b *bench) do(values url.Values) answer {
	b.Helper()
	asked := b.is(b.get("/confirm?"+values.Encode()), http.StatusOK)
	once := onceForm.FindStringSubmatch(asked.body)
	if once == nil {
		b.Fatalf("the form has no number: %s", asked.body)
	}
	return b.is(b.send(http.MethodPost, "/do", with(values, "once", once[1])), http.StatusSeeOther)
}

// leadsTo checks where an action leads, and that the page says what was done.
func (b *bench) leadsTo(a answer, prefix, text string) {
	b.Helper()
	to := a.Header.Get("Location")
	if !strings.HasPrefix(to, prefix) || strings.HasPrefix(to, "/") {
		b.Errorf("leads to %q, want %s...", to, prefix)
	}
	if shown := b.is(b.get("/"+strings.TrimPrefix(to, "./")), http.StatusOK); !strings.Contains(shown.body, text) {
		b.Errorf("%s does not say %q", to, text)
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.leadsTo(b.do(form("pause", "report")), "job?name=report", "Paused.")
	if !b.snapshot().Jobs["report"].Paused {
		t.Error("the job is not paused")
	}
	b.leadsTo(b.do(form("resume", "report")), "job?name=report", "Resumed.")
	if b.snapshot().Jobs["report"].Paused {
		t.Error("the job is paused")
	}
	b.leadsTo(b.do(form("pause", "")), "./", "Paused.")
	if !b.snapshot().Paused {
		t.Error("the group is not paused")
	}
	b.leadsTo(b.do(with(form("resume", ""), "skip_missed", "1")), "./", "Resumed.")
	if b.snapshot().Paused {
		t.Error("the group is paused")
	}
}

// A form is carried out once, however often it is sent.
func TestTriggerOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	values := with(form("trigger", "report"), "args", ` {"mode": "repair"} `)
	b.leadsTo(b.do(values), "run?job=report", "The run is requested.")
	b.leadsTo(b.is(b.send(http.MethodPost, "/do", values), http.StatusSeeOther), "job?name=report", "This was done already")
	var manual []jobs.Record
	for _, r := range b.runs() {
		if r.Trigger != 0 {
			manual = append(manual, r)
		}
	}
	if len(manual) != 1 {
		t.Fatalf("runs: %+v", manual)
	}
	args, err := b.scheduler.Jobs().Args(t.Context(), manual[0].Key)
	if err != nil || string(args) != `{"mode":"repair"}` {
		t.Errorf("arguments %s, %v", args, err)
	}
}

// A form with a fault comes back with what was filled in, and can be sent again.
func TestFormsAreMended(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	wrong := with(form("trigger", "report"), "args", `{"mode": <script>`)
	wrong.Set("once", "ABC")
	a := b.is(b.send(http.MethodPost, "/do", wrong), http.StatusBadRequest)
	if !strings.Contains(a.body, "not JSON") || !strings.Contains(a.body, "{&#34;mode&#34;: &lt;script&gt;</textarea>") {
		t.Errorf("the form is not shown again: %s", a.body)
	}
	wrong.Set("args", "1")
	b.is(b.send(http.MethodPost, "/do", wrong), http.StatusSeeOther)

	a = b.is(b.send(http.MethodPost, "/do", with(form("backfill", "report"), "from", "yesterday")), http.StatusBadRequest)
	if !strings.Contains(a.body, "expected an instant") || !strings.Contains(a.body, `value="yesterday"`) {
		t.Errorf("the form is not shown again: %s", a.body)
	}
}

func TestBackfill(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	from := time.Now().Add(-150 * time.Minute).UTC()
	values := with(form("backfill", "report"), "from", from.Format("2006-01-02T15:04"))
	b.leadsTo(b.do(values), "job?name=report", "The backfill is requested.")
	b.wait("the runs of the backfill", func() bool {
		n := 0
		for _, r := range b.runs() {
			if r.Trigger != 0 && r.State == jobs.Succeeded {
				n++
			}
		}
		return n >= 2
	})
	soon := time.Now().Truncate(time.Hour).Add(time.Minute).UTC()
	if time.Now().After(soon.Add(time.Minute)) {
		values = with(form("backfill", "report"), "from", soon.Format(time.RFC3339))
		values.Set("to", soon.Add(time.Minute).Format(time.RFC3339))
		b.leadsTo(b.do(values), "job?name=report", "There are no ticks in that span")
	}
	a := b.is(b.send(http.MethodPost, "/do", form("cancel-backfills", "report")), http.StatusNotFound)
	if !strings.Contains(a.body, "no backfill that is not over") {
		t.Error(a.body)
	}
}

// A program that acts gets the whole path of the run's JSON, also where a mux serves the page below a path,
// and may send an object instead of a form.
func TestActionsOfPrograms(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	mux := http.NewServeMux()
	mux.Handle("/admin/cron/", http.StripPrefix("/admin/cron", b.page))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	b.url = server.URL + "/admin/cron"
	asJSON, object := header("Accept", "application/json"), header("Content-Type", "application/json")
	said := func(a answer) map[string]string {
		t.Helper()
		var said map[string]string
		if err := json.Unmarshal([]byte(b.is(a, http.StatusOK).body), &said); err != nil {
			t.Fatal(err, a.body)
		}
		return said
	}
	first := said(b.send(http.MethodPost, "/do", form("trigger", "report"), asJSON))
	second := said(b.sendText("/do", `{"action": "trigger", "job": "report", "args": {"mode": "repair"}}`, object))
	third := said(b.sendText("/do", `{"action": "trigger", "job": "report", "args": false}`, object))
	for i, said := range []map[string]string{first, second, third} {
		path, ok := strings.CutPrefix(said["run"], "/admin/cron/api/run?")
		if !ok || !strings.HasPrefix(said["see"], "run?") {
			t.Fatalf("said %v", said)
		}
		b.wait("the end of the run", func() bool { return read[map[string]any](b, "/api/run?"+path)["state"] == "succeeded" })
		run := read[map[string]any](b, "/api/run?"+path)
		attempts, _ := run["attempts"].([]any)
		if run["job"] != "report" || run["kind"] != "trigger" || run["has_args"] != (i > 0) || len(attempts) != 1 || attempts[0].(map[string]any)["output"] != "printed" {
			t.Errorf("the run: %v", run)
		}
	}
	said(b.sendText("/do", `{"action": "resume", "skip_missed": true}`, object))
	for _, c := range []struct {
		body, kind string
		status     int
		text       string
	}{
		{`{"action": "trigger"`, "application/json", 400, "expected one JSON object"},
		{`[]`, "application/json", 400, "expected one JSON object"},
		{`null`, "application/json", 400, "expected one JSON object"},
		{`{} {}`, "application/json", 400, "nothing behind it"},
		{`{}`, "application/json; charset=utf-8", 400, "expected one of again, backfill"},
		{`{"action": {"a": 1}}`, "application/json", 400, `"action": expected a text`},
		{`{"action": "pause", "job": null}`, "application/json", 400, "leave it out for the whole group"},
		{`{"action": "pause", "job": ""}`, "application/json", 400, "leave it out for the whole group"},
		{`{"action": "pause", "Job": "report"}`, "application/json", 400, `"Job": pause has action, once, job alone`},
		{`action=pause&jbo=report`, "application/x-www-form-urlencoded", 400, `"jbo": pause has`},
		{`action=resume&job=`, "application/x-www-form-urlencoded", 400, "leave it out for the whole group"},
		{`{"action": "resume", "skip-missed": true}`, "application/json", 400, `"skip-missed": resume has`},
		{`{"action": "resume", "skip-missed": false}`, "application/json", 400, `"skip-missed": resume has`},
		{`{"action": "resign", "job": "report"}`, "application/json", 400, `"job": resign has`},
		{`{"action": "trigger", "job": "report"}`, "application/x-www-form-urlencoded", 400, "the body is JSON"},
		{`{"action": "trigger", "job": "report"}`, "text/plain", 400, `Content-Type "text/plain": expected a form`},
		{`{"action": "` + strings.Repeat("a", 400_000) + `"}`, "application/json", 413, "too large"},
	} {
		a := b.is(b.sendText("/do", c.body, header("Content-Type", c.kind), asJSON), c.status)
		var answer struct{ Error string }
		if err := json.Unmarshal([]byte(a.body), &answer); err != nil || !strings.Contains(answer.Error, c.text) {
			t.Errorf("%.60s as %s: %s does not say %q (%v)", c.body, c.kind, a.body, c.text, err)
		}
	}
}

// What cannot be done is said, by status and text, for people and as JSON.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, test := range []struct {
		values url.Values
		status int
		text   string
	}{
		{form("pause", "nothing"), 404, "no such job"},
		{form("trigger", "nothing"), 404, "no such job"},
		{form("backfill", "nothing"), 400, "from"},
		{form("forget", "report"), 409, "cannot be forgotten"},
		{form("trigger", ""), 400, "no job"},
		{form("trigger", "<script>"), 400, "no name of a job"},
		{form("explode", "report"), 400, "no action: expected one of again, backfill, cancel,"},
		{url.Values{}, 400, "no action: expected one of again, backfill, cancel,"},
		{form("cancel", "report"), 400, "no tick"},
		{with(form("cancel", "report"), "tick", "2020-01-01T00:00:00Z"), 404, "no such run"},
		{with(with(form("cancel", "report"), "tick", "2020-01-01T00:00:00Z"), "trigger", "x"), 400, "no trigger"},
	} {
		a := b.is(b.send(http.MethodPost, "/do", test.values), test.status)
		if !strings.Contains(a.body, test.text) {
			t.Errorf("%v: %s does not say %q", test.values, a.body, test.text)
		}
		a = b.is(b.send(http.MethodPost, "/do", test.values, header("Accept", "application/json")), test.status)
		var answer struct{ Error string }
		if err := json.Unmarshal([]byte(a.body), &answer); err != nil || !strings.Contains(answer.Error, test.text) {
			t.Errorf("%v: %s: %v", test.values, a.body, err)
		}
	}
	b.is(b.get("/confirm?action=explode&job=report"), http.StatusNotFound)
	b.is(b.get("/confirm?action=cancel&job=report"), http.StatusBadRequest)
}

func TestResign(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.leadsTo(b.do(form("resign", "")), "./", "asked to step down")
	b.wait("the end of the term", func() bool { return b.scheduler.State().Role != election.Leading })
}

// Without a leader there is nobody to hand over.
func TestResignOfNobody(t *testing.T) {
	t.Parallel()
	b := benchAtRest(t)
	if a := b.is(b.send(http.MethodPost, "/do", form("resign", "")), http.StatusConflict); !strings.Contains(a.body, "nobody leads") {
		t.Error(a.body)
	}
}

// The audit has who did what on the page.
func TestActionsAreRecorded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do(form("pause", "report"))
	entries, err := b.scheduler.Jobs().Audit(t.Context(), jobs.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name != "local" || entries[0].Via != jobs.ViaPage || entries[0].Action != jobs.ActionPause || entries[0].Job != "report" {
		t.Errorf("the audit has %+v", entries)
	}
}
