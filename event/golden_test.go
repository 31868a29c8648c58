package event_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/source"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"example.org/bridge/tests/must"
)

var update = flag.Bool("update", false, "write the golden files again")

// golden is one event whose bytes are fixed by a file: whatever changes them changes what consumers
// have stored.
type golden struct {
	name    string
	options event.Options
	table   *table
	id      uint64
	// say is the operation that the caller names, absent says that the row is gone.
	say    event.Op
	absent bool
	// filtered says that the row does not match the stream's condition.
	filtered bool
	// after names the golden file of the entity's last event.
	after string
	op    event.Op
	bad   int
}

func goldens() []golden {
	return []golden{
		{name: "app_revision_added", options: appRevisionOptions(), table: appRevision("0"), id: 4711, op: event.Added},
		{name: "app_revision_modified", options: appRevisionOptions(), table: appRevisionLater(), id: 4711, say: event.Modified, after: "app_revision_added", op: event.Modified},
		{name: "app_revision_deleted", options: appRevisionOptions(), table: appRevision("1"), id: 4712, op: event.Deleted},
		{name: "app_revision_absent", options: appRevisionOptions(), table: appRevision("0"), id: 4711, absent: true, after: "app_revision_modified", op: event.Deleted},
		{name: "stp_capability_added", options: stpOptions(), table: stpCapability("64", "N"), id: 8, op: event.Added},
		{name: "stp_capability_modified", options: stpOptions(), table: stpCapability("128", "N"), id: 9, say: event.Modified, after: "stp_capability_added", op: event.Modified},
		{name: "stp_capability_absent", options: stpOptions(), table: stpCapability("128", "N"), id: 9, absent: true, after: "stp_capability_modified", op: event.Deleted},
		{name: "stp_capability_back", options: stpOptions(), table: stpCapability("64", "N"), id: 8, after: "stp_capability_absent", op: event.Added},
		{name: "stp_capability_deleted", options: stpOptions(), table: stpCapability("64", "Y"), id: 8, op: event.Deleted},
		{name: "stp_capability_marked", options: stpOptions(), table: stpCapability("64", "Y"), id: 8, say: event.Modified, after: "stp_capability_back", op: event.Deleted},
		{name: "stp_capability_filtered", options: stpOptions(), table: stpCapability("64", "N"), id: 8, filtered: true, after: "stp_capability_back", op: event.Deleted},
		{name: "stp_capability_unlinked", options: stpOptions(), table: stpCapability("128", "N"), id: 9, say: event.Modified, op: event.Modified},
		{name: "stp_capability_lost", options: stpOptions(), table: stpCapability("128", "N"), id: 9, absent: true, op: event.Deleted},
		{name: "stp_capability_renamed", options: stpOlderFormat(), table: stpCapability("64", "N"), id: 8, op: event.Added},
		{name: "stp_capability_folded", options: stpOlderFormat(), table: stpCapability("128", "N"), id: 8, say: event.Modified, after: "stp_capability_renamed", op: event.Modified},
		{name: "release_history_published", options: releaseOptions(), table: releaseHistory(), id: 1042, op: event.Published},
		{name: "every_kind", options: everyKindOptions(), table: everyKind(), id: 18446744073709551615, op: event.Added},
		{name: "every_kind_null", options: everyKindOptions(), table: everyKindNull(), id: 2, op: event.Added},
		{name: "every_kind_bad", options: everyKindOptions(), table: everyKindBad(), id: 3, op: event.Added, bad: 9},
		{name: "every_kind_absent", options: everyKindOptions(), table: everyKind().keyOfAll(), id: 18446744073709551615, absent: true, op: event.Deleted},
		{name: "every_kind_bad_absent", options: everyKindOptions(), table: everyKindBad().keyOfAll(), id: 3, absent: true, op: event.Deleted, bad: 9},
	}
}

func goldenFile(name string) string { return filepath.Join("testdata", name+".golden.json") }

// event encodes the golden file's event; the ID of its predecessor is read from the predecessor's
// file.
func (g golden) event(t *testing.T) event.Event {
	t.Helper()
	row := g.table.row(g.id)
	row.Op, row.Filtered = g.say, g.filtered
	if g.after != "" {
		before := must.Get(os.ReadFile(goldenFile(g.after)))(t)
		row.Predecessor = parse(t, before).Meta.ID
	}
	encoder := bind(t, g.options, g.table)
	if !g.absent {
		_, ev, err := encoder.Append(nil, row)
		must.OK(t, err)
		compareDigest(t, encoder, row.Row, ev)
		return ev
	}
	seen := must.Get(encoder.Digest(row.Row))(t)
	_, ev, err := encoder.AppendAbsent(nil, event.Absent{Key: seen.Key, ID: g.id, Read: row.Read, Predecessor: row.Predecessor})
	must.OK(t, err)
	return ev
}

func TestGoldenEvents(t *testing.T) {
	ids := map[string]string{}
	for _, g := range goldens() {
		t.Run(g.name, func(t *testing.T) {
			ev := g.event(t)
			if ev.Op != g.op || ev.BadValues != g.bad {
				t.Errorf("op %s with %d bad values, want %s with %d", ev.Op, ev.BadValues, g.op, g.bad)
			}
			if says := bytes.Contains(ev.Body, []byte(`"reason":"`+ev.Reason+`"`)); says != (ev.Op == event.Deleted) {
				t.Errorf("the reason is %q in %s", ev.Reason, ev.Body)
			}
			encoder := bind(t, g.options, g.table)
			if want := encoder.Shape().Hash().String(); ev.Schema != want {
				t.Errorf("the hash of its shape is %s, want %s", ev.Schema, want)
			}
			checkMembers(t, ev, encoder.Members(ev.Op == event.Deleted))
			if other, ok := ids[ev.ID]; ok {
				t.Errorf("it has the id of %s", other)
			}
			ids[ev.ID] = g.name
			got := append(bytes.Clone(ev.Body), '\n')
			if *update {
				must.OK(t, os.WriteFile(goldenFile(g.name), got, 0o644))
			}
			want := must.Get(os.ReadFile(goldenFile(g.name)))(t)
			if !bytes.Equal(got, want) {
				t.Errorf("got  %swant %s", got, want)
			}
			must.OK(t, compileSchema(t, g.options.Kind, g.op).Validate(unmarshal(t, got)))
		})
	}
}

// checkMembers compares the members of data, in their order, with those that an event should have.
func checkMembers(t *testing.T, ev event.Event, members []event.Member) {
	t.Helper()
	_, rest, _ := bytes.Cut(ev.Body, []byte(`"data":{`))
	for _, m := range members {
		found := false
		if _, rest, found = bytes.Cut(rest, []byte(`"`+m.Name+`":`)); !found {
			t.Errorf("no member %q in its order in %s", m.Name, ev.Body)
		}
	}
	data := parse(t, ev.Body).Data
	delete(data, "row")
	delete(data, "reason")
	if len(data) != len(members) {
		t.Errorf("%d members, want %d", len(data), len(members))
	}
}

func compileSchema(t *testing.T, kind event.Kind, op event.Op) *jsonschema.Schema {
	t.Helper()
	text := must.Get(event.Schema(kind, op))(t)
	compiler := jsonschema.NewCompiler()
	must.OK(t, compiler.AddResource("event.json", unmarshal(t, text)))
	return must.Get(compiler.Compile("event.json"))(t)
}

func unmarshal(t *testing.T, text []byte) any {
	t.Helper()
	return must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(t)
}

func appRevisionOptions() event.Options {
	return event.Options{Stream: "app_revision", Shard: "app_revision", Kind: event.Capability, Source: "registry", Table: "app_revision", Domain: "hangzhou.registry"}
}

// appRevision is the table of SOFARegistry.
func appRevision(deleted string) *table {
	return newTable(
		cell{"id", source.Int, 0, "4711"},
		cell{"data_center", source.Text, 0, "DefaultDataCenter"},
		cell{"revision", source.Text, 0, "6f3a0c1e5d7b4b5f9d5e0f0b8a7c6d5e"},
		cell{"app_name", source.Text, 0, "订单中心 <orders> & \"more\""},
		cell{"base_params", source.Text, 0, `{"tags":["a","b"]}`},
		cell{"service_params", source.Text, 0, nil},
		cell{"client_version", source.Text, 0, "5.14.2\t🚀\u2028"},
		cell{"deleted", source.Int, 0, deleted},
		cell{"gmt_create", source.Timestamp, 0, "2026-02-28 23:59:59"},
		cell{"gmt_modified", source.Timestamp, 0, "2026-03-01 00:00:07"},
	).key("data_center", "revision").created("gmt_create").modified("gmt_modified").deleted("deleted")
}

// appRevisionLater is the same row after an update in place.
func appRevisionLater() *table {
	later := appRevision("0")
	later.values[later.index("client_version")] = []byte("5.15.0")
	later.values[later.index("gmt_modified")] = []byte("2026-03-01 00:01:09")
	return later
}

func stpOptions() event.Options {
	return event.Options{Stream: "stp", Shard: "stp_capability", Kind: event.Capability, Stem: "StpCapability", Source: "tgf", Table: "stp_capability"}
}

// stpOlderFormat names types and members as consumers of the older message format read them.
func stpOlderFormat() event.Options {
	o := stpOptions()
	o.Names = map[event.Op]string{
		event.Added: "StpCapabilityAddedMessage", event.Modified: "StpCapabilityAddedMessage", event.Deleted: "StpCapabilityDeletedMessage",
	}
	o.Fields = []event.Field{{"capability_value", "CapabilityValue"}, {"stp_name", "StpName"}, {"capability_key", "CapabilityKey"}}
	return o
}

func stpCapability(value, deleted string) *table {
	return newTable(
		cell{"id", source.Int, 0, "8"},
		cell{"stp_name", source.Text, 0, "stp-0815"},
		cell{"capability_key", source.Text, 0, "cpu.cores"},
		cell{"capability_value", source.Text, 0, value},
		cell{"deleted", source.Text, 0, deleted},
	).key("stp_name", "capability_key").deleted("deleted")
}

func releaseOptions() event.Options {
	shanghai := time.FixedZone("Asia/Shanghai", 8*3600)
	return event.Options{Stream: "config-release", Shard: "ReleaseHistory", Kind: event.Release, Source: "ApolloConfigDB", Table: "ReleaseHistory", Zone: shanghai}
}

// releaseHistory is the table of Apollo. Its IsDeleted does not unmake the fact.
func releaseHistory() *table {
	return newTable(
		cell{"Id", source.Int, 0, "1042"},
		cell{"AppId", source.Text, 0, "checkout"},
		cell{"ClusterName", source.Text, 0, "default"},
		cell{"NamespaceName", source.Text, 0, "application"},
		cell{"BranchName", source.Text, 0, "default"},
		cell{"ReleaseId", source.Int, 0, "977"},
		cell{"PreviousReleaseId", source.Int, 0, "970"},
		cell{"Operation", source.Int, 0, "0"},
		cell{"OperationContext", source.JSON, 0, "{ \"isEmergencyPublish\" : false,\n \"note\": \"a < b && c\" }"},
		cell{"IsDeleted", source.Bit, 0, "\x01"},
		cell{"DeletedAt", source.Int, 0, "1772323200000"},
		cell{"DataChange_CreatedBy", source.Text, 0, "apollo"},
		cell{"DataChange_CreatedTime", source.DateTime, 3, "2026-03-01 07:30:00.250"},
	).key("AppId", "ClusterName", "NamespaceName").created("DataChange_CreatedTime").deleted("IsDeleted")
}

func everyKindOptions() event.Options {
	o := options()
	o.Stream, o.Stem = "every kind/ö", "EveryKind"
	return o
}

func everyKindCells(value func(good, bad string) any) *table {
	return newTable(
		cell{"id", source.Int, 0, "18446744073709551615"},
		cell{"int_min", source.Int, 0, value("-9223372036854775808", "12a")},
		cell{"zerofill", source.Int, 0, value("00042", "")},
		cell{"amount", source.Decimal, 0, value("-1234567890123456789012345678.0123456789", "1.0\xff")},
		cell{"ratio", source.Float, 0, value("1.5e-7", "NaN")},
		cell{"note", source.Text, 0, value("emoji 🎉, quote \", slash / \\, tab \t, null \x00, <b>&</b>", "latin \xe4")},
		cell{"digest", source.Binary, 0, value("\x00\xff\xfe", "\x00")},
		cell{"flags", source.Bit, 0, value("\x80\x01", "\x01\x00\x00\x00\x00\x00\x00\x00\x00")},
		cell{"payload", source.JSON, 0, value(` { "b" : [ 1, 2.50, "x y" ], "a" : null } `, `{"a":}`)},
		cell{"day", source.Date, 0, value("2024-02-29", "0000-00-00")},
		cell{"span", source.Clock, 3, value("-838:59:59.000", "00:00:00.000")},
		cell{"at", source.DateTime, 6, value("2026-01-02 03:04:05.000006", "2026-02-30 00:00:00.000000")},
		cell{"at_second", source.Timestamp, 0, value("1970-01-01 00:00:01", "1970-01-01 00:00:01")},
	)
}

func everyKind() *table { return everyKindCells(func(good, _ string) any { return good }) }

func everyKindBad() *table { return everyKindCells(func(_, bad string) any { return bad }) }

func everyKindNull() *table { return everyKindCells(func(string, string) any { return nil }) }
