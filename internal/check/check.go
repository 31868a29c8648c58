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
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
)

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
	// summary is not shown. ofStreams is what a bridge that runs says of them, by their names.
	Store func(ctx context.Context) store.Inspection
	HTTP  func(ctx context.Context, cfg *config.Config) (r inspect.Report, ofStreams map[string][]inspect.Finding)
}

// Examine inspects everything that cfg names, all but the store at the same time: what does not
// answer takes the time of nothing else.
func Examine(ctx context.Context, cfg *config.Config, subjects Subjects) []Group {
	ctx, cancel := context.WithTimeoutCause(ctx, checkWithin, fmt.Errorf("no answer within %s", checkWithin))
	defer cancel()
	kept := subjects.Store(ctx)
	kept.Findings = append(kept.Findings, Others(cfg, kept.Shards)...)
	positions, since := make(map[store.Key]uint64), make(map[store.Key]uint64)
	for _, one := range kept.Shards {
		positions[one.Key], since[one.Key] = one.Progress.Position, one.Progress.Since
	}
	if !kept.Known {
		positions = nil
	}

	from, lineage := make([]source.Inspection, len(cfg.Sources)), make([]inspect.Report, len(cfg.Sources))
	var to, pages inspect.Report
	var now map[store.Key]*store.Schema
	var ofStreams map[string][]inspect.Finding
	var asked sync.WaitGroup
	for i := range cfg.Sources {
		one := &cfg.Sources[i]
		asked.Go(func() { from[i] = subjects.Source(ctx, one, Expectations(cfg, one, positions)) })
		asked.Go(func() { lineage[i] = subjects.Lineage(ctx, cfg, one, since) })
	}
	asked.Go(func() { to = subjects.Sink(ctx) })
	asked.Go(func() { pages, ofStreams = subjects.HTTP(ctx, cfg) })
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
	if pages.Summary != "" {
		groups = append(groups, Group{Kind: "http", Report: pages})
	}
	for i := range groups {
		groups[i].Findings = append(groups[i].Findings, ofStreams[groups[i].Name]...)
		groups[i].Findings = inspect.Named(groups[i].Findings, config.Naming(groups[i].Name))
	}
	return groups
}

// Expectations returns what the configuration expects of every table of a source, in the order of
// streams and tables. positions is nil where they are not known.
func Expectations(cfg *config.Config, of *config.Source, positions map[store.Key]uint64) []source.Expected {
	var tables []source.Expected
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		for _, table := range cfg.TablesOf(s, of) {
			expected := source.Expected{
				Spec: s.Spec(table), Hold: s.GapPolicy == string(ledger.GapHold), Updates: s.Kind == event.Capability,
				Order: s.Order(), Zone: s.TimeZone.Location, Stream: s.Name, Shard: table,
			}
			if position, ok := positions[store.Key{Stream: s.Name, Shard: table}]; ok {
				expected.Position = &position
			} else if positions != nil {
				expected.Start = s.Start.After
			}
			tables = append(tables, expected)
		}
	}
	return tables
}

// Others returns findings of what a checkpoint has and the configuration has not: shards in order.
func Others(cfg *config.Config, kept []store.ShardState) []inspect.Finding {
	var r inspect.Report
	shards := make(map[string][]string)
	for _, one := range kept {
		shards[one.Key.Stream] = append(shards[one.Key.Stream], one.Key.Shard)
	}
	for _, name := range slices.Sorted(maps.Keys(shards)) {
		stream := cfg.Stream(name)
		if stream == nil {
			r.Add(inspect.Warning, inspect.CheckpointOther, cfg.CheckpointPath, fmt.Sprintf("holds the stream %s (%s), which is not configured", name, firstFew(shards[name]))).
				Says("where it is the checkpoint of another installation, set %s to this one's; where the stream was renamed, give it its name back; where it is gone for good", option.CheckpointURL).
				Types("bridge checkpoint reset %s", name)
			continue
		}
		others := slices.DeleteFunc(shards[name], func(shard string) bool { return slices.Contains(stream.Tables, shard) || cfg.Matched(stream, shard) })
		if len(others) > 0 {
			f := r.Add(inspect.Warning, inspect.CheckpointOther, cfg.CheckpointPath, fmt.Sprintf("holds %s of the stream %s, which %sTABLE does not name", firstFew(others), name, config.StreamPrefix(name)))
			if stream.Kind == event.Release || len(stream.Key) > 0 {
				f.Says("where a table was renamed, go on under the new name with its position and its gaps").Types("bridge checkpoint move %s %s <new name>", name, others[0])
				continue
			}
			f.Says("where a table was renamed, go on after its position under the new name; see bridge checkpoint show").
				Types("bridge checkpoint set %s <table> <id>", name)
		}
	}
	return r.Findings
}

func firstFew(names []string) string {
	const most = 3
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// meaningFindings returns a finding for each table of a stream whose checkpoint was made with
// another configuration.
func meaningFindings(cfg *config.Config, s *config.Stream, shards []store.ShardState) []inspect.Finding {
	var r inspect.Report
	for _, one := range shards {
		if one.Key.Stream != s.Name || one.Meaning == nil || !slices.Contains(s.Tables, one.Key.Shard) {
			continue
		}
		differences := one.Meaning.Differences(cfg.Meaning(s, one.Key.Shard))
		if len(differences) == 0 {
			continue
		}
		reset, goOn := stream.MeaningCommands(one.Key, one.Meaning, one.Progress.Position, differences)
		says := "put the setting back, or stop bridge, then to have the stream begin at its START again"
		if goOn != "" {
			says, reset = says+", or to go on after the rows that were published", reset+"\n"+goOn
		}
		r.Add(inspect.Unsafe, inspect.CheckpointMeaning, one.Key.Shard, "has a checkpoint that was made with another configuration: "+differences.String()).
			Says("%s", says).Types("%s", reset)
	}
	return r.Findings
}

func schemasOf(cfg *config.Config, shards []store.ShardState) (keys []store.Key) {
	for _, one := range shards {
		if s := cfg.Stream(one.Key.Stream); s != nil && one.Schema != nil && slices.Contains(s.Tables, one.Key.Shard) {
			keys = append(keys, one.Key)
		}
	}
	return keys
}

// addSchemaFindings adds to the groups of streams a finding for each table whose events, now, lack
// something that those published last have.
func addSchemaFindings(groups []Group, cfg *config.Config, shards []store.ShardState, now map[store.Key]*store.Schema) {
	for _, one := range shards {
		schema := now[one.Key]
		if schema == nil {
			continue
		}
		b := stream.BreakOf(one.Schema, schema)
		at := slices.IndexFunc(groups, func(g Group) bool { return g.Kind == "stream" && g.Name == one.Key.Stream })
		if b == nil || at < 0 {
			continue
		}
		severity, goesOn := inspect.Warning, "the stream goes on"
		if cfg.Stream(one.Key.Stream).OnSchemaChange == "stop" {
			severity, goesOn = inspect.Unsafe, "the stream stops"
		}
		groups[at].Add(severity, inspect.SchemaChanged, one.Key.Shard, "makes events that break what consumers rely on, and "+goesOn+": "+b.String()).
			Says("change the table back, or set %s to another version than %s", option.EventVersion, b.Version)
	}
}

// resolveUnreadable says what it means that a destination cannot be read back: a capability stream
// needs that, a release stream goes on by its checkpoint.
func resolveUnreadable(r *inspect.Report, cfg *config.Config) {
	if !cfg.Sink.Readable() {
		r.Summary += ", for looking: what is printed cannot be read back"
		return
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Code != inspect.TopicUnreadable && f.Code != inspect.StreamUnreadable || cfg.Sink.ExactlyOnce || cfg.Standby.Group != "" || carriesCapability(cfg, f.Subject) {
			continue
		}
		f.Severity = inspect.Warning
		f.What += "; rows may be published again after a kill"
	}
}

// carriesCapability reports whether a capability stream may publish to the topic or stream that a
// finding is about. Which stream of JetStream takes a subject, only the server knows.
func carriesCapability(cfg *config.Config, subject string) bool {
	return slices.ContainsFunc(cfg.Streams, func(s config.Stream) bool {
		if s.Kind != event.Capability {
			return false
		}
		topic, ok := strings.CutPrefix(subject, "topic ")
		if !ok || topic == s.DeadLetter {
			return true
		}
		return slices.ContainsFunc(s.Tables, func(table string) bool {
			return cfg.Destination(&s, table) == topic
		})
	})
}

// FormerName returns a finding where a table that has no progress is known under another name,
// which the stream neither names nor matches any more; nil where it is not.
func FormerName(cfg *config.Config, s *config.Stream, table string, known map[store.Key]store.Progress) *inspect.Finding {
	if known[store.Key{Stream: s.Name, Shard: table}].Started {
		return nil
	}
	former := ""
	for key, p := range known {
		same := key.Stream == s.Name && p.Started && (config.SameTable(key.Shard, table) || cfg.OneTable(key.Shard, table))
		if same && !slices.Contains(s.Tables, key.Shard) && !cfg.Matched(s, key.Shard) && (former == "" || key.Shard < former) {
			former = key.Shard
		}
	}
	if former == "" {
		return nil
	}
	var r inspect.Report
	f := r.Add(inspect.Unsafe, inspect.CheckpointMeaning, table, fmt.Sprintf("was published as %s, which %sTABLE does not name any more: "+
		"under another name its rows would be published again, with other ids, or with a KEY entities without a row would stay", former, config.StreamPrefix(s.Name)))
	hint := ""
	if config.SameTable(former, table) {
		hint = " (" + config.SourceHint(former) + ")"
	}
	keep, all := "keep the former name"+hint+"; or stop bridge, then ", fmt.Sprintf("bridge checkpoint set %s %s 0", s.Name, table)
	if s.Kind == event.Capability && len(s.Key) == 0 {
		// Its entities belong to the former table.
		return f.Says("%s", keep+"to publish all its rows under the new name").Types("%s", all)
	}
	return f.Says("%s", keep+"to go on under the new name, where it is the same table, behind its rows and with its gaps; where it is another table, "+all+" publishes all its rows").
		Types("bridge checkpoint move %s %s %s", s.Name, former, table)
}
