package verify_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest/memory"
)

func TestWhatIsFound(t *testing.T) { playFile(t, "testdata/found.txt") }

// TestMigrations has rows published before a migration and after it: what it explains is not a
// fault, and an event from before it that was altered is still found.
func TestMigrations(t *testing.T) { playFile(t, "testdata/migrations.txt") }

// TestWhatHasNoTimeYet: a row younger than the stability window is not judged, one without a
// time of its own is waited for.
func TestWhatHasNoTimeYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, event.Release)
		w.insert("a", "x")
		w.table.Insert("a", "x", "1.50", time.Now().UTC().Format("2006-01-02 15:04:05.000"))
		want(t, w.check(func(o *verify.Options) { o.Shards[0].Window = time.Hour }), " | young 1")
		w = newWorld(t, event.Release)
		for range 3 {
			w.publish(w.table.Insert("a", "x", "1.50"))
		}
		w.bus.cut(2)
		want(t, w.check(func(o *verify.Options) { o.Shards[0].Window = 40 * time.Second }), "missing 1")
	})
}

// TestARepeatOfARowWithoutATime was read at another time.
func TestARepeatOfARowWithoutATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := withColumns(t, event.Release, source.Column{Name: "value", Kind: source.Text})
		id := w.table.Insert("a", "x")
		w.publish(id)
		time.Sleep(time.Minute)
		w.publish(id)
		want(t, w.check(), "")
	})
}

func TestColumnsOfAllKindsProveTheirEvents(t *testing.T) {
	for _, c := range []struct {
		column source.Column
		value  string
	}{
		{source.Column{Kind: source.Int}, "-17"},
		{source.Column{Kind: source.Decimal}, "0.10"},
		{source.Column{Kind: source.Float}, "1e+30"},
		{source.Column{Kind: source.Text}, "a\"\\\n\u2028é"},
		{source.Column{Kind: source.Binary}, "\x00\xff"},
		{source.Column{Kind: source.Date}, "2026-02-28"},
		{source.Column{Kind: source.Clock}, "-838:59:59"},
		{source.Column{Kind: source.DateTime, Precision: 6}, "2026-07-01 00:00:00.000001"},
		{source.Column{Kind: source.Timestamp}, "2026-07-01 00:00:00"},
	} {
		c.column.Name = "value"
		t.Run(c.value, func(t *testing.T) {
			w := withColumns(t, event.Release, c.column)
			w.publish(w.table.Insert("a", c.value))
			w.publish(w.table.Insert("b"))
			// An event without its row has to be proven by itself.
			w.table.Delete(1)
			want(t, w.check(), " | purged 1")
		})
	}
}

func TestTypesThatOperationsShare(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.options.Names = map[event.Op]string{event.Added: "ThingMessage", event.Modified: "ThingMessage"}
	w.encoder = w.newEncoder()
	w.replace(w.insert("a", "first"), "a", "second")
	want(t, w.check(), "")
}

func TestMessagesOfOtherDomains(t *testing.T) {
	const foreign = "other.domain"
	ours := func(o *verify.Options) { o.Domain = "bridge" }
	w := stamped(t, event.Capability)
	w.insert("a", "first")
	w.insert("b", "first")
	own := w.bus.messages
	w.bus.messages, w.options.Domain = nil, foreign
	w.encoder, w.stamp.Acked = w.newEncoder(), 100
	clear(w.last)
	w.insert("a", "theirs")
	w.insert("c", "theirs")
	w.insert("d", "theirs")
	w.refuse(2, 5)
	for _, m := range w.bus.messages {
		m.Header[sink.HeaderDomain] = foreign
	}
	w.bus.messages = append(w.bus.messages, own...)
	for id := range uint64(3) {
		w.table.Delete(id + 3)
	}
	w.options.Domain = ""
	// Nor does a boundary of a list of ours come from another source.
	boundary := *own[0]
	boundary.Value, boundary.Header = nil, maps.Clone(boundary.Header)
	boundary.Header[sink.HeaderList] = "begin;1;" + boundary.Header[sink.HeaderStream]
	delete(boundary.Header, sink.HeaderStream)
	delete(boundary.Header, sink.HeaderShard)
	w.bus.messages = append(w.bus.messages, &boundary)
	r := w.check(ours)
	want(t, r, "")
	if !slices.Equal(r.OtherDomains, []verify.OtherDomain{{Domain: foreign, Messages: 3}}) || r.Others != 0 {
		t.Errorf("%+v, %d others", r.OtherDomains, r.Others)
	}
	// A header of another domain does not hide an event of ours.
	w.bus.messages[4].Header[sink.HeaderDomain] = foreign
	want(t, w.check(ours), "missing 1")
}

// nullable is a table whose unique index takes NULL as its key many times.
type nullable struct {
	source.Shard
	columns *source.Columns
}

func (n *nullable) Read(ctx context.Context, q source.Query, p *source.Page) error {
	err := n.Shard.Read(ctx, q, p)
	if n.columns == nil && err == nil {
		columns := *p.Columns
		columns.NullKey = columns.Key
		n.columns = &columns
	}
	p.Columns = n.columns
	return err
}

// TestRowsWithoutAKey: a version before this one published rows with NULL in their key, and a
// reconcile has deleted them.
func TestRowsWithoutAKey(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.insert("a", "x")
	w.insert(memory.Null, "x")
	table := &nullable{Shard: w.table}
	of := func(o *verify.Options) { o.Shards[0].Source = table }
	want(t, w.check(of), "extra 1")
	w.read, w.previous = time.Now(), w.last[""]
	_, ev, err := w.encoder.AppendAbsent(nil, event.Absent{Key: []byte("%"), ID: 2, Read: w.read, Predecessor: w.previous})
	w.send(ev, 2, err)
	want(t, w.check(of), "")
}

// TestATimeThatIsNoMember has meta.time from a MODIFIED that FIELDS leaves out.
func TestATimeThatIsNoMember(t *testing.T) {
	w := newWorld(t, event.Capability)
	times := []source.Column{{Name: "created", Kind: source.Timestamp}, {Name: "modified", Kind: source.Timestamp}}
	w.table = memory.NewTable(source.Spec{ID: "id", Key: []string{"name"}, Created: "created", Modified: "modified"}, append(slices.Clone(list[:2]), times...)...)
	w.options.Fields = []event.Field{{Column: "name"}, {Column: "created"}}
	w.encoder = w.newEncoder()
	w.publish(w.table.Insert("a", "2026-03-01 02:20:30", "2026-03-02 02:20:30"))
	want(t, w.check(), "")
}
