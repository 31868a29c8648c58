package mysql

import (
	"testing"

	"bridge/source"
)

// TestParseType has the types that TestEveryTypeIsReadExactly cannot make on every server.
func TestParseType(t *testing.T) {
	for columnType, want := range map[string]source.Column{
		"double unsigned": {Kind: source.Float}, "decimal(5,0)": {Kind: source.Decimal}, "geomcollection": {Kind: source.Binary}, "vector(3)": {Kind: source.Binary},
		"INT(10) unsigned zerofill": {Kind: source.Int}, "enum('int','a(b)')": {Kind: source.Text}, "set('json')": {Kind: source.Text}, "": {Kind: source.Text},
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
