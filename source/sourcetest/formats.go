package sourcetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

var formatColumns = []struct {
	name string
	source.IDColumn
}{
	{"CHAR(36)", source.IDColumn{Format: source.UUID7}}, {"BINARY(16)", source.IDColumn{Format: source.UUID7, Binary: true}},
	{"CHAR(26)", source.IDColumn{Format: source.ULID}}, {"VARBINARY(16)", source.IDColumn{Format: source.ULID, Binary: true}},
	{"VARBINARY(20)", source.IDColumn{Format: source.KSUID, Binary: true}}, {"VARCHAR(36)", source.IDColumn{Format: source.UUID}},
}

func formatSpec(table string, format source.IDFormat) source.Spec {
	return source.Spec{Table: table, ID: "id", IDFormat: format, UniqueKey: true}
}

// newFormatted creates a table with an id of a type, and rows. Each row is named by its number and
// by which of the ids of that it has.
func newFormatted(t *testing.T, f Fixture, n int, kind string, c source.IDColumn) (table string, names []string) {
	if f.Exec == nil {
		t.Skip("no SQL")
	}
	table = fmt.Sprint("formats_", n)
	f.Exec(t, "CREATE TABLE "+table+" (id "+kind+" NOT NULL PRIMARY KEY, name VARCHAR(100) NOT NULL)")
	const first = 1<<62 + 1
	for i, number := range []uint64{first, first + 1, first + 1, first + 2, first + 2, first + 2, first + 9, first + 16, first + 16} {
		id := c.Lowest(number)
		switch {
		case i%3 == 1:
			id = c.Highest(number)
		case i%3 == 2:
			// Bits that both ends share stay.
			high := c.Highest(number)
			id[len(id)-1] = high[len(high)-1]
			if !c.Binary {
				id[len(id)-1] = '3'
			}
		}
		name := fmt.Sprintf("%02d/%d", number-first, i)
		if c.Binary {
			f.Exec(t, "INSERT INTO "+table+" VALUES (?, ?)", id, name)
		} else {
			f.Exec(t, "INSERT INTO "+table+" VALUES (?, ?)", string(id), name)
		}
		names = append(names, name)
	}
	return table, names
}

// Those of one number have no order.
func namesOf(p *source.Page) (names []string) {
	for _, row := range p.Rows {
		names = append(names, string(row.Values[1]))
	}
	slices.Sort(names)
	return names
}

func testFormats(t *testing.T, f Fixture) {
	for n, c := range formatColumns {
		t.Run(string(c.Format)+" as "+c.name, func(t *testing.T) {
			table, names := newFormatted(t, f, n, c.name, c.IDColumn)
			s := f.Source.Shard(formatSpec(table, c.Format))
			testFormat(t, s, names)
			testFormatChanges(t, s, c.IDColumn, Read(t, s, source.Query{Limit: 99}))
		})
	}
}

func testFormat(t *testing.T, s source.Shard, names []string) {
	whole := Read(t, s, source.Query{Limit: 99})
	if got := namesOf(whole); !slices.Equal(got, names) || whole.More || whole.MaxID != whole.Rows[8].ID {
		t.Fatalf("%v, more %t, highest %d", got, whole.More, whole.MaxID)
	}
	ids := IDs(whole)
	for limit := 1; limit < 10; limit++ {
		for _, budget := range []int{0, 1, 60, 100} {
			var got []string
			for q, more := (source.Query{Limit: limit, MaxBytes: budget}), true; more; {
				p := Read(t, s, q)
				if got, more = append(got, namesOf(p)...), p.More; more {
					q.After = p.Rows[len(p.Rows)-1].ID
				}
			}
			Same(t, got, names, "%d at a time of %d bytes", limit, budget)
		}
	}
	for i, from := range ids {
		for _, to := range ids[i:] {
			var want []string
			for at, id := range ids {
				if id >= from && id <= to {
					want = append(want, names[at])
				}
			}
			for _, q := range []source.Query{{Ranges: []source.Range{{First: from, Last: to}}, Limit: 99}, {After: from - 1, Through: to, Limit: 99}} {
				Same(t, namesOf(Read(t, s, q)), want, "%+v", q)
			}
		}
	}
	some := []source.Range{{First: ids[0], Last: ids[0]}, {First: ids[3], Last: ids[7]}}
	key := whole.Rows[4].Values[0]
	for _, c := range []struct {
		q    source.Query
		want []string
	}{
		{source.Query{Ranges: some, Limit: 1}, names[:1]},
		{source.Query{Keys: [][][]byte{{key}, {whole.Rows[0].Values[0]}}, Limit: 9}, []string{names[0], string(whole.Rows[4].Values[1])}},
	} {
		Same(t, namesOf(Read(t, s, c.q)), c.want, "%+v", c.q)
	}
	var exist source.IDs
	if err := s.ReadIDs(t.Context(), some, false, 99, &exist); err != nil || !slices.Equal(exist.List, []uint64{ids[0], ids[3], ids[6], ids[7]}) {
		t.Fatalf("the ids %v, %v", exist.List, err)
	}
}

func testFormatChanges(t *testing.T, s source.Shard, c source.IDColumn, whole *source.Page) {
	traits, err := s.Traits(t.Context())
	if err != nil || whole.Columns.Indexed != c.Format.HasTime() {
		t.Fatalf("%s: indexed %t, %v", c.Format, whole.Columns.Indexed, err)
	}
	if !c.Format.HasTime() {
		must.Fail(t, s.ReadChanges(t.Context(), source.ChangeQuery{Limit: 9}, new(source.Changes)), source.ErrUnfit)
		return
	}
	want := make([]source.Cursor, len(whole.Rows))
	for i, row := range whole.Rows {
		text := string(c.AppendText(nil, row.Values[0]))
		want[i] = source.Cursor{Modified: text, ID: row.ID, Row: text}
	}
	for limit := 1; limit < 11; limit++ {
		Same(t, AllChanges(t, s, source.ChangeQuery{Limit: limit}), want, "%s, %d at a time", c.Format, limit)
	}
	column, ok := whole.Columns.Cursor()
	made, is := column.Time([]byte(want[3].Modified), nil)
	q := source.ChangeQuery{After: source.Cursor{Modified: column.Text(made.Add(-column.Resolution()), nil)}, Through: want[6].Modified, Limit: 99}
	if got := AllChanges(t, s, q); !ok || !is || !slices.Equal(got, want[:7]) {
		t.Fatalf("%s after %s: %v", c.Format, q.After.Modified, got)
	}
	q = source.ChangeQuery{Ranges: []source.Range{{First: want[1].ID, Last: want[3].ID}}, Rows: []string{want[1].Row, want[4].Row}, Limit: 9}
	if !traits.Uncommitted {
		return
	}
	var c2 source.Changes
	if err := s.ReadChanges(t.Context(), q, &c2); err != nil || !slices.Equal(c2.List, []source.Cursor{want[1], want[4]}) {
		t.Fatalf("%s of ids: %v, %v", c.Format, c2.List, err)
	}
}

// readToBad reads pages of a table with a row that is no id, which the error is to name.
func readToBad(t *testing.T, s source.Shard, bad string, q source.Query) {
	t.Helper()
	var err error
	for err == nil {
		var p source.Page
		if err = s.Read(t.Context(), q, &p); err != nil || !p.More {
			break
		}
		q.After = p.Rows[len(p.Rows)-1].ID
	}
	must.Fail(t, err, source.ErrUnfit, fmt.Sprintf("%q", bad), "ID_FORMAT")
}

// testManyFormats has more rows of one number than are read together, by their count and by their
// size, and more single numbers than one statement asks for.
func testManyFormats(t *testing.T, f Fixture) {
	if f.Exec == nil {
		t.Skip("no SQL")
	}
	c := source.IDColumn{Format: source.ULID}
	create := func(table string) source.Shard {
		f.Exec(t, "CREATE TABLE "+table+" (id CHAR(26) NOT NULL PRIMARY KEY, name LONGTEXT)")
		return f.Source.Shard(formatSpec(table, c.Format))
	}
	ids := func(n int, id func(i int) string) (values string) {
		all := make([]string, n)
		for i := range all {
			all[i] = "('" + id(i) + "', NULL)"
		}
		return strings.Join(all, ", ")
	}
	const number = 1<<62 + 1
	low := string(c.Lowest(number)[:16])
	many := create("many")
	f.Exec(t, "INSERT INTO many VALUES "+ids(source.SharingRows, func(i int) string { return fmt.Sprintf("%s%010d", low, i) }))
	var p source.Page
	if err := many.Read(t.Context(), source.Query{Limit: 100}, &p); err != nil || len(p.Rows) != source.SharingRows {
		t.Fatalf("%d rows, %v", len(p.Rows), err)
	}
	f.Exec(t, "INSERT INTO many VALUES (?, NULL)", low+"9999999999")
	large := create("large")
	for i := range source.SharingBytes >> 21 {
		f.Exec(t, "INSERT INTO large VALUES (?, ?)", fmt.Sprintf("%s%010d", low, i), strings.Repeat("x", 1<<21))
	}
	for rows, s := range map[int]source.Shard{source.SharingRows + 1: many, source.SharingBytes >> 21: large} {
		for _, limit := range []int{100, 1 << 20} {
			err := s.Read(t.Context(), source.Query{Limit: limit, MaxBytes: 1 << 20}, &p)
			must.Fail(t, err, source.ErrUnfit, fmt.Sprint(rows, " rows"), low+"0000000000")
		}
	}

	single := create("single")
	const n = 10_000
	f.Exec(t, "INSERT INTO single VALUES "+ids(n, func(i int) string { return string(c.Highest(number + 2*uint64(i))) }))
	ranges := make([]source.Range, n)
	for i := range ranges {
		ranges[i].First = number + 2*uint64(i)
		ranges[i].Last = ranges[i].First
	}
	began := time.Now()
	if err := single.Read(t.Context(), source.Query{Ranges: ranges, Limit: 2 * n}, &p); err != nil || len(p.Rows) != n || p.Rows[n-1].ID != ranges[n-1].Last {
		t.Errorf("%d rows of single ids, %v", len(p.Rows), err)
	}
	t.Logf("%d single ids read in %s", n, time.Since(began))
}

// testBadFormats has rows that are no ids: before all that are, between two, behind all, and among
// those of one number.
func testBadFormats(t *testing.T, f Fixture) {
	between := source.IDColumn{Format: source.UUID7}.Lowest(1<<62 + 6)
	between[len(between)-1] = 'g'
	for n, bad := range []string{"", "0", string(between), "10000000-0000-1000-8000-000000000000 ", "zebra", "ffffffff-ffff-ffff-ffff-fffffffffff"} {
		c := source.IDColumn{Format: source.UUID7}
		table, _ := newFormatted(t, f, 100+n, "VARCHAR(40)", c)
		f.Exec(t, "INSERT INTO "+table+" VALUES (?, 'bad')", bad)
		s := f.Source.Shard(formatSpec(table, c.Format))
		readToBad(t, s, bad, source.Query{Limit: 2})
	}
	c := source.IDColumn{Format: source.ULID}
	of := string(c.Lowest(1<<62 + 1)[:24])
	f.Exec(t, "CREATE TABLE inside (id VARCHAR(40) NOT NULL PRIMARY KEY, name VARCHAR(100))")
	for _, end := range []string{"AA", "AI", "AZ"} {
		f.Exec(t, "INSERT INTO inside VALUES (?, 'x')", of+end)
	}
	for limit := 1; limit < 5; limit++ {
		for _, budget := range []int{0, 1, 40} {
			readToBad(t, f.Source.Shard(formatSpec("inside", c.Format)), of+"AI", source.Query{Limit: limit, MaxBytes: budget})
		}
	}
}
