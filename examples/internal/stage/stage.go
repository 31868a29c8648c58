package stage

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bridge/client"
)

// Stage is where an example plays.
type Stage struct {
	// DB is the database of the example's writers. In SQLite a transaction that is open keeps all
	// other writers waiting.
	DB *sql.DB
	// MySQL reports whether the database is a MySQL or MariaDB, not SQLite.
	MySQL bool
	// Bus is where bridge publishes.
	Bus client.Bus
	// Bridge is the program beside the example. The story starts it.
	Bridge *Bridge

	example Example
	began   time.Time
	// dir holds the files, run tells this run apart from others on the same servers.
	dir, run  string
	source    *url.URL
	kafka     bool
	clientLog *os.File
	// fail ends the example with an error of a task.
	fail context.CancelCauseFunc
	ends []func(context.Context) error
}

// open makes the tables and prepares the rest.
func open(ctx context.Context, e Example, fail context.CancelCauseFunc) (_ *Stage, err error) {
	s := &Stage{example: e, fail: fail, began: time.Now(), run: strings.ToLower(rand.Text()[:8])}
	if s.dir, err = os.MkdirTemp("", "bridge-"+e.Name+"-"); err != nil {
		return nil, fmt.Errorf("make a temporary folder, set TMPDIR to one with room: %w", err)
	}
	s.atEnd(func(context.Context) error { return os.RemoveAll(s.dir) })
	if err := s.openAll(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *Stage) openAll(ctx context.Context) (err error) {
	env, err := s.environment()
	if err != nil {
		return err
	}
	if s.clientLog, err = os.Create(s.path("client.log")); err != nil {
		return err
	}
	s.atEnd(func(context.Context) error { return s.clientLog.Close() })
	if err := s.openDatabase(ctx); err != nil {
		return err
	}
	if err := s.openBus(ctx, env); err != nil {
		return err
	}
	return s.prepareBridge(env)
}

// atEnd has close call end. What was opened last ends first.
func (s *Stage) atEnd(end func(context.Context) error) { s.ends = append(s.ends, end) }

const closeWithin = 30 * time.Second

// close ends bridge and removes what the example has made.
func (s *Stage) close() (err error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), closeWithin, errors.New("what the example made is not removed in time"))
	defer cancel()
	for i := len(s.ends) - 1; i >= 0; i-- {
		err = errors.Join(err, s.ends[i](ctx))
	}
	s.ends = nil
	return err
}

// Say prints a line of progress, with the seconds since the start.
func (s *Stage) Say(format string, args ...any) {
	fmt.Printf("%5.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// Conclude prints the line that the example ends with.
func (s *Stage) Conclude(format string, args ...any) {
	fmt.Printf("%s: ok: %s\n", s.example.Name, fmt.Sprintf(format, args...))
}

// Name returns a name that no other run has, for a group of consumers.
func (s *Stage) Name(of string) string { return s.domain() + "-" + of }

// domain is BRIDGE_DOMAIN_ID: the events of former runs on the bus have another one.
func (s *Stage) domain() string { return "example-" + s.example.Name + "-" + s.run }

// Pause waits for a time that the story needs, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// arriveWithin bounds the wait for what must come: a slow machine needs more than the moment that
// it takes by rights.
const arriveWithin = time.Minute

// Wait waits until holds returns true. The error says what has not come.
func (s *Stage) Wait(ctx context.Context, what string, holds func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, arriveWithin, fmt.Errorf("not within %s: %s", arriveWithin, what))
	defer cancel()
	for {
		if ok, err := holds(ctx); ok || err != nil {
			return err
		}
		if err := Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// printLogs prints the ends of what bridge and the consumers have logged.
func (s *Stage) printLogs() {
	const lines = 30
	for _, name := range []string{"bridge.log", "client.log"} {
		text, err := os.ReadFile(s.path(name))
		if err != nil || len(text) == 0 {
			continue
		}
		all := strings.SplitAfter(string(text), "\n")
		fmt.Fprintf(os.Stderr, "the end of %s:\n%s", name, strings.Join(all[max(0, len(all)-lines):], ""))
	}
}

func (s *Stage) path(name string) string { return filepath.Join(s.dir, name) }
