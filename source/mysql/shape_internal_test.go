package mysql

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

func TestTablesThatAreAlikeShareAShape(t *testing.T) {
	made := func(change func(*shape)) *shape {
		sh := &shape{columns: &source.Columns{List: []source.Column{{Name: "id", NotNull: true}, {Name: "v"}}}, single: make([]bool, 2), index: "PRIMARY"}
		change(sh)
		return sh
	}
	same := func(*shape) {}
	var all shapes
	first := all.share(made(same))
	if all.share(made(same)) != first {
		t.Error("two tables that are alike do not share")
	}
	for what, change := range map[string]func(*shape){
		"filter": func(sh *shape) { sh.filter = "v > 1" },
		"column": func(sh *shape) { sh.columns.List[1].Name = "w" },
		"NULL":   func(sh *shape) { sh.columns.List[1].NotNull = true },
		"index":  func(sh *shape) { sh.index = "other" },
		"whole":  func(sh *shape) { sh.whole = true },
	} {
		if all.share(made(change)) == first {
			t.Errorf("tables with another %s share", what)
		}
	}
	for i := range sharedShapes {
		all.share(made(func(sh *shape) { sh.index = strconv.Itoa(i) }))
	}
	if again := all.share(made(same)); again == first || len(all.last) != sharedShapes {
		t.Errorf("%d shapes are kept, want the last %d", len(all.last), sharedShapes)
	}
}

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

func TestUnite(t *testing.T) {
	page := func(rows ...string) *source.Page {
		p := new(source.Page)
		for _, v := range rows {
			p.Append(uint64(v[0]-'0'), 1)
			p.Set(0, []byte(v[1:]))
		}
		return p
	}
	t.Run("a row that two statements found comes once", func(t *testing.T) {
		p := page("2b", "1a", "2b")
		if err := unite(p); err != nil || len(p.Rows) != 2 || p.Bytes != 2 {
			t.Errorf("%d rows of %d bytes, %v", len(p.Rows), p.Bytes, err)
		}
	})
	t.Run("a row whose key was changed between two statements is read again", func(t *testing.T) {
		if err := unite(page("2b", "1a", "2c")); err == nil {
			t.Error("one of its keys would count as absent")
		}
	})
}

// codes returns the codes of findings with their severities.
func codes(findings []inspect.Finding) (codes []string) {
	for _, f := range findings {
		codes = append(codes, fmt.Sprintf("%s %s", f.Severity, f.Code))
	}
	return codes
}

func TestServersAreCheckedWithSelectAlone(t *testing.T) {
	hours := func(n int) *time.Duration { d := time.Duration(n) * time.Hour; return &d }
	for _, c := range []struct {
		name  string
		facts serverFacts
		want  []string
		// words stand in the summary or in the first finding.
		words []string
	}{
		{"MariaDB alone", serverFacts{variables: map[string]string{"version": "11.8.3-MariaDB-1", "read_only": "OFF", "auto_increment_increment": "1", "innodb_lock_wait_timeout": "50"}, sawReplication: true},
			nil, []string{"MariaDB 11.8.3", "takes the writes"}},
		{"MySQL alone, whose replication does not show", serverFacts{variables: map[string]string{"version": "8.4.6", "super_read_only": "OFF", "group_replication_group_name": ""}},
			nil, []string{"MySQL 8.4.6", "may not see whether it copies"}},
		{"a stride", serverFacts{variables: map[string]string{"auto_increment_increment": "2"}}, []string{"warning stride"}, []string{"every 2nd id", "SET GLOBAL"}},
		{"a Galera node", serverFacts{variables: map[string]string{"wsrep_on": "ON", "wsrep_cluster_address": "gcomm://a,b", "auto_increment_increment": "3"}},
			[]string{"warning stride"}, []string{"Galera", "one of several that take writes"}},
		{"a member of a multi-primary group", serverFacts{variables: map[string]string{"group_replication_group_name": "g", "group_replication_single_primary_mode": "OFF", "auto_increment_increment": "7"}},
			[]string{"warning stride"}, []string{"multi-primary"}},
		{"a secondary of a group", serverFacts{variables: map[string]string{"group_replication_group_name": "g", "group_replication_single_primary_mode": "ON", "super_read_only": "ON"}},
			[]string{"warning replica"}, []string{"super_read_only is on"}},
		{"a replica", serverFacts{channel: channelRuns}, []string{"warning replica"}, []string{"is a replica"}},
		{"a server that was promoted", serverFacts{channel: channelStopped}, []string{"warning replica"},
			[]string{"has a replication channel that is stopped, so it counts as a replica", "RESET REPLICA ALL;"}},
		{"a server with a channel of which no more shows", serverFacts{channel: channelConfigured}, []string{"warning replica"},
			[]string{"may not see whether it runs", "RESET REPLICA ALL;"}},
		{"a replica that is read-only and stopped", serverFacts{variables: map[string]string{"read_only": "ON"}, channel: channelStopped}, []string{"warning replica"},
			[]string{"is a replica: "}},
		{"TiDB", serverFacts{variables: map[string]string{"version": "8.0.11-TiDB-v8.5.1"}}, []string{"warning id-blocks"}, []string{"TiDB", "in CREATE TABLE and not in ALTER TABLE"}},
		{"OceanBase", serverFacts{variables: map[string]string{"version": "5.7.25-OceanBase-v4.3.5", "version_comment": "OceanBase 4.3.5"}}, []string{"warning id-blocks"}, []string{"OceanBase", "'ORDER'"}},
		{"Vitess", serverFacts{variables: map[string]string{"version": "8.0.30-Vitess"}}, []string{"warning proxy"}, []string{"Vitess"}},
		{"a server that may lose a second of commits in a crash", serverFacts{variables: map[string]string{"innodb_flush_log_at_trx_commit": "0"}}, []string{"note log-flush"},
			[]string{"a crash of the server loses", "SET GLOBAL innodb_flush_log_at_trx_commit = 1"}},
		{"a server that flushes each commit", serverFacts{variables: map[string]string{"innodb_flush_log_at_trx_commit": "1", "log_bin": "ON"}}, nil, nil},
		{"a server without a binary log", serverFacts{variables: map[string]string{"innodb_flush_log_at_trx_commit": "1", "log_bin": "OFF"}}, []string{"note log-flush"},
			[]string{"keeps no binary log", "set log_bin and restart the server"}},
		{"a replica without a binary log", serverFacts{variables: map[string]string{"innodb_flush_log_at_trx_commit": "1", "log_bin": "OFF"}, channel: channelRuns}, []string{"warning replica"}, nil},
		{"a patient server", serverFacts{variables: map[string]string{"innodb_lock_wait_timeout": "3600"}}, []string{"note lock-wait"}, []string{"1h0m0s", "1h12m0s"}},
		{"a clock that is ahead", serverFacts{clock: 2500 * time.Millisecond, clockError: time.Millisecond}, []string{"note clock"}, []string{"2.5s ahead of"}},
		{"a clock that is read slowly", serverFacts{clock: 1500 * time.Millisecond, clockError: time.Second, zone: hours(8)}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r inspect.Report
			c.facts.checkServer(&r)
			if !slices.Equal(codes(r.Findings), c.want) {
				t.Fatalf("found %v, want %q", r.Findings, c.want)
			}
			text := c.facts.product() + " " + c.facts.role() + fmt.Sprint(r.Findings)
			for _, word := range c.words {
				if !strings.Contains(text, word) {
					t.Errorf("%q lacks %q", text, word)
				}
			}
		})
	}
}

// inspected is an inspection of a table t that numbers its rows.
func inspected(expected source.Expected, server map[string]string) *inspection {
	expected.Spec.Table, expected.Spec.ID = "t", "id"
	t := new(Source).newShard(expected.Spec).inspection(expected)
	t.server, t.create = serverFacts{variables: server}, "CREATE TABLE `t`"
	t.Table.Columns = []sqltable.Column{{Column: source.Column{Name: "id", Kind: source.Int}, Type: "bigint unsigned", Numbered: true}}
	return t
}

func TestTheOrderOfIDsIsTheServersOrAsConfigured(t *testing.T) {
	tidb := map[string]string{"version": "8.0.11-TiDB-v8.5.1"}
	for _, c := range []struct {
		name     string
		expected source.Expected
		server   map[string]string
		create   string
		order    source.IDOrder
		want     []string
	}{
		{"one counter", source.Expected{}, nil, "", source.OrderStrict, nil},
		{"blocks", source.Expected{}, tidb, "", source.OrderSegmented, nil},
		{"blocks under another name", source.Expected{Order: source.OrderStrict}, tidb, "", source.OrderStrict, []string{"warning id-order"}},
		{"blocks as a person says", source.Expected{Order: source.OrderSegmented}, nil, "", source.OrderSegmented, nil},
		{"blocks that hold would wait for", source.Expected{Hold: true}, tidb, "", source.OrderSegmented, []string{"unsafe id-order"}},
		{"no order", source.Expected{}, tidb, "`id` bigint /*T![auto_rand] AUTO_RANDOM(5) */", source.OrderNone, []string{"warning id-order"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := inspected(c.expected, c.server)
			table.create += c.create
			if order, why := table.order(); order != c.order || why == "" || !slices.Equal(codes(table.Findings), c.want) {
				t.Errorf("%s because %s, found %v, want %s, %q", order, why, table.Findings, c.order, c.want)
			}
		})
	}
	t.Run("an issuer that is not the database", func(t *testing.T) {
		table := inspected(source.Expected{}, nil)
		table.Table.Columns[0].Numbered = false
		if table.order(); !slices.Equal(codes(table.Findings), []string{"warning id-issuer"}) {
			t.Errorf("found %v", table.Findings)
		}
		table = inspected(source.Expected{Order: source.OrderSegmented}, nil)
		table.Table.Columns[0].Numbered = false
		if table.order(); len(table.Findings) > 0 {
			t.Errorf("found %v although ID_ORDER says it", table.Findings)
		}
	})
}

func TestDefinitionsAreRewritten(t *testing.T) {
	create := "CREATE TABLE `t` (\n  `a` timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp() COMMENT 'not current_timestamp()',\n" +
		"  `a b``c` datetime(0) DEFAULT NULL,\n  `d` timestamp NULL DEFAULT CURRENT_TIMESTAMP,\n  `e` varchar(9) DEFAULT 'x' COMMENT 'DEFAULT NULL',\n" +
		"  `f` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`f`)),\n  `g` int(11),\n  KEY `h` (`a`)\n)"
	for _, c := range []struct{ column, finer, notNull string }{
		{"a", "`a` timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6) COMMENT 'not current_timestamp()'", ""},
		{"a b`c", "`a b``c` datetime(6) DEFAULT NULL", "`a b``c` datetime(0) NOT NULL"},
		{"d", "`d` timestamp(6) NULL DEFAULT CURRENT_TIMESTAMP(6)", "`d` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP"},
		{"e", "", "`e` varchar(9) NOT NULL DEFAULT 'x' COMMENT 'DEFAULT NULL'"},
		{"f", "", "`f` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL CHECK (json_valid(`f`))"},
		{"g", "", "`g` int(11) NOT NULL"},
		{"h", "", ""},
	} {
		definition := definitionOf(create, c.column)
		if got := finer(definition); got != c.finer {
			t.Errorf("finer is %q, want %q", got, c.finer)
		}
		if got := notNull(definition); c.notNull != "" && got != c.notNull || definition == "" && got != "" {
			t.Errorf("not null is %q, want %q", got, c.notNull)
		}
	}
}
