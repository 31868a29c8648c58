package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"bridge/checkpoint"
	"bridge/checkpoint/bolt"
	"bridge/event"
	"bridge/internal/inspect"
	"bridge/sink"
	"bridge/sink/embedded"
	"bridge/source"
)

const checkDetails = `
It reads the configuration as bridge run does, connects to source, sink and checkpoint, and prints what is unsafe, unwise or in the
way, with what to do about it and the statement or command to type. It writes nothing anywhere, and may run beside a
bridge. docs/operations.md explains every finding.

Exit status: 0 when nothing is unsafe (there may be warnings and notes), 1 when something keeps bridge from working or makes
it unsafe, 2 when the configuration is wrong.
`

// checkWithin bounds a check, whatever does not answer.
const checkWithin = 12 * time.Second

// unsafeError says that a check found something unsafe.
type unsafeError struct{ findings int }

func (e *unsafeError) Error() string {
	return count(e.findings, "unsafe finding") + ": see to what is marked unsafe, then run bridge check again"
}

func checkCommand(p *process, ctx context.Context, call call) error {
	cfg, err := loadConfig(p.environ, p.secrets)
	if err != nil {
		return err
	}
	progress := p.newProgress(!call.flags["json"])
	groups := p.examine(ctx, cfg, progress)
	progress.stop()
	if ctx.Err() != nil {
		return errors.New("the check was interrupted")
	}
	if call.flags["json"] {
		err = p.printFindingsJSON(groups)
	} else {
		err = p.printFindings(groups)
	}
	if n := tally(groups)[inspect.Unsafe]; err == nil && n > 0 {
		return &unsafeError{n}
	}
	return err
}

// group is what was found about one subject.
type group struct {
	// kind is "configuration", "source", "stream", "sink" or "checkpoint"; name is the stream's.
	kind, name string
	// skipped says that it could not be looked at because something else is away.
	skipped bool
	inspect.Report
}

// examine looks at everything that cfg names, side by side.
func examine(ctx context.Context, cfg *Config, progress *progress) []group {
	ctx, cancel := context.WithTimeoutCause(ctx, checkWithin, fmt.Errorf("no answer within %s", checkWithin))
	defer cancel()
	store := bolt.Inspect(cfg.CheckpointPath)
	inspectOthers(&store, cfg)
	positions := make(map[checkpoint.Key]uint64)
	for _, entry := range store.Entries {
		positions[entry.Key] = entry.State.Position.ID
	}

	var from source.Inspection
	var to inspect.Report
	var both errgroup.Group
	both.Go(progress.during("source", func() { from = inspectSource(ctx, cfg, positions) }))
	both.Go(progress.during("sink", func() { to = inspectSink(ctx, cfg) }))
	// What fails is a finding.
	_ = both.Wait()

	var groups []group
	if warnings := warningsOf(cfg); len(warnings.Findings) > 0 {
		groups = append(groups, group{kind: "configuration", Report: warnings})
	}
	groups = append(groups, group{kind: "source", Report: from.Server})
	groups = append(groups, streamGroups(cfg, from, &store, positions)...)
	return append(groups, group{kind: "sink", Report: to}, group{kind: "checkpoint", Report: store.Report})
}

// warningsOf returns what bridge run would log about the configuration.
func warningsOf(cfg *Config) inspect.Report {
	r := inspect.Report{Summary: "from the environment"}
	for _, w := range cfg.Warnings {
		r.Add(inspect.Warning, inspect.Setting, w.Variable, w.Text)
	}
	return r
}

func inspectSource(ctx context.Context, cfg *Config, positions map[checkpoint.Key]uint64) (found source.Inspection) {
	src, err := openSource(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		found.Server.Add(inspect.Unsafe, inspect.SourceUnreachable, "source", "cannot be opened: "+err.Error()).Says("correct BRIDGE_SOURCE_URL")
		return found
	}
	// Nothing was written that a failing close could lose.
	defer func() { _ = src.Close() }()
	inspector, ok := src.(source.Inspector)
	if !ok {
		found.Server.Summary = cfg.Source.Scheme + ", which cannot be looked at"
		return found
	}
	return inspector.Inspect(ctx, expectations(cfg, positions), maxReads)
}

// expectations returns what the configuration expects of every table, in the order of streams and tables.
func expectations(cfg *Config, positions map[checkpoint.Key]uint64) []source.Expected {
	var tables []source.Expected
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		for _, table := range s.Tables {
			expected := source.Expected{
				Spec: s.spec(table), Hold: s.GapPolicy == string(source.GapHold), Updates: s.Kind == event.Capability,
				Zone: s.TimeZone.location, Stream: s.Name, Shard: table,
			}
			if s.IDOrder != "auto" {
				expected.Order = source.IDOrder(s.IDOrder)
			}
			if position, ok := positions[checkpoint.Key{Stream: s.Name, Shard: table}]; ok {
				expected.Position = &position
			}
			tables = append(tables, expected)
		}
	}
	return tables
}

func inspectSink(ctx context.Context, cfg *Config) inspect.Report {
	if cfg.Sink.Scheme == "embedded" {
		// To open it would start a server.
		return embedded.Inspect(ctx, embeddedOptions(cfg, slog.New(slog.DiscardHandler)))
	}
	bus, err := openSink(cfg, slog.New(slog.DiscardHandler), func(string, error) {})
	if err != nil {
		var r inspect.Report
		r.Add(inspect.Unsafe, inspect.SinkUnreachable, "sink", "cannot be opened: "+err.Error()).Says("correct BRIDGE_SINK_URL and the variables of the bus")
		return r
	}
	// Nothing was written that a failing close could lose.
	defer func() { _ = bus.Close() }()
	if inspector, ok := bus.(sink.Inspector); ok {
		return inspector.Inspect(ctx)
	}
	return inspect.Report{Summary: cfg.Sink.Scheme + ": prints events"}
}

// inspectOthers finds what a checkpoint holds that is not configured.
func inspectOthers(store *checkpoint.Inspection, cfg *Config) {
	shards := make(map[string][]string)
	for _, entry := range store.Entries {
		shards[entry.Key.Stream] = append(shards[entry.Key.Stream], entry.Key.Shard)
	}
	for _, name := range streamsOf(store.Entries) {
		stream := streamNamed(cfg.Streams, name)
		if stream == nil {
			store.Add(inspect.Warning, inspect.CheckpointOther, cfg.CheckpointPath, fmt.Sprintf("holds the stream %s (%s), which is not configured", name, firstFew(shards[name]))).
				Says("where it is the checkpoint of another installation, set BRIDGE_CHECKPOINT_URL to this one's; where the stream is gone for good").
				Types("bridge checkpoint reset %s", name)
			continue
		}
		others := slices.DeleteFunc(shards[name], func(shard string) bool { return slices.Contains(stream.Tables, shard) })
		if len(others) > 0 {
			store.Add(inspect.Warning, inspect.CheckpointOther, cfg.CheckpointPath, fmt.Sprintf("holds %s of the stream %s, which %sTABLE does not name", firstFew(others), name, variablePrefix(name))).
				Says("where a table was renamed, go on behind its position under the new name; see bridge checkpoint show").
				Types("bridge checkpoint set %s <table> <id>", name)
		}
	}
}

// firstFew names the first of many.
func firstFew(names []string) string {
	const most = 3
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
