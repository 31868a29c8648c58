package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Prometheus is a server that scrapes each target every four seconds, and evaluates its rules every
// second. It is gone when the test ends. It is safe for concurrent use.
type Prometheus struct {
	url, targets string

	mu sync.Mutex
	// known are the addresses of targets by job.
	known map[string][]string
}

// StartPrometheus starts a server with a file of rules.
func StartPrometheus(t testing.TB, rules []byte) *Prometheus {
	t.Helper()
	needReal(t)
	program, err := fetched("prometheus", "usr/bin/prometheus")
	if err != nil {
		missing(t, "Prometheus", err)
	}
	report("real", "Prometheus")
	dir := t.TempDir()
	addr := fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	p := &Prometheus{url: "http://" + addr, targets: filepath.Join(dir, "targets.json"), known: make(map[string][]string)}
	writeFile(t, p.targets, []byte("[]"))
	writeFile(t, filepath.Join(dir, "rules.yaml"), rules)
	writeFile(t, filepath.Join(dir, "prometheus.yaml"), []byte(strings.Join([]string{
		// A scrape waits for a source or bus that is away.
		"global: {scrape_interval: 4s, scrape_timeout: 4s, evaluation_interval: 1s}",
		"rule_files: [rules.yaml]",
		"scrape_configs:",
		"  - job_name: unused",
		"    file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]",
	}, "\n")))
	server := &Process{
		name: "Prometheus", log: filepath.Join(dir, "log"), data: dir, ready: p.ready,
		args: []string{program, "--config.file=" + filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + addr},
	}
	check(t, server.start())
	t.Cleanup(func() {
		server.Kill()
		if t.Failed() {
			t.Logf("log of Prometheus:\n%s", server.Log())
		}
	})
	return p
}

// ready returns nil once the server answers.
func (p *Prometheus) ready(context.Context) error {
	response, err := http.Get(p.url + "/-/ready")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// Scrape has the server scrape further addresses as a job.
func (p *Prometheus) Scrape(t testing.TB, job string, addresses ...string) {
	t.Helper()
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[job] = append(p.known[job], addresses...)
	var all []group
	for job, targets := range p.known {
		all = append(all, group{targets, map[string]string{"job": job}})
	}
	// The server sees the whole file or the one before.
	writeFile(t, p.targets+".new", must(json.Marshal(all))(t))
	check(t, os.Rename(p.targets+".new", p.targets))
}

// Query returns the labels of the series that an expression has now.
func (p *Prometheus) Query(t testing.TB, expr string) (series []map[string]string) {
	t.Helper()
	var found struct {
		Result []struct{ Metric map[string]string }
	}
	p.get(t, "/api/v1/query?query="+url.QueryEscape(expr), &found)
	for _, r := range found.Result {
		series = append(series, r.Metric)
	}
	return series
}

// FiringAlert is an alert that fires.
type FiringAlert struct{ Labels, Annotations map[string]string }

// Firing returns the alerts of a job that fire now.
func (p *Prometheus) Firing(t testing.TB, job string) (firing []FiringAlert) {
	t.Helper()
	var found struct {
		Alerts []struct {
			FiringAlert
			State string
		}
	}
	p.get(t, "/api/v1/alerts", &found)
	for _, a := range found.Alerts {
		if a.State == "firing" && a.Labels["job"] == job {
			firing = append(firing, a.FiringAlert)
		}
	}
	return firing
}

// get reads the data of an answer.
func (p *Prometheus) get(t testing.TB, path string, into any) {
	t.Helper()
	response, err := http.Get(p.url + path)
	check(t, err)
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Error != "" {
		t.Fatalf("%s: %v %s", path, err, answer.Error)
	}
	if err := json.Unmarshal(answer.Data, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
