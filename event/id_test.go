package event_test

import (
	"bytes"
	"strings"
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

const earlier, earlierStill = "6ba7b810-9dad-51d1-80b4-00c04fd430c8", "6ba7b811-9dad-51d1-80b4-00c04fd430c8"

func TestIDsDifferWhereAnyPartDiffers(t *testing.T) {
	rows := func(a, b, deleted any) *table {
		return newTable(
			cell{"id", source.Int, 0, "1"}, cell{"a", source.Text, 0, a}, cell{"b", source.Text, 0, b}, cell{"deleted", source.Int, 0, deleted},
		).key("a", "b").deleted("deleted")
	}
	id := func(stream, shard string, rows *table, row uint64, predecessor string) string {
		o := options()
		o.Stream, o.Shard, o.Stem = stream, shard, "X"
		r := rows.row(row)
		r.Predecessor = predecessor
		return encode(t, o, rows, r).ID
	}
	ids := map[string]string{}
	for name, got := range map[string]string{
		"the fact":                     id("s", "t", rows("a", "bc", "0"), 1, ""),
		"another stream":               id("r", "t", rows("a", "bc", "0"), 1, ""),
		"another shard":                id("s", "u", rows("a", "bc", "0"), 1, ""),
		"shard after stream":           id("sst", "t", rows("a", "bc", "0"), 1, ""),
		"a letter moved to the shard":  id("ss", "tt", rows("a", "bc", "0"), 1, ""),
		"a letter moved in the key":    id("s", "t", rows("ab", "c", "0"), 1, ""),
		"the whole key in one column":  id("s", "t", rows("abc", "", "0"), 1, ""),
		"NULL in place of empty":       id("s", "t", rows("abc", nil, "0"), 1, ""),
		"NULL first":                   id("s", "t", rows(nil, "abc", "0"), 1, ""),
		"a byte that looks like NULL":  id("s", "t", rows("abc", "\x00", "0"), 1, ""),
		"another row":                  id("s", "t", rows("a", "bc", "0"), 2, ""),
		"another operation":            id("s", "t", rows("a", "bc", "1"), 1, ""),
		"another state":                id("s", "t", rows("a", "bc", nil), 1, ""),
		"a predecessor":                id("s", "t", rows("a", "bc", "0"), 1, earlier),
		"another predecessor":          id("s", "t", rows("a", "bc", "0"), 1, earlierStill),
		"a row id in another position": id("s", "t", rows("a", "bc", "0"), 1<<56, ""),
	} {
		if other, ok := ids[got]; ok {
			t.Errorf("%s has the id of %s", name, other)
		}
		ids[got] = name
	}
}

func TestTheSameFactHasTheSameEvent(t *testing.T) {
	rows := appRevision("0")
	later := rows.row(1)
	later.Read = readAt.Add(1e9)
	a, b := encode(t, appRevisionOptions(), rows, rows.row(1)), encode(t, appRevisionOptions(), rows, later)
	if a.ID != b.ID || !bytes.Equal(a.Body, b.Body) {
		t.Errorf("two reads make two events:\n%s\n%s", a.Body, b.Body)
	}
}

func FuzzParseID(f *testing.F) {
	for _, text := range []string{
		"", earlier, strings.ToUpper(earlier), "00000000-0000-0000-0000-000000000000", earlier + "\n", " " + earlier, earlier[1:], "{" + earlier + "}",
		"6ba7b8109dad51d180b400c04fd430c8", "6ba7b810-9dad-51d1-80b4-00c04fd430cg", "6ba7b81009dad-51d1-80b4-00c04fd430c8", "------------------------------------",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := event.ParseID(text)
		if err == nil && event.FormatID(id) != text {
			t.Errorf("%q is taken for %s", text, event.FormatID(id))
		}
	})
}

func TestDigestKeepsNoHugeKey(t *testing.T) {
	huge := newTable(cell{"id", source.Int, 0, "1"}, cell{"k", source.Text, 0, strings.Repeat("x", 3<<20)}).key("k")
	encoder := bind(t, options(), huge)
	row := huge.row(1)
	want := huge.values[1]
	for range 2 {
		seen, err := encoder.Digest(row.Row)
		if err != nil || !bytes.Equal(seen.Key, want) {
			t.Fatalf("a key of %d bytes, want %d; %v", len(seen.Key), len(want), err)
		}
	}
	row.Values[1] = []byte("small")
	must.Get(encoder.Digest(row.Row))(t)
	if seen, err := encoder.Digest(row.Row); err != nil || cap(seen.Key) > 1<<20 {
		t.Errorf("%d bytes are kept; %v", cap(seen.Key), err)
	}
}

// TestTheIDOfWhatAnEventSays is that of the event, of its own shard or of another one.
func TestTheIDOfWhatAnEventSays(t *testing.T) {
	other := stpOptions()
	other.Shard = "a former name"
	for _, c := range []struct {
		deleted string
		op      event.Op
	}{{"N", event.Added}, {"N", event.Modified}, {"Y", ""}} {
		rows := stpCapability("64", c.deleted)
		row := rows.row(8)
		row.Op, row.Predecessor = c.op, earlier
		ev, theirs := encode(t, stpOptions(), rows, row), encode(t, other, rows, row)
		encoder, said := bind(t, stpOptions(), rows), event.Said{Op: ev.Op, Reason: ev.Reason, Row: 8, Predecessor: earlier}
		if got := encoder.IDOf(&said, row.Values, ev.Digest); got != ev.UUID {
			t.Errorf("%s has the id %s", ev.Body, event.FormatID(got))
		}
		if said.Shard = other.Shard; encoder.IDOf(&said, row.Values, ev.Digest) != theirs.UUID {
			t.Errorf("%s has not the id that the other shard gives it", ev.Body)
		}
	}
}
