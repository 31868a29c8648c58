package stage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Bridge is the program as a process of its own. Its methods serve one goroutine at a time, but for
// Status and Reads.
type Bridge struct {
	path string
	env  []string
	addr string
	log  *os.File
	cmd  *exec.Cmd
	// ended is closed when the process has ended.
	ended chan struct{}
}

// prepareBridge points the variables of bridge.env to what there is.
func (s *Stage) prepareBridge(env map[string]string) (err error) {
	b := &Bridge{path: cmp.Or(os.Getenv("EXAMPLE_BRIDGE"), "bin/bridge")}
	if _, err := os.Stat(b.path); err != nil {
		return fmt.Errorf("%w: make build makes it, EXAMPLE_BRIDGE names another one", err)
	}
	if b.addr, err = freeAddress(); err != nil {
		return err
	}
	if b.log, err = os.Create(s.path("bridge.log")); err != nil {
		return err
	}
	env["BRIDGE_SOURCE_URL"] = s.source.String()
	env["BRIDGE_CHECKPOINT_URL"] = (&url.URL{Scheme: "file", Path: s.path("bridge.db")}).String()
	env["BRIDGE_HTTP_ADDR"], env["BRIDGE_DOMAIN_ID"], env["BRIDGE_LOG_FORMAT"] = b.addr, s.domain(), "text"
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "BRIDGE_") {
			b.env = append(b.env, variable)
		}
	}
	for name, value := range env {
		b.env = append(b.env, name+"="+value)
	}
	s.Bridge = b
	s.atEnd(func(context.Context) error { return errors.Join(b.Stop(), b.log.Close()) })
	return nil
}

// Start starts bridge and waits until it is ready: it reaches database and bus, and has read from
// the bus what its checkpoint lacks.
func (b *Bridge) Start(ctx context.Context) error {
	b.cmd = exec.Command(b.path, "run")
	b.cmd.Env, b.cmd.Stdout, b.cmd.Stderr = b.env, b.log, b.log
	if err := b.cmd.Start(); err != nil {
		return fmt.Errorf("start bridge: %w", err)
	}
	ended := make(chan struct{})
	b.ended = ended
	go func(cmd *exec.Cmd) {
		defer close(ended)
		_ = cmd.Wait() // it was killed, or the log says why it ended
	}(b.cmd)
	ctx, cancel := context.WithTimeoutCause(ctx, arriveWithin, fmt.Errorf("bridge is not ready within %s", arriveWithin))
	defer cancel()
	for {
		select {
		case <-ended:
			return errors.New("bridge has ended: its log says why")
		default:
		}
		if _, err := b.get(ctx, "/readyz"); err == nil {
			return nil
		}
		if err := Pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// Kill ends bridge with SIGKILL, and the server of embedded: with it.
func (b *Bridge) Kill() { b.end(syscall.SIGKILL) }

// Stop ends bridge in good order, if it runs.
func (b *Bridge) Stop() error {
	const stopWithin = 20 * time.Second
	if b.cmd == nil {
		return nil
	}
	kill := time.AfterFunc(stopWithin, func() { _ = b.cmd.Process.Kill() }) // it may have ended
	defer kill.Stop()
	b.end(syscall.SIGTERM)
	return nil
}

func (b *Bridge) end(signal os.Signal) {
	_ = b.cmd.Process.Signal(signal) // it may have ended
	<-b.ended
}

// Shard is what the status of bridge says of one table.
type Shard struct {
	Shard, State string
	Position     uint64
	Gaps         struct{ Hot, Cold uint64 }
}

// Shards returns the tables of a stream as the status has them.
func (b *Bridge) Shards(ctx context.Context, stream string) ([]Shard, error) {
	body, err := b.get(ctx, "/api/v1/status")
	if err != nil {
		return nil, err
	}
	var status struct {
		Streams []struct {
			Name   string
			Shards []Shard
		}
	}
	if err := json.Unmarshal(body, &status); err != nil {
		return nil, fmt.Errorf("read the status of bridge: %w", err)
	}
	for _, s := range status.Streams {
		if s.Name == stream {
			return s.Shards, nil
		}
	}
	return nil, fmt.Errorf("the status of bridge lacks the stream %s", stream)
}

// Reads returns how many reads of tables bridge counts since it was started.
func (b *Bridge) Reads(ctx context.Context) (reads int, err error) {
	body, err := b.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(body)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if !strings.HasPrefix(name, "bridge_source_query_seconds_count{") {
			continue
		}
		var n float64
		if _, err := fmt.Sscan(value, &n); err != nil {
			return 0, fmt.Errorf("read the metric %s: %w", name, err)
		}
		reads += int(n)
	}
	return reads, nil
}

// get returns a page of bridge; an error says that it does not answer with 200.
func (b *Bridge) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.addr+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s: %.200s", path, response.Status, body)
	}
	return body, nil
}
