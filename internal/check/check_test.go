package check

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

func load(t *testing.T, env configtest.Env) *config.Config {
	t.Helper()
	cfg := must.Get(config.Load(env.Environ(), &config.Redactor{}))(t)
	return cfg
}

func TestStreamGroups(t *testing.T) {
	cfg := load(t, configtest.With("BRIDGE_STREAM_ORDERS_ID_ORDER", "auto", "BRIDGE_STREAM_ORDERS_START", "latest"))
	table := func(order source.IDOrder, findings ...inspect.Finding) source.TableInspection {
		return source.TableInspection{Order: order, Why: "because", Findings: findings}
	}
	at := func(shards ...string) map[store.Key]uint64 {
		positions := make(map[store.Key]uint64)
		for _, shard := range shards {
			positions[store.Key{Stream: "orders", Shard: shard}] = 7
		}
		return positions
	}
	for _, c := range []struct {
		name      string
		tables    []source.TableInspection
		known     bool
		positions map[store.Key]uint64
		want      string
	}{
		{"not reached", nil, true, nil, "2 tables, not looked at"},
		{"one order, no checkpoint", []source.TableInspection{table("strict"), table("strict")}, true, nil, "2 tables, ids strict (because), tail begins after the latest row, if the bus has nothing of it"},
		{"two orders, all checkpoints", []source.TableInspection{table("strict"), table("segmented")}, true, at("orders_0", "orders_1"),
			"2 tables, ids strict in 1 table, segmented in 1 table, tails go on after their checkpoints"},
		{"a table that cannot be read, one checkpoint", []source.TableInspection{table(""), table("strict")}, true, at("orders_1"),
			"2 tables, ids strict (because), tails: 1 after their checkpoints, 1 after the latest row"},
		{"a checkpoint in use", []source.TableInspection{table("strict"), table("strict")}, false, nil, "2 tables, ids strict (because), tail goes on where the checkpoint says"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inspected := make(map[store.Key]source.TableInspection)
			for i, table := range c.tables {
				inspected[store.Key{Stream: "orders", Shard: cfg.Streams[0].Tables[i]}] = table
			}
			groups := streamGroups(cfg, inspected, &store.Inspection{Known: c.known}, c.positions)
			if len(groups) != 1 || groups[0].Summary != c.want || groups[0].Skipped != (c.tables == nil) {
				t.Errorf("%+v, want %q", groups, c.want)
			}
		})
	}
}

// TestKeysOfBytes: a value that is text in one table and bytes in another is warned of where tables
// share entities.
func TestKeysOfBytes(t *testing.T) {
	for kind, want := range map[string]int{"capability": 1, "release": 0} {
		cfg := load(t, configtest.With("BRIDGE_STREAM_ORDERS_TABLE", "a,b,c,d", "BRIDGE_STREAM_ORDERS_KEY", "name", "BRIDGE_STREAM_ORDERS_KIND", kind))
		inspected := map[store.Key]source.TableInspection{
			{Stream: "orders", Shard: "a"}: {}, {Stream: "orders", Shard: "b"}: {Order: "strict"},
			{Stream: "orders", Shard: "c"}: {Order: "strict", KeyForm: "name in base64"}, {Stream: "orders", Shard: "d"}: {Order: "strict"},
		}
		found := streamGroups(cfg, inspected, &store.Inspection{}, nil)[0].Findings
		if len(found) != want || want > 0 && (found[0].Subject != "c" || !strings.Contains(found[0].What, "(name in base64) than b (as it is)")) {
			t.Errorf("%s: %+v", kind, found)
		}
	}
}

// TestPatternsAreNamed: a stream says what its patterns match, and has a finding for one that
// matches nothing.
func TestPatternsAreNamed(t *testing.T) {
	cfg := load(t, configtest.With("BRIDGE_STREAM_ORDERS_TABLE", "orders_*,bills_*"))
	key := store.Key{Stream: "orders", Shard: "orders_1"}
	for _, c := range []struct {
		matched  []string
		summary  string
		findings int
	}{
		{nil, "no tables", 2},
		{[]string{"orders_1"}, "orders_* matches 1 table (orders_1), bills_* matches no tables", 1},
	} {
		found := cfg.WithTables(map[string][]string{"orders": c.matched})
		inspected := map[store.Key]source.TableInspection{key: {Order: "strict"}}
		g := streamGroups(found, inspected, &store.Inspection{}, nil)[0]
		if !strings.Contains(g.Summary, c.summary) || len(g.Findings) != c.findings || g.Skipped {
			t.Errorf("%q: %+v", c.matched, g)
		}
		for _, f := range g.Findings {
			if f.Code != inspect.NoTable {
				t.Errorf("%q: %+v", c.matched, f)
			}
		}
	}
	if g := streamGroups(cfg, nil, &store.Inspection{}, nil)[0]; len(g.Findings) != 0 || !g.Skipped {
		t.Errorf("tables that are not known: %+v", g)
	}
	// One that is gone is no other.
	kept := []store.ShardState{{Key: key}, {Key: store.Key{Stream: "orders", Shard: "renamed"}}}
	if found := Others(cfg, kept); len(found) != 1 || !strings.Contains(found[0].What, "holds renamed of the stream orders") {
		t.Errorf("%+v", found)
	}
}

// TestFormerName has the configured name of a table, orders or with its database, and under which
// it was published: that may be the same table.
func TestFormerName(t *testing.T) {
	for _, c := range []struct {
		kind, key, former, table string
		want                     bool
	}{
		{"release", "", "orders", "shop.orders", true}, {"release", "", "Shop.orders", "orders", true}, {"release", "", "other.orders", "orders", false},
		{"capability", "", "orders", "Orders", true}, {"capability", "", "items", "orders", false},
		{"capability", "order_no", "orders", "shop.orders", true}, {"capability", "order_no", "a/orders", "orders", true},
	} {
		cfg := load(t, configtest.With("BRIDGE_SOURCE_URL", "mysql://u:p@db/shop",
			"BRIDGE_STREAM_ORDERS_TABLE", c.table, "BRIDGE_STREAM_ORDERS_KIND", c.kind, "BRIDGE_STREAM_ORDERS_KEY", c.key))
		known := map[store.Key]store.Progress{{Stream: "orders", Shard: c.former}: {Started: true}}
		if f := FormerName(cfg, &cfg.Streams[0], c.table, known); (f != nil) != c.want || f != nil && strings.Contains(f.Do, "BRIDGE_SOURCE") != strings.Contains(c.former, "/") {
			t.Errorf("%+v: found %+v", c, f)
		}
	}
}

func TestExpectations(t *testing.T) {
	cfg := load(t, configtest.With("BRIDGE_STREAM_ORDERS_KEY", "a,b", "BRIDGE_STREAM_ORDERS_ID_ORDER", "segmented", "BRIDGE_STREAM_ORDERS_TIME_ZONE", "Asia/Shanghai", "BRIDGE_STREAM_ORDERS_START", "7"))
	tables := Expectations(cfg, &cfg.Sources[0], map[store.Key]uint64{{Stream: "orders", Shard: "orders_1"}: 5})
	if len(tables) != 2 || tables[0].Position != nil || tables[1].Position == nil || *tables[1].Position != 5 {
		t.Fatalf("%+v", tables)
	}
	if tables[0].Start != 7 || tables[1].Start != 0 || Expectations(cfg, &cfg.Sources[0], nil)[0].Start != 0 {
		t.Errorf("%+v", tables)
	}
	if one := tables[1]; one.Spec.Table != "orders_1" || !one.Spec.UniqueKey || !one.Updates || one.Order != source.OrderSegmented || one.Zone.String() != "Asia/Shanghai" {
		t.Errorf("%+v", one)
	}
	cfg = load(t, configtest.With("BRIDGE_STREAM_ORDERS_KIND", "release"))
	release := Expectations(cfg, &cfg.Sources[0], nil)
	if release[0].Spec.UniqueKey || release[0].Updates || release[0].Order != "" {
		t.Errorf("%+v", release[0])
	}
}

func TestAChangedSchemaIsFound(t *testing.T) {
	was := &store.Schema{Version: [3]uint32{1, 0, 0}, Hash: [6]byte{1}, Members: []store.SchemaMember{{Name: "id", Type: "integer"}, {Name: "name", Type: "string"}}}
	for name, c := range map[string]struct {
		on       string
		change   func(now *store.Schema)
		severity inspect.Severity
		words    string
	}{
		"a member is gone":           {"warn", func(s *store.Schema) { s.Hash, s.Members = [6]byte{2}, s.Members[:1] }, inspect.Warning, "the stream goes on: member name was string and is gone"},
		"a member is gone, it stops": {"stop", func(s *store.Schema) { s.Hash, s.Members = [6]byte{2}, s.Members[:1] }, inspect.Unsafe, "the stream stops: member name was string and is gone"},
		"nothing":                    {"stop", func(*store.Schema) {}, 0, ""},
		"the version is another one": {"stop", func(s *store.Schema) { s.Version, s.Hash, s.Members = [3]uint32{2}, [6]byte{2}, nil }, 0, ""},
		"a member is new": {"stop", func(s *store.Schema) {
			s.Hash = [6]byte{2}
			s.Members = append(s.Members, store.SchemaMember{Name: "z", Type: "string"})
		}, 0, ""},
		"nobody knows the former ones": {"stop", nil, inspect.Unsafe, "the checkpoint does not know which these were"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := load(t, configtest.With("BRIDGE_ON_SCHEMA_CHANGE", c.on))
			key, known := store.Key{Stream: "orders", Shard: "orders_1"}, *was
			now := &store.Schema{Version: was.Version, Hash: was.Hash, Members: append([]store.SchemaMember{}, was.Members...)}
			if c.change == nil {
				known.Members, now.Hash = nil, [6]byte{2}
			} else {
				c.change(now)
			}
			var asked []store.Key
			beside := make(chan struct{})
			groups := Examine(t.Context(), cfg, Subjects{
				Source: func(context.Context, *config.Source, []source.Expected) source.Inspection {
					return source.Inspection{Tables: make([]source.TableInspection, 2)}
				},
				Schemas: func(_ context.Context, _ *config.Config, shards []store.Key) map[store.Key]*store.Schema {
					asked = shards
					return map[store.Key]*store.Schema{key: now}
				},
				Lineage: func(context.Context, *config.Config, *config.Source, map[store.Key]uint64) inspect.Report {
					return inspect.Report{}
				},
				Sink: func(ctx context.Context) inspect.Report {
					select {
					case <-beside:
					case <-ctx.Done():
						t.Error("a bus that does not answer keeps the bridge that runs from being asked")
					}
					return inspect.Report{}
				},
				Store: func(context.Context) store.Inspection {
					return store.Inspection{Known: true, Shards: []store.ShardState{{Key: key, Schema: &known}, {Key: store.Key{Stream: "orders", Shard: "orders_0"}}}}
				},
				HTTP: func(context.Context, *config.Config) (r inspect.Report, ofStreams map[string][]inspect.Finding) {
					close(beside)
					return r, nil
				},
			})
			if len(asked) != 1 || asked[0] != key {
				t.Errorf("asked for %v", asked)
			}
			var found []inspect.Finding
			for _, g := range groups {
				found = append(found, g.Findings...)
			}
			if c.words == "" {
				if len(found) > 0 {
					t.Errorf("found %+v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Code != inspect.SchemaChanged || found[0].Severity != c.severity || !strings.Contains(found[0].What, c.words) ||
				!strings.Contains(found[0].Do, "BRIDGE_STREAM_ORDERS_EVENT_VERSION to another version than 1.0.0") {
				t.Errorf("found %+v", found)
			}
		})
	}
}

func TestWhatCannotBeReadBack(t *testing.T) {
	const stream = "BRIDGE_STREAM_ORDERS_"
	release := []string{stream + "KIND", "release"}
	for _, c := range []struct {
		name    string
		env     []string
		code    inspect.Code
		subject string
		want    inspect.Severity
	}{
		{"a topic of a capability stream", []string{stream + "DESTINATION", "shop"}, inspect.TopicUnreadable, "topic shop", inspect.Unsafe},
		{"its dead letters", []string{stream + "DESTINATION", "shop", stream + "DEAD_LETTER", "dead"}, inspect.TopicUnreadable, "topic dead", inspect.Unsafe},
		{"a topic of another stream", []string{stream + "DESTINATION", "shop"}, inspect.TopicUnreadable, "topic log", inspect.Warning},
		{"a topic of a release stream", append(release, stream+"DESTINATION", "shop"), inspect.TopicUnreadable, "topic shop", inspect.Warning},
		{"a stream of JetStream", nil, inspect.StreamUnreadable, "stream EVENTS", inspect.Unsafe},
		{"a stream of JetStream with facts", release, inspect.StreamUnreadable, "stream EVENTS", inspect.Warning},
		{"another finding", release, inspect.TopicGrant, "topic shop", inspect.Unsafe},
	} {
		var r inspect.Report
		r.Add(inspect.Unsafe, c.code, c.subject, "may not be read")
		resolveUnreadable(&r, load(t, configtest.With(append(c.env, "BRIDGE_SINK_URL", "kafka://127.0.0.1:1")...)))
		if got := r.Findings[0]; len(r.Findings) != 1 || got.Severity != c.want || strings.Contains(got.What, "published again") != (c.want == inspect.Warning) {
			t.Errorf("%s: found %v, %v, want %v", c.name, got, got.Severity, c.want)
		}
	}
	r := inspect.Report{Summary: "stdout: prints events"}
	resolveUnreadable(&r, load(t, configtest.With("BRIDGE_SINK_URL", "stdout:")))
	if len(r.Findings) > 0 || r.Summary != "stdout: prints events, for looking: what is printed cannot be read back" {
		t.Errorf("%+v", r)
	}
}

func groupsWith(findings ...inspect.Finding) []Group {
	return []Group{
		{Kind: "source", Report: inspect.Report{Summary: "MariaDB 11.8.3 at db:3306"}},
		{Kind: "stream", Name: "orders", Report: inspect.Report{Summary: "2 tables, ids strict", Findings: findings}},
	}
}

func found(severity inspect.Severity, subject string) inspect.Finding {
	return inspect.Finding{Severity: severity, Code: inspect.Stride, Subject: subject, What: "is " + severity.String(), Do: "fix it", Statement: "FIX " + subject + ";"}
}

func asJSON(t *testing.T, groups []Group) []byte {
	t.Helper()
	text := must.Get(json.Marshal(NewReport(groups, strings.ToLower)))(t)
	return text
}

func TestPrint(t *testing.T) {
	long := found(inspect.Warning, "orders_0")
	long.What = "says " + strings.Repeat("word ", 30) + "\x1b[2J\nat its end"
	groups := groupsWith(long, found(inspect.Unsafe, "orders_0"), found(inspect.Unsafe, "orders_1"))
	t.Run("in columns that fit a terminal, like findings once", func(t *testing.T) {
		got := Text(groups, false)
		want := "source         ok       MariaDB 11.8.3 at db:3306\n" +
			"stream orders  blocks   2 tables, ids strict\n" +
			"    warning  orders_0 says word word word word word word word word word word\n" +
			"             word word word word word word word word word word word word word\n" +
			"             word word word word word word word [2J at its end. Fix it:\n" +
			"               FIX orders_0;\n" +
			"    blocks   each of orders_0, orders_1 is unsafe. Fix it:\n" +
			"               FIX orders_0;\n" +
			"               FIX orders_1;\n"
		if got != want {
			t.Errorf("printed\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("a few of many statements", func(t *testing.T) {
		var many []inspect.Finding
		for i := range 64 {
			many = append(many, found(inspect.Note, fmt.Sprintf("t_%02d", i)))
		}
		got := Text(groupsWith(many...), false)
		if strings.Count(got, "FIX") != MostStatements || !strings.Contains(got, "each of t_00, t_01, t_02 and 61 more is note") || !strings.Contains(got, "… and 60 more, see --json") {
			t.Errorf("printed\n%s", got)
		}
	})
	t.Run("all of them as JSON", func(t *testing.T) {
		var got struct {
			Severity string
			Groups   []struct {
				Group, Stream, Severity, Summary string
				Findings                         []struct{ Severity, Code, Subject, What, Do, Statement string }
			}
		}
		must.OK(t, json.Unmarshal(asJSON(t, groups), &got))
		if got.Severity != "unsafe" || len(got.Groups) != 2 || got.Groups[0].Findings == nil || got.Groups[0].Severity != "ok" {
			t.Errorf("%+v", got)
		}
		stream := got.Groups[1]
		if stream.Stream != "orders" || len(stream.Findings) != 3 || stream.Findings[2].Statement != "fix orders_1;" || stream.Findings[2].Code != "stride" {
			t.Errorf("%+v", stream)
		}
	})
	t.Run("what could not be looked at as such", func(t *testing.T) {
		skipped := groupsWith()
		skipped[1].Skipped = true
		if got := Text(skipped, false); !strings.Contains(got, "stream orders  -        2 tables") {
			t.Errorf("printed\n%s", got)
		}
		if got := string(asJSON(t, skipped)); !strings.Contains(got, `"severity":"skipped"`) {
			t.Errorf("printed\n%s", got)
		}
	})
}
