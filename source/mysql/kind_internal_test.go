package mysql

import (
	"math"
	"slices"
	"testing"
	"time"

	"bridge/source"
)

func TestParseType(t *testing.T) {
	for columnType, want := range map[string]source.Column{
		"bigint unsigned": {Kind: source.Int}, "INT(10) unsigned zerofill": {Kind: source.Int}, "year(4)": {Kind: source.Int},
		"decimal(38,10)": {Kind: source.Decimal, Precision: 10}, "decimal(5,0)": {Kind: source.Decimal}, "double unsigned": {Kind: source.Float}, "float(7,3)": {Kind: source.Float},
		"bit(1)": {Kind: source.Bit}, "json": {Kind: source.JSON}, "geomcollection": {Kind: source.Binary}, "vector(3)": {Kind: source.Binary},
		"datetime": {Kind: source.DateTime}, "datetime(6)": {Kind: source.DateTime, Precision: 6}, "timestamp(3)": {Kind: source.Timestamp, Precision: 3},
		"time(2)": {Kind: source.Clock, Precision: 2}, "date": {Kind: source.Date}, "varbinary(10)": {Kind: source.Binary},
		"enum('int','a(b)')": {Kind: source.Text}, "set('json')": {Kind: source.Text}, "inet6": {Kind: source.Text}, "": {Kind: source.Text},
	} {
		kind, precision := parseType(columnType)
		if kind != want.Kind || precision != want.Precision {
			t.Errorf("%q: kind %d precision %d, want %+v", columnType, kind, precision, want)
		}
	}
}

func TestCheckedJSON(t *testing.T) {
	got := checkedJSON("CREATE TABLE `t` (\n" +
		"  `id` int(11) NOT NULL,\n" +
		"  `a` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`a`)),\n" +
		"  `b` longtext DEFAULT NULL COMMENT 'CHECK (json_valid(`b`))',\n" +
		"  `c``d` longtext NOT NULL CHECK (json_valid(`c``d`)),\n" +
		"  `e` longtext DEFAULT NULL CHECK (json_valid(`e`) or `id` > 1),\n" +
		"  `f` longtext DEFAULT NULL,\n" +
		"  CONSTRAINT `x` CHECK (json_valid(`f`))\n" +
		") ENGINE=InnoDB")
	for name, want := range map[string]bool{"a": true, "b": false, "c`d": true, "e": false, "f": true, "id": false} {
		if got[name] != want {
			t.Errorf("%s is JSON: %t, want %t", name, got[name], want)
		}
	}
}

func TestSettingsOfProducts(t *testing.T) {
	o := Options{StatementTimeout: 1500 * time.Millisecond}
	if got := productSettings(server{version: "8.4.3"}, o); !slices.Contains(got, setting{"max_execution_time", "1500"}) {
		t.Errorf("MySQL: %q", got)
	}
	if got := productSettings(server{version: "10.11.6-MariaDB-log"}, o); !slices.Contains(got, setting{"max_statement_time", "1.500"}) {
		t.Errorf("MariaDB: %q", got)
	}
}

func TestParseHead(t *testing.T) {
	var p source.Page
	if err := parseHead("2026-01-02 03:04:05.000006 18446744073709551615 host 3306 1", &p); err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC); !p.Now.Equal(want) || p.MaxID != math.MaxUint64 || p.Server != "host 3306 1" {
		t.Fatalf("%v, %d, %q", p.Now, p.MaxID, p.Server)
	}
	for _, head := range []string{"", "2026-01-02 03:04:05.000006", "2026-01-02 03:04:05.000006 1", "2026-13-02 03:04:05.000006 1 h", "2026-01-02 03:04:05.000006 x h"} {
		if err := parseHead(head, &p); err == nil {
			t.Errorf("%q is read", head)
		}
	}
}

func TestRowsFor(t *testing.T) {
	var r pageReader
	q := source.Query{Limit: 2000, MaxBytes: 1 << 20}
	if got := r.rowsFor(q); got != firstRows {
		t.Errorf("at first %d rows", got)
	}
	if got := r.rowsFor(source.Query{Limit: 2000}); got != 2000 {
		t.Errorf("without a budget %d rows", got)
	}
	for rowBytes, want := range map[int]int{100: 2000, 1024: 1025, 1 << 30: 1} {
		r.rowBytes = rowBytes
		if got := r.rowsFor(q); got != want {
			t.Errorf("rows of %d bytes: %d, want %d", rowBytes, got, want)
		}
	}
}
