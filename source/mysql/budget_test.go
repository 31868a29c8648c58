package mysql_test

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// What asks for much comes in several statements where the server takes no long one, and has the
// same answer.
func TestStatementsFitMaxAllowedPacket(t *testing.T) {
	eachProduct(t, func(t *testing.T, product testenv.Product) {
		b := newBase(t, product.Shared(t))
		b.exec(t, "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, k VARCHAR(700) NOT NULL, l VARCHAR(200) CHARACTER SET koi8r NOT NULL, w VARCHAR(700) CHARACTER SET utf32 NOT NULL, at DATETIME(6) NOT NULL, KEY (at), UNIQUE KEY (k), UNIQUE KEY (l), UNIQUE KEY (w)) DEFAULT CHARSET utf8mb4")
		b.exec(t, "INSERT INTO t SELECT seq * 3, CONCAT(REPEAT('😀', 690), seq), CONCAT(REPEAT('ж', 190), seq), CONCAT(REPEAT('w', 690), seq), NOW(6) FROM "+testenv.Sequence(700))
		var ranges []source.Range
		var long, foreign, wide [][][]byte
		for i := range uint64(1000) {
			ranges = append(ranges, source.Range{First: 2*i + 1, Last: 2*i + 1})
			if i%5 == 0 {
				ranges[i].Last++
			}
			if i >= 1 && i <= 120 {
				long = append(long, [][]byte{[]byte(strings.Repeat("😀", 690) + fmt.Sprint(i))})
				foreign = append(foreign, [][]byte{[]byte(strings.Repeat("ж", 190) + fmt.Sprint(i))})
				wide = append(wide, texts(strings.Repeat("w", 690)+fmt.Sprint(i)))
			}
		}
		// answers returns what the reads say, by the server as it is now.
		answers := func(t *testing.T) (all []any) {
			src := open(t, b.server.URL("", "", b.name))
			byID := src.Shard(source.Spec{Table: "t", ID: "id", Modified: "at"})
			rows := sourcetest.Read(t, byID, source.Query{Ranges: ranges, Limit: 5000})
			some := sourcetest.Read(t, byID, source.Query{Ranges: ranges, Limit: 200})
			all = append(all, sourcetest.IDs(rows), rows.More, sourcetest.IDs(some), some.More)
			var ids, first source.IDs
			var changes source.Changes
			must.OK(t, errors.Join(byID.ReadIDs(t.Context(), ranges, true, 5000, &ids), byID.ReadIDs(t.Context(), ranges, false, 200, &first),
				byID.ReadChanges(t.Context(), source.ChangeQuery{Ranges: ranges, Limit: 5000}, &changes)))
			all = append(all, ids.List, ids.Cut, first.List, first.Cut, changes.List, changes.More)
			for column, keys := range map[string][][][]byte{"k": long, "l": foreign, "w": wide} {
				found := sourcetest.Read(t, src.Shard(source.Spec{Table: "t", ID: "id", Key: []string{column}, UniqueKey: true}), source.Query{Keys: keys, Limit: 5000})
				all = append(all, len(found.Rows))
			}
			return all
		}
		want := answers(t)
		if !slices.Contains(want, any(120)) || len(want[0].([]uint64)) < 300 {
			t.Fatalf("%v", want)
		}
		before := b.query(t, "SELECT @@GLOBAL.max_allowed_packet")
		root := b.server.Root(t)
		t.Cleanup(func() {
			if _, err := root.Exec("SET GLOBAL max_allowed_packet = " + before); err != nil {
				t.Error(err)
			}
		})
		b.exec(t, "SET GLOBAL max_allowed_packet = 16384")
		if got := answers(t); !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if product.IsMySQL() {
			return
		}
		// Only a hash, as MariaDB makes of a unique TEXT, has longer keys.
		for charset, n := range map[string]int{"utf8mb4": 2000, "utf32": 480} {
			b.replaceTable(t, "h", "(id INT PRIMARY KEY, k TEXT CHARACTER SET "+charset+" NOT NULL, UNIQUE KEY (k))")
			key := strings.Repeat("long ", n)
			b.exec(t, "INSERT INTO h VALUES (7, REPEAT('long ', "+fmt.Sprint(n)+"))")
			sp := source.Spec{Table: "h", ID: "id", Key: []string{"k"}, UniqueKey: true}
			err := open(t, b.server.URL("", "", b.name)).Shard(sp).Read(t.Context(), source.Query{Keys: [][][]byte{texts(key)}, Limit: 9}, new(source.Page))
			_, statement, ok := strings.Cut(fmt.Sprint(err), "run: ")
			if !errors.Is(err, source.ErrUnfit) || !strings.Contains(err.Error(), "long long") || !ok {
				t.Fatalf("%s: error %v", charset, err)
			}
			b.exec(t, statement)
			sourcetest.Same(t, byKey(t, open(t, b.server.URL("", "", b.name)).Shard(sp), texts(key)), []uint64{7}, "%s: after %s", charset, statement)
			b.exec(t, "SET GLOBAL max_allowed_packet = 16384")
		}
	})
}

// Rows that grow without warning must neither be held beyond the budget nor be read to be thrown
// away.
func TestBudget(t *testing.T) {
	b := newBase(t, testenv.MariaDB(t))
	b.exec(t, "CREATE TABLE t (id INT PRIMARY KEY, body LONGTEXT)")
	b.exec(t, "INSERT INTO t SELECT seq, IF(seq > 2000, REPEAT('b', 1000000), 'small') FROM "+testenv.Sequence(2040))
	proxy := testenv.StartProxy(t, b.server.Addr)
	s := open(t, strings.Replace(b.server.URL("", "", b.name), b.server.Addr, proxy.Addr(), 1)).Shard(source.Spec{Table: "t", ID: "id"})
	const budget = 1 << 20
	for _, c := range []struct{ after, most uint64 }{{0, 24}, {256, 64}, {2000, 24}, {2010, 3}, {2020, 3}} {
		// What a connection still brings that the page before has cut off would count for this one.
		for proxy.Drop(); proxy.Open() > 0; {
			runtime.Gosched()
		}
		passed := uint64(proxy.Received())
		p := sourcetest.Read(t, s, source.Query{After: c.after, Limit: 2000, MaxBytes: budget})
		// The sockets hold some of what is not read, where rows have grown. The page that meets the
		// first of them may be read to its end.
		if got := uint64(proxy.Received()) - passed; got > c.most<<20 || p.Bytes > budget+1_000_010 {
			t.Errorf("behind %d: %d bytes came over the wire for a page of %d", c.after, got, p.Bytes)
		}
	}
}

// The rows of a page and the highest id beside them must be of one moment, whatever commits
// meanwhile.
func TestPageIsOneSnapshot(t *testing.T) { eachProduct(t, testPageIsOneSnapshot) }

func testPageIsOneSnapshot(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
	b.exec(t, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, body TEXT)")
	const rows = 500
	written := make(chan error, 1)
	go func() {
		for range rows {
			if _, err := b.admin.ExecContext(t.Context(), "INSERT INTO t (body) VALUES (REPEAT('b', 500))"); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	s := b.source.Shard(source.Spec{Table: "t", ID: "id"})
	var last, seen uint64
	for last < rows {
		p := sourcetest.Read(t, s, source.Query{After: last, Limit: 100_000})
		seen += uint64(len(p.Rows))
		if len(p.Rows) > 0 {
			last = p.Rows[len(p.Rows)-1].ID
		}
		if p.MaxID != last {
			t.Fatalf("the page ends with %d, the highest id is %d", last, p.MaxID)
		}
		select {
		case err := <-written:
			if err != nil {
				t.Fatal(err)
			}
		default:
		}
	}
	if seen != rows {
		t.Fatalf("%d rows, want %d", seen, rows)
	}
}
