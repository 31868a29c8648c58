package mysql_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"bridge/source"
	"bridge/source/mysql"
	"bridge/tests/testall"
	"bridge/tests/testenv"
)

// The handler counters prove that keys are looked up one by one, however many they are and however
// the key is made.
func TestKeysReadTheirRowsOnly(t *testing.T) {
	every := testall.Cases(3, 1)
	eachProduct(t, func(t *testing.T, product testenv.Product) { testKeysReadTheirRowsOnly(t, product, every) })
}

// testKeysReadTheirRowsOnly tries every n-th layout, from a random one on.
func testKeysReadTheirRowsOnly(t *testing.T, product testenv.Product, every int) {
	b := newBase(t, product.Shared(t))
	// An index that no statement may use.
	hidden := "IGNORED"
	if product.IsMySQL() {
		hidden = "INVISIBLE"
	}
	for _, layout := range everyNth(every, []struct {
		name, definition string
		key              []string
	}{
		{"one text", "id BIGINT UNSIGNED PRIMARY KEY, name VARCHAR(50) NOT NULL, n INT NOT NULL, day DATE NOT NULL, body TEXT, UNIQUE KEY (name)", []string{"name"}},
		{"one text in binary order", "id INT PRIMARY KEY, name VARCHAR(50) COLLATE utf8mb4_bin NOT NULL, n INT NOT NULL, day DATE NOT NULL, body TEXT, UNIQUE KEY (name)", []string{"name"}},
		{"a text in latin1", "id INT PRIMARY KEY, name VARCHAR(50) CHARACTER SET latin1 NOT NULL, n INT NOT NULL, day DATE NOT NULL, body TEXT, UNIQUE KEY (name)", []string{"name"}},
		{"a prefix of a text", "id INT PRIMARY KEY, name VARCHAR(50) NOT NULL, n INT NOT NULL, day DATE NOT NULL, body TEXT, UNIQUE KEY (name(40))", []string{"name"}},
		{"three columns in another order", "id INT PRIMARY KEY, name VARCHAR(50) NOT NULL, n INT NOT NULL, day DATE NOT NULL, body TEXT, UNIQUE KEY (day, n, name)", []string{"name", "day", "n"}},
		{"a part of the key", "id INT PRIMARY KEY, name VARCHAR(50), n INT NOT NULL, day DATE, body TEXT, UNIQUE KEY (n), KEY (name)", []string{"n", "name"}},
		{"the primary key beside a unique id", "id INT NOT NULL, name VARCHAR(50) NOT NULL, n INT NOT NULL, day DATE NOT NULL, body TEXT, PRIMARY KEY (n, name), UNIQUE KEY (id)", []string{"name", "n"}},
		{"the id", "id BIGINT UNSIGNED PRIMARY KEY, name VARCHAR(50), n INT, day DATE, body TEXT", nil},
		{"the id that is not the primary key", "name VARCHAR(50) PRIMARY KEY, id BIGINT UNSIGNED NOT NULL, n INT, day DATE, body TEXT, UNIQUE KEY (id)", []string{"id"}},
		{"an index that is ignored beside one that is not", "id INT PRIMARY KEY, name VARCHAR(50) NOT NULL, n INT NOT NULL, day DATE, body TEXT, UNIQUE KEY (name) " + hidden + ", UNIQUE KEY (n)", []string{"name", "n"}},
	}) {
		t.Run(layout.name, func(t *testing.T) {
			b.replaceTable(t, "plan", "("+layout.definition+") DEFAULT CHARSET utf8mb4")
			b.exec(t, "INSERT INTO plan (id, name, n, day, body) SELECT * FROM (SELECT 2*seq AS id, CONCAT('nämé ', seq) AS name, 3*seq AS n, '2000-01-01' + INTERVAL seq % 100 DAY AS day, REPEAT('b', 50) AS body FROM "+testenv.Sequence(20000)+") s")
			s := b.source.Shard(source.Spec{Table: "plan", ID: "id", Key: layout.key, UniqueKey: true})
			all := read(t, s, source.Query{Limit: 20_000})
			for _, n := range []int{1, 2, 1000} {
				var keys [][][]byte
				var want []uint64
				for i, at := range rand.Perm(len(all.Rows))[:n] {
					key := slices.Clone(keyOf(all, all.Rows[at]))
					if i%2 == 0 {
						want = append(want, all.Rows[at].ID)
					} else {
						// One that is not there.
						key[0] = append([]byte("8888"), key[0]...)
						key[len(key)-1] = append([]byte("8888"), key[len(key)-1]...)
					}
					keys = append(keys, key)
				}
				slices.Sort(want)
				var p source.Page
				cost, err := mysql.ReadCost(t.Context(), s, source.Query{Keys: keys, Limit: 1000}, &p)
				if err != nil {
					t.Fatal(err)
				}
				if got := idsOf(&p); !slices.Equal(got, want) {
					t.Errorf("%d keys find %d rows, want %d", len(keys), len(got), len(want))
				}
				if cost["Handler_read_key"] > len(keys)+10 || cost["Handler_read_next"] > len(keys) || cost["Handler_read_key"] == 0 {
					t.Errorf("%d keys cost %s", len(keys), nonZero(cost))
				}
				for _, name := range []string{"Handler_read_first", "Handler_read_prev", "Handler_read_rnd", "Handler_read_rnd_next", "Handler_tmp_write", "Sort_rows", "Select_scan"} {
					if cost[name] != 0 {
						t.Errorf("%d keys: %s is %d", len(keys), name, cost[name])
					}
				}
			}
		})
	}
}

// everyNth returns the n-th elements of a list, from a random one on.
func everyNth[T any](n int, list []T) (chosen []T) {
	for i := rand.IntN(n); i < len(list); i += n {
		chosen = append(chosen, list[i])
	}
	return chosen
}

func idsOf(p *source.Page) (ids []uint64) {
	for _, r := range p.Rows {
		ids = append(ids, r.ID)
	}
	return ids
}

// Texts that differ in case, accents, padding or encoding, in keys of several columns: what a
// server takes for equal must not hide what is equal byte for byte.
func TestNoKeyHidesAnother(t *testing.T) {
	every := testall.Cases(3, 1)
	eachProduct(t, func(t *testing.T, product testenv.Product) { testNoKeyHidesAnother(t, product, every) })
}

// collations are those that MariaDB and MySQL both have.
var collations = []string{
	"utf8mb4_bin", "utf8mb4_general_ci", "utf8mb3_bin", "utf8mb3_general_ci", "latin1_bin", "latin1_general_cs", "latin1_swedish_ci", "latin1_german2_ci", "ucs2_bin",
	"utf16_unicode_ci", "utf16le_bin", "utf32_bin", "gbk_bin", "koi8r_bin", "cp1251_bin", "big5_bin", "ujis_bin",
}

// testNoKeyHidesAnother tries every n-th collation, from a random one on.
func testNoKeyHidesAnother(t *testing.T, product testenv.Product, every int) {
	own := []string{"utf8mb4_nopad_bin", "utf8mb4_uca1400_as_cs"}
	if product.IsMySQL() {
		own = []string{"utf8mb4_0900_bin", "utf8mb4_0900_as_cs", "utf8mb4_0900_ai_ci"}
	}
	b := newBase(t, product.Shared(t))
	for _, collation := range everyNth(every, append(slices.Clone(collations), own...)) {
		charset, _, _ := strings.Cut(collation, "_")
		t.Run(collation, func(t *testing.T) {
			text := "VARCHAR(40) CHARACTER SET " + charset + " COLLATE " + collation + " NOT NULL"
			b.replaceTable(t, "hidden", "(id INT PRIMARY KEY AUTO_INCREMENT, a "+text+", b "+text+", c INT NOT NULL, UNIQUE KEY (a, c, b))")
			parts := []string{"", "a", "A", "ä", "Ä", "á", "a ", "aa", "ss", "ß", "s", "e", "é", "?", "а", "А", "中", "😀", "a\u0308", "x'", "\\"}
			inserts := "SET NAMES utf8mb4; SET sql_mode = ''; START TRANSACTION;"
			for range 300 {
				inserts += fmt.Sprintf("INSERT IGNORE INTO hidden (a, b, c) VALUES (x'%x', x'%x', %d);", "", "", rand.IntN(3))
				inserts += fmt.Sprintf("INSERT IGNORE INTO hidden (a, b, c) VALUES (CONVERT(x'%x' USING utf8mb4), CONVERT(x'%x' USING utf8mb4), %d);",
					parts[rand.IntN(len(parts))], parts[rand.IntN(len(parts))], rand.IntN(3))
			}
			b.exec(t, inserts+"COMMIT")
			s := b.source.Shard(source.Spec{Table: "hidden", ID: "id", Key: []string{"b", "c", "a"}, UniqueKey: true})
			all := read(t, s, source.Query{Limit: 999})
			texts := make([]string, len(all.Rows))
			for i, r := range all.Rows {
				texts[i] = fmt.Sprintf("%q", keyOf(all, r))
			}
			for range 60 {
				var keys [][][]byte
				var want []uint64
				var wanted []string
				for range 1 + rand.IntN(6) {
					i := rand.IntN(len(all.Rows))
					keys, wanted = append(keys, keyOf(all, all.Rows[i])), append(wanted, texts[i])
				}
				for i, r := range all.Rows {
					if slices.Contains(wanted, texts[i]) {
						want = append(want, r.ID)
					}
				}
				if got, _ := byKey(t, s, keys...); !slices.Equal(got, want) {
					t.Fatalf("the keys %q find %d, want %d", keys, got, want)
				}
			}
		})
	}
}
