// Package promtest runs a real Prometheus for tests.
package promtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/subprocess"
)

// Program is the path of one of the programs that scripts/install-prometheus makes sure of.
func Program(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	folder := os.Getenv("CRONLEASE_PROMETHEUS_DIR")
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		folder = filepath.Join(cache, "cronlease", "prometheus")
	}
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no %s: run scripts/install-prometheus: %v", name, err)
	}
	return path
}

// Promtool runs the program of that name, and returns what it printed.
func Promtool(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, Program(t, "promtool"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	return string(out)
}

// Server is a Prometheus that runs until the test ends.
type Server struct {
	url    string
	client *http.Client
}

// Start starts a Prometheus with that configuration.
func Start(t *testing.T, config string) *Server {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for try := 0; ; try++ {
		s, ended := attempt(t, folder, file)
		if s != nil {
			return s
		}
		if try == 3 { // the port may be taken
			t.Fatalf("Prometheus does not start:\n%s", ended)
		}
	}
}

func attempt(t *testing.T, folder, config string) (*Server, string) {
	t.Helper()
	address := freeAddress(t)
	var log bytes.Buffer
	cmd := exec.Command(Program(t, "prometheus"), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(folder, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = &log, &log
	ended := make(chan struct{})
	err := subprocess.Go(cmd, func() {
		defer close(ended)
		_ = cmd.Wait() // its log says more
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{url: "http://" + address, client: &http.Client{Transport: &http.Transport{}}}
	deadline := time.After(time.Minute)
	looks := time.NewTicker(50 * time.Millisecond)
	defer looks.Stop()
	for !s.ready() {
		select {
		case <-looks.C:
		case <-ended:
			return nil, log.String()
		case <-deadline:
			_ = cmd.Process.Kill()
			<-ended
			t.Fatalf("Prometheus is not ready within a minute:\n%s", log.String())
		}
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		s.client.CloseIdleConnections()
		if t.Failed() {
			t.Logf("the log of Prometheus:\n%s", log.String())
		}
	})
	return s, ""
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (s *Server) ready() bool {
	response, err := s.client.Get(s.url + "/-/ready")
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// ask calls Prometheus' API.
func (s *Server) ask(ctx context.Context, path string, query url.Values, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/api/v1/"+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var all struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&all); err != nil {
		return err
	}
	if all.Status != "success" {
		return fmt.Errorf("%s: %s", path, all.Error)
	}
	return json.Unmarshal(all.Data, answer)
}

// Alert is one that is pending or fires.
type Alert struct {
	Labels, Annotations map[string]string
	State               string
}

// Alerts are those that are pending or fire.
func (s *Server) Alerts(ctx context.Context) ([]Alert, error) {
	var answer struct{ Alerts []Alert }
	err := s.ask(ctx, "alerts", nil, &answer)
	return answer.Alerts, err
}

// Query returns how many series an expression has now.
func (s *Server) Query(ctx context.Context, expr string) (int, error) {
	var answer struct{ Result []json.RawMessage }
	err := s.ask(ctx, "query", url.Values{"query": {expr}}, &answer)
	return len(answer.Result), err
}
