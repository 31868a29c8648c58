package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Example is one example.
type Example struct {
	// Name is that of its folder.
	Name string
	// Files has table.sql, table.sqlite.sql and bridge.env.
	Files fs.FS
	// Tables returns the statements that make the tables, from those in the file for the
	// database. Optional: the file's own.
	Tables func(sql string) string
	// Hurry has variables of bridge with shorter times than bridge.env has, so that a run is over
	// in seconds. Optional.
	Hurry map[string]string
	// Story plays the example. It starts bridge, and returns an error if the claim does not hold.
	Story func(ctx context.Context, s *Stage) error
}

// runWithin bounds an example.
const runWithin = 3 * time.Minute

// Main runs an example and exits: 0 if its claim held, 1 if not, 2 where it could not begin.
func Main(e Example) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, runWithin, fmt.Errorf("the example is not over within %s", runWithin))
	defer cancel()
	os.Exit(run(ctx, e))
}

func run(whole context.Context, e Example) (status int) {
	ctx, fail := context.WithCancelCause(whole)
	defer fail(nil)
	s, err := open(ctx, e, fail)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", e.Name, err)
		return 2
	}
	err = e.Story(ctx, s)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if !errors.Is(whole.Err(), context.Canceled) {
			// Nobody has interrupted it.
			s.printLogs()
		}
	}
	if err = errors.Join(err, s.close()); err != nil {
		fmt.Fprintf(os.Stderr, "%s: FAILED: %v\n", e.Name, err)
		return 1
	}
	return 0
}
