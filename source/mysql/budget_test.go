package mysql_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/testenv"
)

// What asks for much comes in several statements where the server takes no long one, and has the
// same answer.
func TestStatementsFitMaxAllowedPacket(t *testing.T) {
	eachProduct(t, func(t *testing.T, product testenv.Product) {
		b := newBase(t, product.Shared(t))
		b.exec(t, "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, k VARCHAR(700) NOT NULL, l VARCHAR(200) CHARACTER SET koi8r NOT NULL, at DATETIME(6) NOT NULL, KEY (at), UNIQUE KEY (k), UNIQUE KEY (l)) DEFAULT CHARSET utf8mb4")
		b.exec(t, "INSERT INTO t SELECT seq * 3, CONCAT(REPEAT('😀', 690), seq), CONCAT(REPEAT('ж', 190), seq), NOW(6) FROM "+testenv.Sequence(700))
		var ranges []source.Range
		var long, foreign [][][]byte
		for i := range uint64(1000) {
			ranges = append(ranges, source.Range{First: 2*i + 1, Last: 2*i + 1})
			if i%5 == 0 {
				ranges[i].Last++
			}
			if i >= 1 && i <= 120 {
				long = append(long, [][]byte{[]byte(strings.Repeat("😀", 690) + fmt.Sprint(i))})
				foreign = append(foreign, [][]byte{[]byte(strings.Repeat("ж", 190) + fmt.Sprint(i))})
			}
		}
		// answers returns what the reads say, by the server as it is now.
		answers := func(t *testing.T) (all []any) {
			src := open(t, b.server.URL("", "", b.name))
			byID := src.Shard(source.Spec{Table: "t", ID: "id", Modified: "at"})
			idsOf := func(p *source.Page) (ids []uint64) {
				for _, r := range p.Rows {
					ids = append(ids, r.ID)
				}
				return ids
			}
			rows := sourcetest.Read(t, byID, source.Query{Ranges: ranges, Limit: 5000})
			some := sourcetest.Read(t, byID, source.Query{Ranges: ranges, Limit: 200})
			all = append(all, idsOf(rows), rows.More, idsOf(some), some.More)
			var ids, first source.IDs
			var changes source.Changes
			if err := errors.Join(byID.ReadIDs(t.Context(), ranges, true, 5000, &ids), byID.ReadIDs(t.Context(), ranges, false, 200, &first),
				byID.ReadChanges(t.Context(), source.ChangeQuery{Ranges: ranges, Limit: 5000}, &changes)); err != nil {
				t.Fatal(err)
			}
			all = append(all, ids.List, ids.Cut, first.List, first.Cut, changes.List, changes.More)
			for column, keys := range map[string][][][]byte{"k": long, "l": foreign} {
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
		b.exec(t, "CREATE TABLE h (id INT PRIMARY KEY, k TEXT NOT NULL, UNIQUE KEY (k))")
		err := open(t, b.server.URL("", "", b.name)).Shard(source.Spec{Table: "h", ID: "id", Key: []string{"k"}, UniqueKey: true}).
			Read(t.Context(), source.Query{Keys: [][][]byte{texts(strings.Repeat("long ", 2000))}, Limit: 9}, new(source.Page))
		_, statement, ok := strings.Cut(fmt.Sprint(err), "run: ")
		if !errors.Is(err, source.ErrUnfit) || !strings.Contains(err.Error(), "long long") || !ok {
			t.Fatalf("error %v", err)
		}
		b.exec(t, statement)
		sourcetest.Read(t, open(t, b.server.URL("", "", b.name)).Shard(source.Spec{Table: "h", ID: "id", Key: []string{"k"}, UniqueKey: true}),
			source.Query{Keys: [][][]byte{texts(strings.Repeat("long ", 2000))}, Limit: 9})
	})
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
