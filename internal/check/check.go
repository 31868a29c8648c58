package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

// checkWithin bounds the duration of a check.
const checkWithin = 12 * time.Second

// Group is the result for one subject.
type Group struct {
	// Kind is "configuration", "source", "stream", "sink", "checkpoint" or "http"; Name is the
	// stream's, Source that of one of several sources.
	Kind   string `json:"group"`
	Name   string `json:"stream,omitempty"`
	Source string `json:"source,omitempty"`
	// Severity is for programs: that of the worst finding, or "skipped".
	Severity string `json:"severity"`
	// Skipped says that the subject could not be inspected because something else is away.
	Skipped bool `json:"-"`
	inspect.Report
}

// Subjects inspect the parts of a set-up.
type Subjects struct {
	// Source inspects a source and its tables, Sink the bus. They return when ctx ends.
	Source func(ctx context.Context, of *config.Source, tables []source.Expected) source.Inspection
	Sink   func(ctx context.Context) inspect.Report
	// Schemas returns what the events of shards would look like now; it leaves out those whose
	// tables cannot be read.
	Schemas func(ctx context.Context, cfg *config.Config, shards []store.Key) map[store.Key]*store.Schema
	// Lineage tells whether a source is the one that the bus has rows of. since has for each shard
	// the epoch below which messages do not count.
	Lineage func(ctx context.Context, cfg *config.Config, of *config.Source, since map[store.Key]uint64) inspect.Report
	// Store inspects the checkpoint, HTTP the address of the HTTP server. A report without a
	// summary is not shown.
	Store func(ctx context.Context) store.Inspection
	HTTP  func(ctx context.Context, cfg *config.Config) inspect.Report
}

// Examine inspects everything that cfg names, source and sink at the same time.
func Examine(ctx context.Context, cfg *config.Config, subjects Subjects) []Group {
	ctx, cancel := context.WithTimeoutCause(ctx, checkWithin, fmt.Errorf("no answer within %s", checkWithin))
	defer cancel()
	kept := subjects.Store(ctx)
	inspectOthers(&kept, cfg)
	positions, since := make(map[store.Key]uint64), make(map[store.Key]uint64)
	for _, one := range kept.Shards {
		positions[one.Key], since[one.Key] = one.Progress.Position, one.Progress.Since
	}

	from, lineage := make([]source.Inspection, len(cfg.Sources)), make([]inspect.Report, len(cfg.Sources))
	var to inspect.Report
	var now map[store.Key]*store.Schema
	var asked sync.WaitGroup
	for i := range cfg.Sources {
		one := &cfg.Sources[i]
		asked.Go(func() { from[i] = subjects.Source(ctx, one, Expectations(cfg, one, positions)) })
		asked.Go(func() { lineage[i] = subjects.Lineage(ctx, cfg, one, since) })
	}
	asked.Go(func() { to = subjects.Sink(ctx) })
	asked.Go(func() { now = subjects.Schemas(ctx, cfg, schemasOf(cfg, kept.Shards)) })
	asked.Wait()

	var groups []Group
	if len(cfg.Warnings) > 0 {
		// bridge run logs them.
		warnings := inspect.Report{Summary: "from the environment"}
		for _, w := range cfg.Warnings {
			warnings.Add(inspect.Warning, inspect.Setting, w.Variable, w.Text)
		}
		groups = append(groups, Group{Kind: "configuration", Report: warnings})
	}
	tables := make(map[store.Key]source.TableInspection)
	for i := range from {
		one := &cfg.Sources[i]
		from[i].Server.Findings = append(from[i].Server.Findings, lineage[i].Findings...)
		groups = append(groups, Group{Kind: "source", Source: one.Name, Report: from[i].Server})
		for j, expected := range Expectations(cfg, one, nil)[:len(from[i].Tables)] {
			tables[store.Key{Stream: expected.Stream, Shard: expected.Shard}] = from[i].Tables[j]
		}
	}
	groups = append(groups, streamGroups(cfg, tables, &kept, positions)...)
	addSchemaFindings(groups, cfg, kept.Shards, now)
	resolveUnreadable(&to, cfg)
	groups = append(groups, Group{Kind: "sink", Report: to}, Group{Kind: "checkpoint", Report: kept.Report})
	if pages := subjects.HTTP(ctx, cfg); pages.Summary != "" {
		groups = append(groups, Group{Kind: "http", Report: pages})
	}
	for i := range groups {
		groups[i].Findings = inspect.Named(groups[i].Findings, config.Naming(groups[i].Name))
	}
	return groups
}

// Expectations returns what the configuration expects of every table of a source, in the order of
// streams and tables.
func Expectations(cfg *config.Config, of *config.Source, positions map[store.Key]uint64) []source.Expected {
	var tables []source.Expected
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		for _, table := range cfg.TablesOf(s, of) {
			expected := source.Expected{
				Spec: s.Spec(table), Hold: s.GapPolicy == string(ledger.GapHold), Updates: s.Kind == event.Capability,
				Zone: s.TimeZone.Location, Stream: s.Name, Shard: table,
			}
			if s.IDOrder != "auto" {
				expected.Order = source.IDOrder(s.IDOrder)
			}
			if position, ok := positions[store.Key{Stream: s.Name, Shard: table}]; ok {
				expected.Position = &position
			}
			tables = append(tables, expected)
		}
	}
	return tables
}

// inspectOthers finds streams and tables in the checkpoint that are not configured.
func inspectOthers(kept *store.Inspection, cfg *config.Config) {
	shards := make(map[string][]string)
	for _, one := range kept.Shards {
		shards[one.Key.Stream] = append(shards[one.Key.Stream], one.Key.Shard)
	}
	for _, name := range slices.Sorted(maps.Keys(shards)) {
		stream := cfg.Stream(name)
		if stream == nil {
			kept.Add(inspect.Warning, inspect.CheckpointOther, cfg.CheckpointPath, fmt.Sprintf("holds the stream %s (%s), which is not configured", name, firstFew(shards[name]))).
				Says("where it is the checkpoint of another installation, set %s to this one's; where the stream is gone for good", option.CheckpointURL).
				Types("bridge checkpoint reset %s", name)
			continue
		}
		others := slices.DeleteFunc(shards[name], func(shard string) bool { return slices.Contains(stream.Tables, shard) })
		if len(others) > 0 {
			f := kept.Add(inspect.Warning, inspect.CheckpointOther, cfg.CheckpointPath, fmt.Sprintf("holds %s of the stream %s, which %sTABLE does not name", firstFew(others), name, config.StreamPrefix(name)))
			if stream.Kind == event.Release {
				f.Says("where a table was renamed, go on under the new name with its position and its gaps").Types("bridge checkpoint move %s %s <new name>", name, others[0])
				continue
			}
			f.Says("where a table was renamed, go on after its position under the new name; see bridge checkpoint show").
				Types("bridge checkpoint set %s <table> <id>", name)
		}
	}
}

// firstFew returns the first few of a list.
func firstFew(names []string) string {
	const most = 3
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
