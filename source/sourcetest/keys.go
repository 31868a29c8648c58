package sourcetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"bridge/source"
)

// KeyedRow is a row of the suite's tables of states.
type KeyedRow struct {
	ID   uint64
	Name string
	Part int64
	// Modified is "2006-01-02 15:04:05.000", empty for NULL.
	Modified string
}

// keyed is the spec of a table of states.
func keyed(table string) source.Spec {
	return source.Spec{Table: table, ID: "id", Key: []string{"name", "part"}, UniqueKey: true, Modified: "modified"}
}

func keyOf(name string, part int64) [][]byte {
	return [][]byte{[]byte(name), strconv.AppendInt(nil, part, 10)}
}

// found reads by keys and returns the ids of the rows whose keys are byte for byte among them.
func found(t *testing.T, s source.Shard, q source.Query) (ids []uint64) {
	t.Helper()
	p := read(t, s, q)
	for _, r := range p.Rows {
		match := slices.ContainsFunc(q.Keys, func(tuple [][]byte) bool {
			for i, at := range p.Columns.Key {
				if !bytes.Equal(tuple[i], r.Values[at]) || (tuple[i] == nil) != (r.Values[at] == nil) {
					return false
				}
			}
			return true
		})
		if match {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

func testKeys(t *testing.T, f Fixture) {
	table := f.NewKeyed(t)
	f.InsertKeyed(t, table, KeyedRow{ID: 3, Name: "b", Part: 1}, KeyedRow{ID: 5, Name: "a", Part: 2}, KeyedRow{ID: 8, Name: "a", Part: -1}, KeyedRow{ID: 9, Name: "naïve 😀", Part: 0})
	s := f.Source.Shard(keyed(table))
	for _, test := range []struct {
		keys [][][]byte
		want []uint64
	}{
		{[][][]byte{keyOf("b", 1)}, []uint64{3}},
		{[][][]byte{keyOf("naïve 😀", 0), keyOf("a", -1), keyOf("a", 2)}, []uint64{5, 8, 9}},
		{[][][]byte{keyOf("a", 2), keyOf("a", 2)}, []uint64{5}},
		{[][][]byte{keyOf("a", 1), keyOf("b", 2), keyOf("", 1), keyOf("a", -2)}, nil},
		{[][][]byte{}, nil},
	} {
		q := source.Query{Keys: test.keys, Limit: 100}
		if p := read(t, s, q); p.MaxID != 9 || p.More {
			t.Errorf("%q: highest id %d, more %t", test.keys, p.MaxID, p.More)
		}
		if got := found(t, s, q); !slices.Equal(got, test.want) {
			t.Errorf("the keys %q find %d, want %d", test.keys, got, test.want)
		}
	}
}

// Values that no row can hold, or that try to leave their quotes in a statement.
var strangeTexts = []string{
	"", "'", `\`, `"`, "' OR 1=1 -- ", "a\x00b", "\xff", "a\xc3", "NULL", "?", "%", "a ", "A", "x'61'", "😀", "\ufffd", strings.Repeat("long", 10_000),
}

func testStrangeKeys(t *testing.T, f Fixture) {
	table := f.NewKeyed(t)
	f.InsertKeyed(t, table, KeyedRow{ID: 1, Name: "a", Part: 1}, KeyedRow{ID: 2, Name: "b'\\\"", Part: 1})
	s := f.Source.Shard(keyed(table))
	all := [][][]byte{keyOf("a", 1), keyOf(`b'\"`, 1)}
	strange := [][][]byte{
		{nil, []byte("1")}, {[]byte("a"), nil}, {nil, nil}, {[]byte("a"), []byte("")}, {[]byte("a"), []byte("one")}, {[]byte("a"), []byte("1; DROP TABLE x")},
		{[]byte("a"), []byte("1e0")}, {[]byte("a"), []byte("1.0")}, {[]byte("a"), []byte("01")}, {[]byte("a"), []byte("-")}, {[]byte("a"), []byte(strings.Repeat("9", 100))},
	}
	for _, text := range strangeTexts {
		strange = append(strange, keyOf(text, 1))
	}
	for _, tuple := range strange {
		if got := found(t, s, source.Query{Keys: [][][]byte{tuple}, Limit: 100}); len(got) != 0 {
			t.Errorf("the key %.60q finds %d", tuple, got)
		}
	}
	if got := found(t, s, source.Query{Keys: append(strange, all...), Limit: 100}); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("among strange keys the rows are %d", got)
	}
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
	if got := found(t, s, source.Query{Keys: keys, Limit: source.MaxKeys}); !slices.Equal(got, want) {
		t.Errorf("%d keys find %d rows", len(keys), len(got))
	}
	var p source.Page
	if err := s.Read(t.Context(), source.Query{Keys: append(keys, keys[0]), Limit: 1}, &p); err == nil {
		t.Error("more than MaxKeys are no error")
	}
	for _, q := range []source.Query{{Keys: keys, Limit: 10}, {Keys: keys, Limit: 1000, MaxBytes: 1000}} {
		if p := read(t, s, q); !p.More || len(p.Rows) == 0 || len(p.Rows) > 300 {
			t.Errorf("limit %d, %d bytes: %d rows, more %t", q.Limit, q.MaxBytes, len(p.Rows), p.More)
		}
	}
}

func testKeyByID(t *testing.T, f Fixture) {
	table := f.NewTable(t)
	f.Insert(t, table, rowsOf(1, 2, 41)...)
	s := f.Source.Shard(spec(table))
	keys := [][][]byte{{[]byte("41")}, {[]byte("2")}, {[]byte("3")}, {[]byte("0")}, {[]byte("-1")}, {nil}}
	if got := found(t, s, source.Query{Keys: keys, Limit: 9}); !slices.Equal(got, []uint64{2, 41}) {
		t.Errorf("without KEY the keys are ids: got %d", got)
	}
}

func testUnprovedKeys(t *testing.T, f Fixture) {
	sp := spec(f.NewTable(t))
	sp.Key = []string{"name"}
	var p source.Page
	err := f.Source.Shard(sp).Read(t.Context(), source.Query{Keys: [][][]byte{{[]byte("a")}}, Limit: 1}, &p)
	if !errors.Is(err, source.ErrUnfit) {
		t.Errorf("keys without a unique index: %v", err)
	}
}

func testFloatKey(t *testing.T, f Fixture) {
	table := f.NewKeyed(t)
	sp := keyed(table)
	sp.Key = append(sp.Key, "ratio")
	refused(t, f, sp, source.ErrUnfit, "ratio")
	sp.UniqueKey = false
	read(t, f.Source.Shard(sp), source.Query{Limit: 1})
}

func testWriter(t *testing.T, f Fixture) {
	traits, err := f.Source.Shard(keyed(f.NewKeyed(t))).Traits(t.Context())
	if err != nil || !traits.Writer || traits.WriterWhy == "" || !traits.ModifiedIndexed {
		t.Errorf("writer %t because %q, indexed %t, %v", traits.Writer, traits.WriterWhy, traits.ModifiedIndexed, err)
	}
	if traits, err = f.Source.Shard(spec(f.NewTable(t))).Traits(t.Context()); err != nil || traits.ModifiedIndexed {
		t.Errorf("without MODIFIED: indexed %t, %v", traits.ModifiedIndexed, err)
	}
}
