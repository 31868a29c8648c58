// Package stage is what the examples share: a database with their tables, a bus, and bridge beside
// them as a process of its own, as a sidecar would run.
//
// The database is a file of SQLite, the bus is the NATS server inside bridge. These variables lead
// an example to real servers, from which it removes at the end what it has made:
//
//	EXAMPLE_SOURCE_URL  the database, as BRIDGE_SOURCE_URL: mysql://user:password@host:port/database.
//	                    The user may create tables there, and none of the example's may exist.
//	EXAMPLE_SOURCE_B_URL  the second server of an example with two. Defaults to the first.
//	EXAMPLE_SINK_URL    the bus, as BRIDGE_SINK_URL: kafka://host:port,… or nats://host:port,…
//	EXAMPLE_BRIDGE      the program. Defaults to bin/bridge, which make build makes.
package stage

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/bridge/client"
)

// Stage is where an example plays.
type Stage struct {
	// DB is the database of the example's writers. MySQL tells MySQL and MariaDB from SQLite, where
	// an open transaction keeps all other writers waiting.
	DB    *sql.DB
	MySQL bool
	// Bus is where bridge publishes.
	Bus client.Bus
	// Bridges are its processes.
	Bridges []*Bridge
	// Dir is a temporary folder.
	Dir string

	layout Layout
	began  time.Time
	// domain tells the events of this run from others on the same bus.
	domain string
	// env is what bridge.env says, pointed to what there is here.
	env   map[string]string
	kafka bool
	group *errgroup.Group
	ends  []func() error
}

// Layout is how an example differs from one database beside one bridge; the zero value is that.
type Layout struct {
	// Databases makes the databases instead of Stage.DB, and sets where they are.
	Databases func(ctx context.Context, s *Stage) error
	// Shares is how many processes divide the tables; 0 is one process without shares.
	Shares int
	// Server starts a bus where EXAMPLE_SINK_URL names none, and returns its URL, instead of the
	// NATS server inside bridge.
	Server func(s *Stage) (url string, err error)
}

// within bounds an example, and its half each wait for what must come, also on a busy machine.
const within = 8 * time.Minute

// Main plays an example and exits: with status 0 where story returns nil, else 1. files has
// table.sql, table.sqlite.sql and bridge.env, of which no more is changed than where things are,
// and the domain. Bridge is ready when story begins.
func Main(name string, files fs.FS, story func(ctx context.Context, s *Stage) error) {
	Play(name, files, Layout{}, story)
}

// Play is Main with a layout.
func Play(name string, files fs.FS, layout Layout, story func(ctx context.Context, s *Stage) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &Stage{layout: layout, began: time.Now(), domain: "example-" + name + "-" + strings.ToLower(rand.Text()[:8])}
	err := s.play(ctx, files, story)
	for i := len(s.ends) - 1; i >= 0; i-- {
		err = errors.Join(err, s.ends[i]())
	}
	if err != nil {
		for _, b := range s.Bridges {
			fmt.Fprintln(os.Stderr, b.log.String()[max(0, b.log.Len()-5000):])
		}
		fmt.Fprintf(os.Stderr, "%s: FAILED: %v\n", name, err)
		os.Exit(1)
	}
	fmt.Printf("%s: ok\n", name)
}

func (s *Stage) play(ctx context.Context, files fs.FS, story func(ctx context.Context, s *Stage) error) (err error) {
	if s.Dir, err = os.MkdirTemp("", "bridge-example-"); err != nil {
		return fmt.Errorf("make a temporary folder, set TMPDIR to one with room: %w", err)
	}
	s.AtEnd(func() error { return os.RemoveAll(s.Dir) })
	text, err := fs.ReadFile(files, "bridge.env")
	if err != nil {
		return err
	}
	s.env = Variables(string(text))
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("the example is not over within %s", within))
	defer cancel()
	databases := s.layout.Databases
	if databases == nil {
		databases = func(ctx context.Context, s *Stage) error { return s.openDatabase(ctx, files) }
	}
	if err := errors.Join(databases(ctx, s), s.openBus(ctx)); err != nil {
		return err
	}
	s.group, ctx = errgroup.WithContext(ctx)
	ctx, end := context.WithCancel(ctx)
	s.group.Go(func() error {
		defer end()
		if err := s.startBridges(ctx); err != nil {
			return err
		}
		return story(ctx, s)
	})
	return s.group.Wait()
}

// Variables reads a file of variables as a shell does that has no expansions: a NAME=value a line,
// with or without single quotes around the value, and comments.
func Variables(text string) map[string]string {
	env := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			env[name] = strings.Trim(value, "'")
		}
	}
	return env
}

// Set sets a variable of bridge, or removes it where the value is empty.
func (s *Stage) Set(variable, value string) {
	if s.env[variable] = value; value == "" {
		delete(s.env, variable)
	}
}

// AtEnd has f called when the example is over, before what was given earlier.
func (s *Stage) AtEnd(f func() error) { s.ends = append(s.ends, f) }

// Options say which stream of bridge a consumer reads.
func (s *Stage) Options(stream string) client.Options {
	return client.Options{Stream: stream, Domain: s.domain, Destinations: s.destinations(stream), Logger: slog.New(slog.DiscardHandler)}
}

// Listen has a group of consumers, whose name no other run has, handle events beside the story.
func (s *Stage) Listen(ctx context.Context, group string, o client.Options, handle func(context.Context, client.Event) error) error {
	events, err := client.NewEvents(s.Bus, s.domain+"-"+group, o, handle)
	if err == nil {
		s.Go(ctx, events.Run)
	}
	return err
}

// Go runs f beside the story: a consumer, say. Its context ends with the story, and its error ends
// the story.
func (s *Stage) Go(ctx context.Context, f func(context.Context) error) {
	s.group.Go(func() error { return f(ctx) })
}

// Wait waits until holds returns true. The error says what has not come.
func (s *Stage) Wait(ctx context.Context, what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within/2, fmt.Errorf("not within %s: %s", within/2, what))
	defer cancel()
	for {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Say prints a line, with the seconds since the start.
func (s *Stage) Say(format string, args ...any) {
	fmt.Printf("%5.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// Bridge is a process of bridge: the one with all tables, or that of a share.
type Bridge struct {
	// Share is that of the process, as in 0/3; empty without shares.
	Share string

	stage           *Stage
	address, folder string
	log             bytes.Buffer
	process         *exec.Cmd
	// lost says that the process is killed, hasEnded is closed behind its end.
	lost     atomic.Bool
	hasEnded chan struct{}
}

// startBridges starts bridge, which ends with ctx, and waits until all its processes are ready:
// they reach database and bus.
func (s *Stage) startBridges(ctx context.Context) error {
	s.env["BRIDGE_DOMAIN_ID"], s.env["BRIDGE_LOG_FORMAT"] = s.domain, "text"
	for i := range max(1, s.layout.Shares) {
		b := &Bridge{stage: s, folder: filepath.Join(s.Dir, fmt.Sprintf("bridge-%d.db", i))}
		if s.layout.Shares > 0 {
			b.Share = fmt.Sprintf("%d/%d", i, s.layout.Shares)
		}
		var err error
		if b.address, err = freeAddress(); err != nil {
			return err
		}
		s.Bridges = append(s.Bridges, b)
		if err := b.Start(ctx); err != nil {
			return err
		}
	}
	var err error
	for _, b := range s.Bridges {
		err = errors.Join(err, b.Ready(ctx))
	}
	return err
}

// Start starts the process, which ends with ctx.
func (b *Bridge) Start(ctx context.Context) error {
	env := []string{"BRIDGE_HTTP_ADDR=" + b.address}
	if b.Share == "" {
		env = append(env, "BRIDGE_CHECKPOINT_URL=file:"+b.folder)
	} else {
		env = append(env, "BRIDGE_CHECKPOINT_URL=bus://"+b.folder, "BRIDGE_CHECKPOINT_TOPIC="+b.stage.progress(), "BRIDGE_SHARE="+b.Share)
	}
	for name, value := range b.stage.env {
		if name != "BRIDGE_CHECKPOINT_URL" && name != "BRIDGE_SHARE" {
			env = append(env, name+"="+value)
		}
	}
	process := exec.CommandContext(ctx, cmp.Or(os.Getenv("EXAMPLE_BRIDGE"), "bin/bridge"), "run")
	process.Cancel, process.WaitDelay = func() error { return process.Process.Signal(syscall.SIGTERM) }, 20*time.Second
	process.Stdout, process.Stderr, process.Env = &b.log, &b.log, env
	if err := process.Start(); err != nil {
		return fmt.Errorf("%w: make build makes it, EXAMPLE_BRIDGE names another one", err)
	}
	ended := make(chan struct{})
	b.process, b.hasEnded = process, ended
	b.stage.Go(ctx, func(ctx context.Context) error {
		err := process.Wait()
		defer close(ended)
		if b.lost.Load() {
			return nil
		}
		if ctx.Err() == nil || !process.ProcessState.Success() {
			return fmt.Errorf("bridge %s has ended: %w", b.Share, cmp.Or(err, errors.New("too early")))
		}
		return nil
	})
	return nil
}

// Ready waits until the process is ready.
func (b *Bridge) Ready(ctx context.Context) error {
	return b.stage.Wait(ctx, strings.TrimSpace("a bridge that is ready "+b.Share), func() (bool, error) {
		answer, err := http.Get("http://" + b.address + "/readyz")
		if err != nil {
			return false, nil // it does not listen yet
		}
		return answer.StatusCode == http.StatusOK, answer.Body.Close()
	})
}

// Kill ends the process as kill -9 does and removes its folder, as the loss of its host would.
func (b *Bridge) Kill() error {
	b.lost.Store(true)
	err := b.process.Process.Kill()
	<-b.hasEnded
	b.lost.Store(false)
	return errors.Join(err, os.RemoveAll(b.folder))
}

// Reload has the process read its configuration again and look for new tables at once.
func (b *Bridge) Reload() error { return b.process.Process.Signal(syscall.SIGHUP) }

// Running returns how many tables the process reads.
func (b *Bridge) Running() (tables int, err error) {
	answer, err := http.Get("http://" + b.address + "/api/v1/status?limit=1")
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	var status struct {
		Totals struct{ States map[string]int }
	}
	if err := json.NewDecoder(answer.Body).Decode(&status); err != nil {
		return 0, fmt.Errorf("read the status of bridge %s: %w", b.Share, err)
	}
	return status.Totals.States["running"], nil
}
