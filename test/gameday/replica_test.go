package gameday

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/subprocess"
	"github.com/cronlease/cronlease/internal/workertest"
)

// replica is a worker process, with its own way to the database.
type replica struct {
	t       *testing.T
	name    string
	config  string
	text    string // of its configuration, in each of which it has the same jobs
	address string // where it listens
	account string // of the database
	proxy   *dbtest.Proxy
	log     func(logged)

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
}

// logged is a line of a log, of level warn or above.
type logged struct {
	at         time.Time
	replica    string
	Level, Msg string
	Error      string
}

// jobs are of each kind: "tick" accounts for every tick, "report" mostly runs, and the rest may fail.
const jobs = `
  - name: tick
    every: 5s
    misfire: all
    timeout: 10s
    http: {url: "{target}/tick", method: POST}
  - name: report
    every: 30s
    timeout: 1m
    exec: ["sleep", "20"]
  - name: sweep
    every: 10s
    timeout: 30s
    sql:
      - statement: "INSERT INTO swept (tick, token) VALUES (?, ?)"
        args: [tick, token]
  - name: flaky
    every: 10s
    http: {url: "{target}/flaky", method: POST}
`

func (s *scene) newReplica(name string) *replica {
	s.t.Helper()
	r := &replica{t: s.t, name: name, account: "app_" + name, address: freeAddress(s.t), proxy: dbtest.NewProxy(s.t, s.server.Addr()), log: s.watch.log}
	r.config = filepath.Join(s.folder, name+".yaml")
	r.text = fmt.Sprintf("database: %q\ngroup: billing\nlisten: %s\njobs:%s", "mysql://"+r.account+"@"+r.proxy.Addr()+"/app?password_file="+s.password, r.address,
		strings.ReplaceAll(jobs+s.fault.jobs, "{target}", s.target.url))
	s.t.Cleanup(r.kill)
	return r
}

// configure writes its configuration, with some settings besides.
func (r *replica) configure(settings string) {
	if err := os.WriteFile(r.config, []byte(settings+r.text), 0o600); err != nil {
		r.t.Error(err)
	}
}

// change deploys it anew with some settings.
func (r *replica) change(settings string) {
	r.terminate()
	r.configure(settings)
	r.start()
}

// start starts its process.
func (r *replica) start() {
	cmd, ended := exec.Command(workertest.Program(), "run", "--config", r.config), make(chan struct{})
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = subprocess.Go(cmd, func() {
			defer close(ended)
			r.read(stderr)
			_ = cmd.Wait() // it may have been killed
		})
	}
	if err != nil {
		r.t.Errorf("start replica %s: %v", r.name, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cmd, r.ended = cmd, ended
}

// read reads its log.
func (r *replica) read(log io.Reader) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		l := logged{at: time.Now(), replica: r.name}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			l.Level, l.Msg = "panic", lines.Text()
		}
		if l.Level != "info" && l.Level != "debug" {
			r.log(l)
		}
	}
}

// process is its process, if it was started.
func (r *replica) process() (*os.Process, chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return nil, nil
	}
	return r.cmd.Process, r.ended
}

func (r *replica) signal(send func(*os.Process) error) {
	p, _ := r.process()
	if err := send(p); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.t.Errorf("signal replica %s: %v", r.name, err)
	}
}

// kill ends its process, and returns when it is gone.
func (r *replica) kill() {
	if p, ended := r.process(); p != nil {
		_ = p.Kill() // it may have ended
		<-ended
	}
}

// terminate asks its process to end, and returns when it has.
func (r *replica) terminate() {
	r.signal(subprocess.Terminate)
	_, ended := r.process()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		r.t.Errorf("replica %s has not ended within a minute", r.name)
	}
}
