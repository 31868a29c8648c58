package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// prometheus is a server that scrapes each target every four seconds, and evaluates its rules every
// second. It is gone when the test ends. It is safe for concurrent use.
type prometheus struct {
	url, targets string
	mu           sync.Mutex
	groups       []scraped
}

// scraped are the addresses of a job.
type scraped struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// prometheusConfig: a scrape waits for a source or bus that is away.
const prometheusConfig = `global: {scrape_interval: 4s, scrape_timeout: 4s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs: [{job_name: unused, file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]}]
`

func startPrometheus(t *testing.T, rules []byte) *prometheus {
	t.Helper()
	program := testenv.Fetched("Prometheus", "prometheus", "usr/bin/prometheus")
	if program.Missing != nil {
		testenv.Missing(t, program.Name, program.Missing)
	}
	dir, addr := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	write(t, filepath.Join(dir, "rules.yaml"), string(rules))
	config := write(t, filepath.Join(dir, "prometheus.yaml"), prometheusConfig)
	p := &prometheus{url: "http://" + addr, targets: write(t, filepath.Join(dir, "targets.json"), "[]")}
	cmd := exec.Command(program.Args[0], "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)
	log := new(world.Log)
	cmd.Stdout, cmd.Stderr = log, log
	done, err := testenv.Spawn(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if <-done; t.Failed() {
			t.Logf("log of Prometheus:\n%s", log.Tail(30))
		}
	})
	world.Eventually(t, time.Minute, "Prometheus is ready", func() bool {
		response, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return p
}

// scrape has the server scrape addresses as a job.
func (p *prometheus) scrape(t *testing.T, job string, addresses ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.groups = append(p.groups, scraped{addresses, map[string]string{"job": job}})
	text, err := json.Marshal(p.groups)
	if err != nil {
		t.Fatal(err)
	}
	write(t, p.targets, string(text))
}

// has reports whether an expression has a series now.
func (p *prometheus) has(t testing.TB, expr string) bool {
	t.Helper()
	var found struct{ Result []any }
	p.get(t, "/api/v1/query?query="+url.QueryEscape(expr), &found)
	return len(found.Result) > 0
}

// firingAlert is an alert that fires.
type firingAlert struct {
	Labels, Annotations map[string]string
	State               string
}

// firing returns the alerts of a job that fire now.
func (p *prometheus) firing(t testing.TB, job string) (firing []firingAlert) {
	t.Helper()
	var found struct{ Alerts []firingAlert }
	p.get(t, "/api/v1/alerts", &found)
	for _, a := range found.Alerts {
		if a.State == "firing" && a.Labels["job"] == job {
			firing = append(firing, a)
		}
	}
	return firing
}

// get reads the data of an answer.
func (p *prometheus) get(t testing.TB, path string, into any) {
	t.Helper()
	response, err := http.Get(p.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  json.RawMessage
	}
	if err = json.NewDecoder(response.Body).Decode(&answer); err == nil {
		err = json.Unmarshal(answer.Data, into)
	}
	if err != nil || answer.Error != "" {
		t.Fatalf("%s: %v %s", path, err, answer.Error)
	}
}
