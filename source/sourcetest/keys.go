package sourcetest

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"example.org/bridge/source"
)

// KeyedRow is a row of the suite's tables of states.
type KeyedRow struct {
	ID   uint64
	Name string
	Part int64
	// Modified is "2006-01-02 15:04:05.000", empty for NULL.
	Modified string
}

func keyed(table string) source.Spec {
	return source.Spec{Table: table, ID: "id", Key: []string{"name", "part"}, UniqueKey: true, Modified: "modified"}
}

func keyOf(name string, part int64) [][]byte {
	return [][]byte{[]byte(name), strconv.AppendInt(nil, part, 10)}
}

// KeyOf returns the key of a row.
func KeyOf(p *source.Page, r source.Row) (tuple [][]byte) {
	for _, at := range p.Columns.Key {
		tuple = append(tuple, r.Values[at])
	}
	return tuple
}

// Found reads by keys and returns the ids of the rows whose keys are byte for byte among them.
func Found(t *testing.T, s source.Shard, q source.Query) (ids []uint64) {
	t.Helper()
	p := Read(t, s, q)
	p.Rows = slices.DeleteFunc(p.Rows, func(r source.Row) bool {
		key := KeyOf(p, r)
		return !slices.ContainsFunc(q.Keys, func(tuple [][]byte) bool { return slices.EqualFunc(tuple, key, bytes.Equal) })
	})
	return IDs(p)
}

// strangeTexts are values that no row holds, or that try to leave their quotes in a statement.
var strangeTexts = []string{
	"", "'", `\`, `"`, "' OR 1=1 -- ", "a\x00b", "\xff", "a\xc3", "NULL", "?", "%", "a ", "A", "x'61'", "😀", "\ufffd", strings.Repeat("long", 10_000),
}

func testKeys(t *testing.T, f Fixture) {
	table := f.NewKeyed(t)
	f.InsertKeyed(t, table, KeyedRow{ID: 3, Name: `b'\"`, Part: 1}, KeyedRow{ID: 5, Name: "a", Part: 2}, KeyedRow{ID: 8, Name: "a", Part: -1}, KeyedRow{ID: 9, Name: "naïve 😀", Part: 0})
	s := f.Source.Shard(keyed(table))
	strange := [][][]byte{
		{nil, []byte("1")}, {[]byte("a"), nil}, {nil, nil}, {[]byte("a"), []byte("")}, {[]byte("a"), []byte("two")}, {[]byte("a"), []byte("2; DROP TABLE x")},
		{[]byte("a"), []byte("2e0")}, {[]byte("a"), []byte("2.0")}, {[]byte("a"), []byte("02")}, {[]byte("a"), []byte("-")}, {[]byte("a"), []byte(strings.Repeat("9", 100))},
	}
	for _, text := range strangeTexts {
		strange = append(strange, keyOf(text, 2))
	}
	type reading struct {
		keys [][][]byte
		want []uint64
	}
	readings := []reading{
		{[][][]byte{keyOf(`b'\"`, 1)}, []uint64{3}},
		{[][][]byte{keyOf("naïve 😀", 0), keyOf("a", -1), keyOf("a", 2)}, []uint64{5, 8, 9}},
		{[][][]byte{keyOf("a", 2), keyOf("a", 2)}, []uint64{5}},
		{[][][]byte{keyOf("a", 1), keyOf("b", 2), keyOf("", 1), keyOf("a", -2)}, nil},
		{[][][]byte{}, nil},
		{append(strange[:len(strange):len(strange)], keyOf("a", 2), keyOf(`b'\"`, 1)), []uint64{3, 5}},
	}
	for _, tuple := range strange {
		readings = append(readings, reading{keys: [][][]byte{tuple}})
	}
	for _, r := range readings {
		Same(t, Found(t, s, source.Query{Keys: r.keys, Limit: 100}), r.want, "found by the keys %.60q", r.keys)
	}
	if p := Read(t, s, source.Query{Keys: readings[0].keys, Limit: 100}); p.MaxID != 9 || p.More {
		t.Errorf("highest id %d, more %t", p.MaxID, p.More)
	}
	table = f.NewTable(t)
	f.Insert(t, table, rowsOf(1, 2, 41)...)
	ids := [][][]byte{{[]byte("41")}, {[]byte("2")}, {[]byte("3")}, {[]byte("0")}, {[]byte("-1")}, {nil}}
	Same(t, Found(t, f.Source.Shard(spec(table)), source.Query{Keys: ids, Limit: 9}), []uint64{2, 41}, "without KEY the keys are ids")
}

func testManyKeys(t *testing.T, f Fixture) {
	table := f.NewKeyed(t)
	var rows []KeyedRow
	var keys [][][]byte
	var want []uint64
	for i := range source.MaxKeys {
		id := uint64(3*i + 1)
		row := KeyedRow{ID: id, Name: fmt.Sprintf("näme %d", i/2), Part: int64(i % 2)}
		rows = append(rows, row)
		keys, want = append(keys, keyOf(row.Name, row.Part)), append(want, id)
	}
	f.InsertKeyed(t, table, rows...)
	s := f.Source.Shard(keyed(table))
	slices.Reverse(keys)
	Same(t, Found(t, s, source.Query{Keys: keys, Limit: source.MaxKeys}), want, "found by %d keys", len(keys))
	for _, q := range []source.Query{{Keys: keys, Limit: 10}, {Keys: keys, Limit: 1000, MaxBytes: 1000}} {
		if p := Read(t, s, q); !p.More || len(p.Rows) == 0 || len(p.Rows) > 300 {
			t.Errorf("limit %d, %d bytes: %d rows, more %t", q.Limit, q.MaxBytes, len(p.Rows), p.More)
		}
	}
}

func testUnfitKeys(t *testing.T, f Fixture) {
	sp := spec(f.NewTable(t))
	sp.Key = []string{"name"}
	Transient(t, f.Source.Shard(sp).Read(t.Context(), source.Query{Keys: [][][]byte{{[]byte("a")}}, Limit: 1}, new(source.Page)), source.ErrUnfit)
	sp = keyed(f.NewKeyed(t))
	sp.Key = append(sp.Key, "ratio")
	Refused(t, f.Source.Shard(sp), source.ErrUnfit, "ratio")
	sp.UniqueKey = false
	Read(t, f.Source.Shard(sp), source.Query{Limit: 1})
}
