package event_test

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"example.org/bridge/event"
	"example.org/bridge/source"
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

// Two key columns whose texts join to the same bytes are the case that a careless encoding
// confuses.
func TestEntitiesAreEqualExactlyWhenTheirKeysAre(t *testing.T) {
	value := rapid.OneOf(
		rapid.Just([]byte(nil)),
		rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 'a', '+', 0xff}), 0, 4),
		rapid.SliceOfN(rapid.Byte(), 126, 130),
	)
	rapid.Check(t, func(r *rapid.T) {
		width := rapid.IntRange(1, 3).Draw(r, "width")
		keys := [2][][]byte{rapid.SliceOfN(value, width, width).Draw(r, "one"), rapid.SliceOfN(value, width, width).Draw(r, "other")}
		if rapid.Bool().Draw(r, "same") {
			keys[1] = keys[0]
		}
		var events [2]event.Event
		for i, key := range keys {
			rows := newTable(cell{"id", source.Int, 0, "1"})
			for n, v := range key {
				rows.add(cell{string(rune('a' + n)), source.Binary, 0, v})
				rows.columns.Key = append(rows.columns.Key, n+1)
			}
			rows.columns.Key = rows.columns.Key[1:]
			events[i] = encode(t, options(), rows, rows.row(1))
		}
		same := true
		for n := range keys[0] {
			same = same && bytes.Equal(keys[0][n], keys[1][n]) && (keys[0][n] == nil) == (keys[1][n] == nil)
		}
		if bytes.Equal(events[0].Key, events[1].Key) != same || (events[0].ID == events[1].ID) != same {
			r.Fatalf("%q: keys %q and %q", keys, events[0].Key, events[1].Key)
		}
	})
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
	if _, err := encoder.Digest(row.Row); err != nil {
		t.Fatal(err)
	}
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
