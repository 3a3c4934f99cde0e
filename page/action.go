package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	// fields: there are some to fill in, and to mend.
	fields bool
	do     func(ctx context.Context, p *Page, f form) (to string, err error)
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
		{"trigger", "Run now", "Run now", "The leader starts a run of the job beside its schedule, also while the job is paused.", needsJob, false, true, doTrigger},
		{"pause", "Pause", "Pause", "Ticks from now on are skipped until it is resumed. Runs that go on are not stopped.", mayHaveJob, false, false, doPause},
		{"resume", "Resume", "Resume", "Its ticks are run again. Those of the paused time are not made up for.", mayHaveJob, false, false, doResume},
		{"cancel", "Cancel the run", "Cancel the run", "The run is asked to stop. One that waits does not start. One of a backfill ends the backfill.", needsRun, true, false, doCancel},
		{"cancel-backfills", "End backfills", "End backfills", "The run that each backfill of the job has is cancelled, and no other follows.", needsJob, true, false, doCancelBackfills},
		{"backfill", "Backfill", "Run these ticks", "Each tick of the job's schedule in the span is run once, in order and one at a time.", needsJob, false, true, doBackfill},
		{"forget", "Forget the job", "Forget the job", "A job that no replica has is deleted, with its history.", needsJob, true, false, doForget},
		{"resign", "Hand over", "Hand over", "The leader ends its runs, or cancels them after its drain, and steps down. Another replica takes over.", needsNothing, true, false, doResign},
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

// keyOf reads a run's key out of a query or a form.
func keyOf(values url.Values) (jobs.Key, error) {
	tick, err := time.Parse(time.RFC3339Nano, values.Get("tick"))
	if err != nil {
		return jobs.Key{}, fmt.Errorf("%w: no tick", errUnfit)
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
	if err := r.ParseForm(); err != nil {
		p.answer(w, r, "", fmt.Errorf("%w: %w", errUnfit, err))
		return
	}
	a, ok := actions[r.PostForm.Get("action")]
	if !ok {
		p.answer(w, r, "", fmt.Errorf("%w: no action: expected one of %s", errUnfit, strings.Join(slices.Sorted(maps.Keys(actions)), ", ")))
		return
	}
	f, err := formOf(a, r.PostForm)
	if err != nil {
		p.answer(w, r, "", err)
		return
	}
	user := userOf(ctx)
	number := r.PostForm.Get("once")
	if !p.once.take(number) {
		p.answer(w, r, withDone(place(f), "repeated"), nil)
		return
	}
	to, err := a.do(jobs.WithActor(ctx, jobs.Actor{Name: user.Name, Via: jobs.ViaPage}), p, f)
	p.source.forget()
	log := p.set.log.With(zap.String("action", a.name), zap.String("user", user.Name), zap.String("job", f.job))
	if err != nil {
		p.once.giveBack(number)
		log.Info("an action failed", zap.Error(err))
		if a.fields && !wantsJSON(r) {
			p.render(w, r, statusOf(err), p.asking(a, f, err.Error(), time.Time{}))
			return
		}
		p.answer(w, r, "", err)
		return
	}
	log.Info("an action was done")
	p.answer(w, r, to, nil)
}

// answer says what became of an action: by the page that to leads to, relative to this
// one, or as JSON.
func (p *Page) answer(w http.ResponseWriter, r *http.Request, to string, err error) {
	switch {
	case wantsJSON(r) && err != nil:
		writeJSON(w, statusOf(err), map[string]string{"error": err.Error()})
	case wantsJSON(r):
		writeJSON(w, http.StatusOK, map[string]string{"see": to})
	case err != nil:
		p.fail(w, r, err)
	default: // http.Redirect would make the link absolute, without what a mux has cut off
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusSeeOther)
	}
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

func doTrigger(ctx context.Context, p *Page, f form) (string, error) {
	args, err := argsOf(f)
	if err != nil {
		return "", err
	}
	key, err := p.steer.TriggerWith(ctx, f.job, args)
	if err != nil && statusOf(err) == http.StatusServiceUnavailable {
		err = fmt.Errorf("%w: it may have been requested all the same: look at the runs of the job first", err)
	}
	return withDone(runURL(key), "trigger"), err
}

// argsOf reads the arguments of a form; nil: it has none.
func argsOf(f form) (any, error) {
	text := strings.TrimSpace(f.Get("args"))
	if text == "" {
		return nil, nil
	}
	if err := jobs.CheckArgs([]byte(text)); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnfit, err)
	}
	return json.RawMessage(text), nil
}

func doPause(ctx context.Context, p *Page, f form) (string, error) {
	return withDone(place(f), "pause"), p.steer.Pause(ctx, f.job)
}

func doResume(ctx context.Context, p *Page, f form) (string, error) {
	if f.Get("skip_missed") != "" {
		return withDone(place(f), "resume"), p.steer.ResumeSkipping(ctx, f.job)
	}
	return withDone(place(f), "resume"), p.steer.Resume(ctx, f.job)
}

func doCancel(ctx context.Context, p *Page, f form) (string, error) {
	return withDone(place(f), "cancel"), p.steer.Cancel(ctx, f.key)
}

func doCancelBackfills(ctx context.Context, p *Page, f form) (string, error) {
	n, err := p.steer.CancelBackfills(ctx, f.job)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: %s has no backfill that is not over", jobs.ErrNoRun, f.job)
	}
	return withDone(place(f), "cancel-backfills"), err
}

func doBackfill(ctx context.Context, p *Page, f form) (string, error) {
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
		return withDone(place(f), "no-ticks"), nil
	}
	b.ID = planned.ID
	// If it fails, it may have been stored: the form that is sent again has its ID.
	f.Set("id", strconv.FormatUint(b.ID, 10))
	f.Set("from", b.From.Format(time.RFC3339Nano))
	_, err = p.steer.Backfill(ctx, f.job, b)
	return withDone(place(f), "backfill"), err
}

// instantOf reads an instant in UTC: RFC 3339, or what a browser's field for it gives.
func instantOf(f form, field string) (time.Time, error) {
	text := strings.TrimSpace(f.Get(field))
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%w: %s %q: expected an instant such as 2027-01-01T00:00:00Z", errUnfit, field, text)
}

func doForget(ctx context.Context, p *Page, f form) (string, error) {
	return withDone("./", "forget"), p.steer.Forget(ctx, f.job)
}

func doResign(ctx context.Context, p *Page, _ form) (string, error) {
	err := p.steer.Resign(ctx)
	if errors.Is(err, store.ErrChanged) { // that term is over already
		err = nil
	}
	return withDone("./", "resign"), err
}
