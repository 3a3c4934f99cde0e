package page

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// action is something that a user can ask for: with a page that asks whether it is meant, and
// a form that works without a script.
type action struct {
	// name is the value of the field "action".
	name string
	// title is what the page that asks has, and button what the button says.
	title, button string
	// about says what will happen.
	about string
	needs needs
	// grave: it cannot be undone.
	grave bool
	// fields are those that may be filled in, beside what it is about.
	fields []string
	// mends: the form is shown again when something is wrong with them.
	mends bool
	// do returns which of the texts in done says what was done.
	do func(ctx context.Context, p *Page, f *form) (done string, err error)
}

// needs says what an action is about.
type needs uint8

const (
	needsNothing needs = iota
	needsJob           // one
	mayHaveJob         // one, or the whole group
	needsRun
)

// actions are all that the page can do, by their names.
var actions = func() map[string]action {
	all := map[string]action{}
	for _, a := range []action{
		{"trigger", "Run now", "Run now", "The leader starts a run of the job beside its schedule, also while the job is paused.", needsJob, false, []string{"args"}, true, doTrigger},
		{"again", "Run again", "Run again", "The leader starts a run of the job beside its schedule, with the arguments of this one if it had any.", needsRun, false, nil, false, doAgain},
		{"pause", "Pause", "Pause", "Ticks from now on are skipped until it is resumed. Runs that go on are not stopped.", mayHaveJob, false, nil, false, doPause},
		{"resume", "Resume", "Resume", "Its ticks are run again. Those of the paused time are not made up for.", mayHaveJob, false, []string{"skip_missed"}, false, doResume},
		{"cancel", "Cancel the run", "Cancel the run", "The run is asked to stop. One that waits does not start. One of a backfill ends the backfill.", needsRun, true, nil, false, doCancel},
		{"cancel-backfills", "End backfills", "End backfills", "The run that each backfill of the job has is cancelled, and no other follows.", needsJob, true, nil, false, doCancelBackfills},
		{"backfill", "Backfill", "Run these ticks", "Each tick of the job's schedule in the span is run once, in order and one at a time.", needsJob, false, []string{"from", "to", "every", "args", "id"}, true, doBackfill},
		{"forget", "Forget the job", "Forget the job", "A job that no replica has is deleted, with its history.", needsJob, true, nil, false, doForget},
		{"resign", "Hand over", "Hand over", "The leader ends its runs, or cancels them after its drain, and steps down. Another replica takes over.", needsNothing, true, nil, false, doResign},
	} {
		all[a.name] = a
	}
	return all
}()

// done are the texts of what actions have done. A link can only choose among them.
var done = map[string]string{
	"pause":            "Paused.",
	"resume":           "Resumed.",
	"cancel":           "The run is asked to stop.",
	"cancel-backfills": "The backfills end.",
	"trigger":          "The run is requested.",
	"backfill":         "The backfill is requested.",
	"no-ticks":         "There are no ticks in that span: nothing was requested.",
	"forget":           "The job is forgotten.",
	"resign":           "The leader is asked to step down.",
	"repeated":         "This was done already: nothing was done again.",
}

// form has the fields of an action.
type form struct {
	job string // empty for the whole group
	key jobs.Key
	url.Values
}

// formOf reads what an action is about.
func formOf(a action, values url.Values) (form, error) {
	f := form{job: values.Get("job"), Values: values}
	switch a.needs {
	case needsNothing:
		f.job = ""
	case needsJob:
		if f.job == "" {
			return f, fmt.Errorf("%w: no job", errUnfit)
		}
	case needsRun:
		var err error
		if f.key, err = keyOf(values); err != nil {
			return f, err
		}
	case mayHaveJob:
	}
	if f.job != "" && store.CheckName("job", f.job) != nil {
		return f, fmt.Errorf("%w: no name of a job", errUnfit)
	}
	return f, nil
}

// members are the names that a request may have.
func (a action) members() []string {
	all := append([]string{"action", "once"}, a.fields...)
	switch a.needs {
	case needsJob, mayHaveJob:
		all = append(all, "job")
	case needsRun:
		all = append(all, "job", "tick", "trigger")
	case needsNothing:
	}
	return all
}

// check refuses what the action would not heed: a name that is written wrongly would make it about the whole group.
func (a action) check(values url.Values) error {
	known := a.members()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%w: %.100q: %s has %s alone", errUnfit, name, a.name, strings.Join(known, ", "))
		}
	}
	if a.needs == mayHaveJob && values.Has("job") && values.Get("job") == "" {
		return fmt.Errorf("%w: job is empty: leave it out for the whole group", errUnfit)
	}
	return nil
}

// fieldsOf reads the fields of an action: those of a form, or the members of a JSON object.
func fieldsOf(r *http.Request) (url.Values, error) {
	const want = "expected a form (application/x-www-form-urlencoded) or an object (application/json)"
	switch given := r.Header.Get("Content-Type"); kindOf(r) {
	case "application/json":
		return fieldsOfJSON(r.Body)
	case "application/x-www-form-urlencoded", "":
		if err := r.ParseForm(); err != nil {
			return nil, fmt.Errorf("%w: %w", errUnfit, err)
		}
		for name := range r.PostForm {
			if strings.HasPrefix(strings.TrimSpace(name), "{") {
				return nil, fmt.Errorf("%w: the body is JSON, and its Content-Type is %q: %s", errUnfit, given, want)
			}
		}
		return r.PostForm, nil
	default:
		return nil, fmt.Errorf("%w: Content-Type %.100q: %s", errUnfit, given, want)
	}
}

// kindOf is the media type of a request's body; empty: none.
func kindOf(r *http.Request) string {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return kind
}

// fieldsOfJSON reads an object. Its args may be any value; all others are texts, numbers, booleans or null.
func fieldsOfJSON(body io.Reader) (url.Values, error) {
	var members map[string]json.RawMessage
	in := json.NewDecoder(body)
	if err := in.Decode(&members); err != nil || members == nil {
		return nil, fmt.Errorf("%w: the body: expected one JSON object such as {\"action\": \"pause\", \"job\": \"report\"}: %w", errUnfit, cmp.Or(err, errors.New("it is null")))
	}
	if in.More() {
		return nil, fmt.Errorf("%w: the body: expected one JSON object, and nothing behind it", errUnfit)
	}
	fields := url.Values{}
	for name, raw := range members {
		var text string
		switch {
		case string(raw) == "null":
			fields.Set(name, "")
		case name == "args":
			fields.Set(name, string(raw))
		case string(raw) == "false": // a box that is not checked
			fields.Set(name, "")
		case json.Unmarshal(raw, &text) == nil:
			fields.Set(name, text)
		case raw[0] == '{' || raw[0] == '[':
			return nil, fmt.Errorf("%w: %.100q: expected a text or a number", errUnfit, name)
		default:
			fields.Set(name, string(raw))
		}
	}
	return fields, nil
}

// keyOf reads a run's key out of a query or a form.
func keyOf(values url.Values) (jobs.Key, error) {
	tick, err := time.Parse(time.RFC3339Nano, values.Get("tick"))
	if err != nil {
		return jobs.Key{}, fmt.Errorf("%w: no tick: expected an instant such as 2027-01-01T00:00:00Z", errUnfit)
	}
	var trigger uint64
	if text := values.Get("trigger"); text != "" {
		if trigger, err = strconv.ParseUint(text, 10, 64); err != nil {
			return jobs.Key{}, fmt.Errorf("%w: no trigger", errUnfit)
		}
	}
	job := values.Get("job")
	if store.CheckName("job", job) != nil {
		return jobs.Key{}, fmt.Errorf("%w: no name of a job", errUnfit)
	}
	return jobs.Key{Job: job, Tick: tick.UTC(), Trigger: trigger}, nil
}

// confirming is what confirm.html gets.
type confirming struct {
	Action, Title, Button, About string
	Grave                        bool
	// Job is empty for what concerns the whole group.
	Job   string
	IsRun bool
	Key   jobs.Key
	// Fields are the values of a form that was wrong, to be mended.
	Fields url.Values
	// Wrong says what was wrong.
	Wrong string
	// Once is a number of this form: it is carried out once.
	Once string
	// Now is the database's time, for a backfill.
	Now time.Time
}

// confirm asks whether an action is meant.
func (p *Page) confirm(r *http.Request) (shown, error) {
	values := r.URL.Query()
	a, ok := actions[values.Get("action")]
	if !ok {
		return shown{}, errNoPage
	}
	f, err := formOf(a, values)
	if err != nil {
		return shown{}, err
	}
	changes, err := p.source.Changes(r.Context())
	if err != nil {
		return shown{}, err
	}
	return p.asking(a, f, "", changes.Now), nil
}

// asking asks whether an action is meant, or for what was wrong with a form.
func (p *Page) asking(a action, f form, wrong string, now time.Time) shown {
	return shown{title: a.title, template: "confirm.html", now: now, data: confirming{
		Action: a.name, Title: a.title, Button: a.button, About: a.about, Grave: a.grave, Job: f.job, IsRun: a.needs == needsRun, Key: f.key,
		Fields: f.Values, Wrong: wrong, Once: p.once.number(), Now: now,
	}}
}

// do carries an action out, and leads to a page that shows it.
func (p *Page) do(w http.ResponseWriter, r *http.Request) {
	// A client that leaves does not end it half-way, such as without its entry in the audit.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), readsFor)
	defer cancel()
	fields, err := fieldsOf(r)
	if err != nil {
		p.answer(w, r, form{}, "", err)
		return
	}
	a, ok := actions[fields.Get("action")]
	if !ok {
		p.answer(w, r, form{}, "", fmt.Errorf("%w: no action: expected one of %s", errUnfit, strings.Join(slices.Sorted(maps.Keys(actions)), ", ")))
		return
	}
	f, err := formOf(a, fields)
	if err == nil {
		err = a.check(fields)
	}
	if err != nil {
		p.answer(w, r, f, "", err)
		return
	}
	user := userOf(ctx)
	number := fields.Get("once")
	if !p.once.take(number) {
		p.answer(w, r, f, "repeated", nil)
		return
	}
	log := p.set.log.With(zap.String("action", a.name), zap.String("user", user.Name), zap.String("job", f.job))
	what, err := a.do(jobs.WithActor(ctx, jobs.Actor{Name: user.Name, Via: jobs.ViaPage}), p, &f)
	p.source.forget()
	if err != nil {
		p.once.giveBack(number)
		log.Info("an action failed", zap.Error(err))
		if a.mends && !wantsJSON(r) {
			p.render(w, r, statusOf(err), p.asking(a, f, inWords(err), time.Time{}))
			return
		}
		p.answer(w, r, f, "", err)
		return
	}
	log.Info("an action was done")
	p.answer(w, r, f, what, nil)
}

// answer says what became of an action: by the page of what it was about, relative to this one, or as
// JSON, which also has the whole path of the run's JSON.
func (p *Page) answer(w http.ResponseWriter, r *http.Request, f form, done string, err error) {
	to := withDone(place(f), done)
	switch {
	case wantsJSON(r) && err != nil:
		writeJSON(w, statusOf(err), map[string]string{"error": inWords(err)})
	case wantsJSON(r):
		said := map[string]string{"see": to}
		if !f.key.Tick.IsZero() {
			said["run"] = mountOf(r) + "/api/" + runURL(f.key)
		}
		writeJSON(w, http.StatusOK, said)
	case err != nil:
		p.fail(w, r, err)
	default: // http.Redirect would make the link absolute, without what a mux has cut off
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusSeeOther)
	}
}

// mountOf is the path below which a mux serves the page: what it has cut off.
func mountOf(r *http.Request) string {
	asked, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimSuffix(asked.EscapedPath(), r.URL.EscapedPath()), "/")
}

// place is the page of what an action is about.
func place(f form) string {
	switch {
	case !f.key.Tick.IsZero():
		return runURL(f.key)
	case f.job != "":
		return jobURL(f.job)
	}
	return "./"
}

// withDone adds what was done to a link.
func withDone(to, what string) string {
	if strings.Contains(to, "?") {
		return to + "&done=" + what
	}
	return to + "?done=" + what
}

func doTrigger(ctx context.Context, p *Page, f *form) (done string, err error) {
	args, err := argsOf(f)
	if err != nil {
		return "", err
	}
	return "trigger", p.trigger(ctx, f, args)
}

// trigger requests a run of the job, which is what the answer is about then.
func (p *Page) trigger(ctx context.Context, f *form, args any) (err error) {
	key, err := p.steer.TriggerWith(ctx, f.job, args)
	switch {
	case err == nil:
		f.key = key
	case statusOf(err) == http.StatusServiceUnavailable:
		err = fmt.Errorf("%w: %w", err, errUncertain)
	}
	return err
}

// doAgain triggers a run with the arguments of an earlier one.
func doAgain(ctx context.Context, p *Page, f *form) (done string, err error) {
	record, err := p.source.Run(ctx, f.key)
	if err != nil {
		return "", err
	}
	var args any
	if record.HasArgs {
		raw, err := p.source.Args(ctx, f.key)
		switch {
		case err != nil:
			return "", err
		case raw == nil:
			return "", fmt.Errorf("%w: its arguments are not kept any more: run the job with arguments of your own", jobs.ErrNoRun)
		}
		args = raw
	}
	return "trigger", p.trigger(ctx, f, args)
}

// argsOf reads the arguments of a form; nil: it has none.
func argsOf(f *form) (any, error) {
	text := strings.TrimSpace(f.Get("args"))
	if text == "" {
		return nil, nil
	}
	if err := jobs.CheckArgs([]byte(text)); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnfit, err)
	}
	return json.RawMessage(text), nil
}

func doPause(ctx context.Context, p *Page, f *form) (done string, err error) {
	return "pause", p.steer.Pause(ctx, f.job)
}

func doResume(ctx context.Context, p *Page, f *form) (done string, err error) {
	if f.Get("skip_missed") != "" {
		return "resume", p.steer.ResumeSkipping(ctx, f.job)
	}
	return "resume", p.steer.Resume(ctx, f.job)
}

func doCancel(ctx context.Context, p *Page, f *form) (done string, err error) {
	return "cancel", p.steer.Cancel(ctx, f.key)
}

func doCancelBackfills(ctx context.Context, p *Page, f *form) (done string, err error) {
	n, err := p.steer.CancelBackfills(ctx, f.job)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: %s has no backfill that is not over", jobs.ErrNoRun, f.job)
	}
	return "cancel-backfills", err
}

func doBackfill(ctx context.Context, p *Page, f *form) (done string, err error) {
	args, err := argsOf(f)
	if err != nil {
		return "", err
	}
	b := jobs.Backfill{Args: args}
	if b.From, err = instantOf(f, "from"); err != nil {
		return "", err
	}
	if f.Get("to") != "" {
		if b.To, err = instantOf(f, "to"); err != nil {
			return "", err
		}
	}
	if text := f.Get("every"); text != "" {
		if b.Every, err = time.ParseDuration(text); err != nil || b.Every < 0 {
			return "", fmt.Errorf("%w: every %q: expected a duration such as 10s or 5m", errUnfit, text)
		}
	}
	if text := f.Get("id"); text != "" {
		if b.ID, err = strconv.ParseUint(text, 10, 64); err != nil {
			return "", fmt.Errorf("%w: no ID of a backfill", errUnfit)
		}
	}
	planned, err := p.steer.PlanBackfill(ctx, f.job, b)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", errUnfit, err)
	case len(planned.Ticks) == 0:
		return "no-ticks", nil
	}
	b.ID = planned.ID
	// If it fails, it may have been stored: the form that is sent again has its ID.
	f.Set("id", strconv.FormatUint(b.ID, 10))
	f.Set("from", b.From.Format(time.RFC3339Nano))
	_, err = p.steer.Backfill(ctx, f.job, b)
	return "backfill", err
}

// instantOf reads an instant in UTC: RFC 3339, or what a browser's field for it gives.
func instantOf(f interface{ Get(string) string }, field string) (time.Time, error) {
	text := strings.TrimSpace(f.Get(field))
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%w: %s %q: expected an instant such as 2027-01-01T00:00:00Z", errUnfit, field, text)
}

func doForget(ctx context.Context, p *Page, f *form) (done string, err error) {
	if err = p.steer.Forget(ctx, f.job); err == nil {
		f.job = "" // it has no page any more
	}
	return "forget", err
}

func doResign(ctx context.Context, p *Page, _ *form) (done string, err error) {
	err = p.steer.Resign(ctx)
	if errors.Is(err, store.ErrChanged) { // that term is over already
		err = nil
	}
	return "resign", err
}
