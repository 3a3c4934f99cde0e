package page

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/jsontime"
	"github.com/cronlease/cronlease/internal/runjson"
	"github.com/cronlease/cronlease/jobs"
)

// What the views show is there as JSON, too, for programs. The forms are relied on, and have
// the names that the commands of the worker use: keys are added, but never renamed or
// removed.

const (
	// maxListed is how many elements a list of JSON has at most, and usuallyListed unless
	// the request says how many.
	maxListed     = 1000
	usuallyListed = 100
)

// apiPaths are those of what is there as JSON.
var apiPaths = []string{"/api/status", "/api/jobs", "/api/runs", "/api/run"}

// apiStatus is who leads, and which replicas there are.
type apiStatus struct {
	Group               string            `json:"group"`
	State               string            `json:"state"`
	Owner               string            `json:"owner"`
	Token               uint64            `json:"token"`
	TTLSeconds          float64           `json:"ttl_seconds"`
	HeartbeatAgeSeconds float64           `json:"heartbeat_age_seconds"`
	ResignAsked         bool              `json:"resign_asked"`
	Paused              bool              `json:"paused"`
	Jobs                int               `json:"jobs"`
	PausedJobs          int               `json:"paused_jobs"`
	Running             int               `json:"running"`
	Waiting             int               `json:"waiting"`
	Now                 *jsontime.Instant `json:"now"`
	Replicas            []apiReplica      `json:"replicas"`
	NotLed              []string          `json:"not_led"`
	Rescheduled         []string          `json:"rescheduled"`
	// Errors are what this replica's health says; null: nothing.
	Errors []string `json:"errors"`
}

type apiReplica struct {
	Owner   string            `json:"owner"`
	Version string            `json:"version"`
	Since   *jsontime.Instant `json:"since"`
	Seen    *jsontime.Instant `json:"seen"`
	Jobs    int               `json:"jobs"`
	// Of a group that is spread: the runs that it has, and how many it may have at a time; zero: any number.
	Runs    int         `json:"runs"`
	MaxRuns int         `json:"max_runs"`
	Labels  jobs.Labels `json:"labels"`
	// FollowerOnly: it never leads.
	FollowerOnly bool `json:"follower_only"`
}

type apiJob struct {
	Name     string `json:"name"`
	Schedule string `json:"schedule"`
	Paused   bool   `json:"paused"`
	// Everywhere: each replica runs it by itself, and nothing is known of its runs. This replica tells of
	// those that it has.
	Everywhere bool              `json:"everywhere"`
	Gone       *jsontime.Instant `json:"gone"`
	// Cursor is the newest scheduled tick that was claimed.
	Cursor   *jsontime.Instant `json:"cursor"`
	Started  *jsontime.Instant `json:"started"`
	Finished *jsontime.Instant `json:"finished"`
	Running  int               `json:"running"`
	Waiting  int               `json:"waiting"`
}

func (p *Page) apiStatus(r *http.Request) (any, error) {
	ctx := r.Context()
	leader, err := p.source.Leader(ctx)
	if err != nil {
		return nil, err
	}
	names, err := p.source.Names(ctx)
	if err != nil {
		return nil, err
	}
	snapshot, err := p.source.LoadOf(ctx, nil)
	if err != nil {
		return nil, err
	}
	roster, err := p.source.Roster(ctx)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	differences := roster.Differences()
	s := apiStatus{
		Group: p.group, State: stateOf(leader), Owner: leader.Owner, Token: leader.Token, TTLSeconds: leader.TTL.Seconds(),
		HeartbeatAgeSeconds: leader.Age.Seconds(), ResignAsked: leader.ResignAsked && !leader.Released, Paused: snapshot.Paused,
		Jobs: len(names.All), PausedJobs: names.Paused, Now: jsontime.Of(snapshot.Now), Replicas: []apiReplica{},
		NotLed: append([]string{}, differences.NotLed...), Rescheduled: append([]string{}, differences.Rescheduled...),
	}
	for _, r := range snapshot.Open {
		if r.State == jobs.Running {
			s.Running++
		} else {
			s.Waiting++
		}
	}
	runs := snapshot.RunsOf()
	for _, x := range roster.Live() {
		s.Replicas = append(s.Replicas, apiReplica{x.Owner, x.Version, jsontime.Of(x.Since), jsontime.Of(x.Seen), len(x.Jobs), runs[x.Owner], x.MaxRuns, x.Labels, x.FollowerOnly})
	}
	if p.health != nil {
		h := p.health()
		for _, err := range []error{h.Stuck, h.Database, h.Leader} {
			if err != nil {
				s.Errors = append(s.Errors, err.Error())
			}
		}
	}
	return s, nil
}

// apiJobs lists the jobs by name: limit of them behind the one that after names.
func (p *Page) apiJobs(r *http.Request) (any, error) {
	query := r.URL.Query()
	limit, err := limitOf(query)
	if err != nil {
		return nil, err
	}
	names, err := p.source.Names(r.Context())
	if err != nil {
		return nil, err
	}
	local := p.everywhere()
	all := slices.Concat(names.All, slices.Collect(maps.Keys(local)))
	slices.Sort(all)
	all = slices.Compact(all)
	from, found := slices.BinarySearch(all, query.Get("after"))
	if found {
		from++
	}
	list := []apiJob{}
	place := map[string]int{}
	var open []jobs.Record
	for part := range slices.Chunk(all[from:min(from+limit, len(all))], jobs.MaxOf) {
		snapshot, err := p.source.LoadOf(r.Context(), part)
		if err != nil {
			return nil, err
		}
		open = snapshot.Open
		for _, name := range part {
			known, ok := snapshot.Jobs[name]
			job, everywhere := local[name]
			switch {
			case everywhere:
				known = jobs.Known{Schedule: job.Schedule.String()}
			case !ok:
				continue // forgotten meanwhile
			}
			place[name] = len(list)
			list = append(list, apiJob{
				Name: name, Schedule: known.Schedule, Paused: known.Paused, Everywhere: everywhere, Gone: jsontime.Of(known.Gone), Cursor: jsontime.Of(known.Cursor),
				Started: jsontime.Of(known.Started), Finished: jsontime.Of(known.Finished),
			})
		}
	}
	for _, r := range open {
		i, ok := place[r.Job]
		switch {
		case !ok:
		case r.State == jobs.Running:
			list[i].Running++
		default:
			list[i].Waiting++
		}
	}
	return list, nil
}

// apiRuns lists runs, the newest first: of a job, in a state, since a tick.
func (p *Page) apiRuns(r *http.Request) (any, error) {
	query := r.URL.Query()
	filter := jobs.Filter{Job: query.Get("job")}
	var err error
	if filter.Limit, err = limitOf(query); err != nil {
		return nil, err
	}
	if name := query.Get("state"); name != "" {
		if filter.State, err = jobs.ParseState(name); err != nil {
			return nil, fmt.Errorf("%w: %w", errUnfit, err)
		}
	}
	for name, to := range map[string]*time.Time{"since": &filter.Since, "until": &filter.Until} {
		if text := query.Get(name); text != "" {
			if *to, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return nil, fmt.Errorf("%w: %s %q: expected an instant such as 2027-01-01T00:00:00Z", errUnfit, name, text)
			}
			*to = to.UTC()
		}
	}
	records, err := p.source.Runs(r.Context(), filter)
	if err != nil {
		return nil, err
	}
	list := []runjson.Record{}
	for _, r := range records {
		list = append(list, runjson.Of(r))
	}
	return list, nil
}

// apiRun is one run, with its attempts.
type apiRun struct {
	runjson.Record
	// Attempts are those that the store keeps.
	Attempts []apiAttempt `json:"attempts"`
}

type apiAttempt struct {
	Number   int               `json:"number"`
	State    string            `json:"state"`
	Owner    string            `json:"owner"`
	Token    uint64            `json:"token"`
	Started  *jsontime.Instant `json:"started"`
	Finished *jsontime.Instant `json:"finished"`
	Error    string            `json:"error"`
	// Output is null where it is not known: it comes with the end of the attempt, which may not be told.
	Output *string `json:"output"`
}

// apiRun is the run of the key in the query.
func (p *Page) apiRun(r *http.Request) (any, error) {
	key, err := keyOf(r.URL.Query())
	if err != nil {
		return nil, err
	}
	record, err := p.source.Run(r.Context(), key)
	if err != nil {
		return nil, err
	}
	attempts, err := optional(p.source.Attempts(r.Context(), key))
	if err != nil {
		return nil, err
	}
	run := apiRun{Record: runjson.Of(record), Attempts: []apiAttempt{}}
	for _, a := range attempts {
		of := apiAttempt{
			Number: a.Number, State: a.State.String(), Owner: a.Owner, Token: a.Token, Started: jsontime.Of(a.Started), Finished: jsontime.Of(a.Finished), Error: a.Error,
		}
		if len(a.Output) > 0 || a.State.Over() && a.State != jobs.Interrupted {
			text := string(a.Output)
			of.Output = &text
		}
		run.Attempts = append(run.Attempts, of)
	}
	return run, nil
}

// limitOf is how many elements a request asks for.
func limitOf(query url.Values) (int, error) {
	text := query.Get("limit")
	if text == "" {
		return usuallyListed, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxListed {
		return 0, fmt.Errorf("%w: limit %q: expected a number from 1 to %d", errUnfit, text, maxListed)
	}
	return n, nil
}

// api is the handler of what is there as JSON.
func (p *Page) api(read func(r *http.Request) (any, error)) http.Handler {
	return p.turn(func(w http.ResponseWriter, r *http.Request) {
		value, err := read(r)
		if err != nil {
			p.failJSON(w, r, err)
			return
		}
		writeJSON(w, http.StatusOK, value)
	}, p.failJSON)
}

// failJSON says what went wrong and, where the database cannot be read, what this replica knows.
func (p *Page) failJSON(w http.ResponseWriter, _ *http.Request, err error) {
	o, is := p.outage(err)
	if !is {
		writeJSON(w, statusOf(err), map[string]string{"error": o.Error})
		return
	}
	p.set.log.Debug("the page could not read the database", zap.Error(err))
	writeJSON(w, statusOf(err), o)
}
