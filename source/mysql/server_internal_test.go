package mysql

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

func codes(findings []inspect.Finding) (codes []string) {
	for _, f := range findings {
		codes = append(codes, fmt.Sprintf("%s %s", f.Severity, f.Code))
	}
	return codes
}

// TestWhatServersTell has what is made of the variables of a server and of its replication: the
// order of ids, whether all open transactions show, whether absence is proved, and the findings.
func TestWhatServersTell(t *testing.T) {
	const innoDB = "CREATE TABLE t (id int) ENGINE=InnoDB"
	galera := map[string]string{"wsrep_on": "ON", "wsrep_cluster_address": "gcomm://a,b", "auto_increment_increment": "3"}
	group := map[string]string{"group_replication_group_name": "g", "group_replication_single_primary_mode": "OFF", "auto_increment_increment": "7"}
	tidb := map[string]string{"version": "8.0.11-TiDB-v8.5.1"}
	stride, block, replica := []string{"warning stride"}, []string{"warning id-blocks"}, []string{"warning replica"}
	is := func(pairs ...string) map[string]string {
		v := make(map[string]string)
		for i := 0; i < len(pairs); i += 2 {
			v[pairs[i]] = pairs[i+1]
		}
		return v
	}
	flush := func(value, log string) map[string]string {
		return is("innodb_flush_log_at_trx_commit", value, "log_bin", log)
	}
	eight := 8 * time.Hour
	for _, c := range []struct {
		name      string
		variables map[string]string
		facts     serverFacts
		create    string
		order     source.IDOrder
		// evidence and writer are what the traits say.
		evidence, writer bool
		found            []string
		// words stand in what is said of the server.
		words string
	}{
		{"MariaDB alone", is("version", "11.8.3-MariaDB-1", "read_only", "OFF", "auto_increment_increment", "1", "innodb_lock_wait_timeout", "50"), serverFacts{sawReplication: true}, "",
			source.OrderStrict, true, true, nil, "MariaDB 11.8.3|takes the writes|copies from no other"},
		{"MySQL alone, whose replication does not show", is("version", "8.4.6", "read_only", "OFF", "super_read_only", "OFF", "group_replication_group_name", ""), serverFacts{}, "",
			source.OrderStrict, true, true, nil, "MySQL 8.4.6|may not see whether it copies"},
		{"a stride", is("auto_increment_increment", "2"), serverFacts{}, "", source.OrderStrided, true, true, stride, "in steps of 2 |SET GLOBAL"},
		{"a Galera node that waits", galera, serverFacts{waits: true}, "", source.OrderStrided, false, true, stride, "Galera|one of several that take writes|wsrep_sync_wait"},
		{"a Galera node that does not", galera, serverFacts{}, "", source.OrderStrided, false, false, stride, "does not let"},
		{"a Galera node that is cut off", galera, serverFacts{waits: true, severed: "non-Primary"}, "", source.OrderStrided, false, false, stride, "non-Primary"},
		{"MariaDB with Galera switched off", is("wsrep_on", "OFF", "wsrep_cluster_address", ""), serverFacts{}, "", source.OrderStrict, true, true, nil, ""},
		{"a member of a multi-primary group that waits", group, serverFacts{waits: true}, "", source.OrderStrided, false, true, stride, "multi-primary|group_replication_consistency"},
		{"the primary of a group", is("group_replication_group_name", "g", "group_replication_single_primary_mode", "ON"), serverFacts{}, "", source.OrderStrict, true, true, nil, "takes writes"},
		{"a secondary of a group", is("group_replication_group_name", "g", "group_replication_single_primary_mode", "ON", "super_read_only", "ON"), serverFacts{}, "",
			source.OrderStrict, false, false, replica, "super_read_only is on"},
		{"a server that is read-only", is("read_only", "ON"), serverFacts{}, "", source.OrderStrict, false, false, replica, "read_only is on"},
		{"a reader of Aurora", is("innodb_read_only", "ON"), serverFacts{}, "", source.OrderStrict, false, false, replica, "innodb_read_only"},
		{"a replica that could be written", nil, serverFacts{channel: channelRuns, sawReplication: true}, "", source.OrderStrict, false, false, replica, "counts as a replica|copies from another"},
		{"a server that was promoted", nil, serverFacts{channel: channelStopped, sawReplication: true}, "", source.OrderStrict, false, false, replica,
			"has a replication channel that is stopped|RESET REPLICA ALL;"},
		{"a server with a channel of which no more shows", nil, serverFacts{channel: channelConfigured}, "", source.OrderStrict, false, false, replica, "may not see whether it runs|RESET REPLICA ALL;"},
		{"a replica that is read-only and stopped", is("read_only", "ON"), serverFacts{channel: channelStopped}, "", source.OrderStrict, false, false, replica, "counts as a replica: "},
		{"a proxy that sends pages to a replica", is("read_only", "OFF"), serverFacts{pagesReadOnly: true}, "", source.OrderStrict, false, false, nil, "reads are sent"},
		{"Vitess", is("version", "8.0.30-Vitess"), serverFacts{}, "", source.OrderStrict, false, false, []string{"warning proxy"}, "Vitess"},
		{"TiDB", tidb, serverFacts{}, "", source.OrderSegmented, false, true, block, "TiDB|in CREATE TABLE and not in ALTER TABLE|every server"},
		{"TiDB with a word of TiDB in a comment", tidb, serverFacts{}, " COMMENT='once AUTO_RANDOM'", source.OrderSegmented, false, true, block, "TiDB|in CREATE TABLE and not in ALTER TABLE|every server"},
		{"TiDB with one counter", tidb, serverFacts{}, " /*T![auto_id_cache] AUTO_ID_CACHE=1 */", source.OrderStrict, false, true, block, ""},
		{"TiDB with random ids", tidb, serverFacts{}, " /*T![auto_rand] AUTO_RANDOM(5) */", source.OrderNone, false, true, block, ""},
		{"OceanBase", is("version", "5.7.25-OceanBase-v4.3.5", "version_comment", "OceanBase 4.3.5"), serverFacts{}, "", source.OrderSegmented, false, true, block, "OceanBase|'ORDER'"},
		{"a server that may lose a second of commits in a crash", flush("0", "ON"), serverFacts{}, "", source.OrderStrict, true, true, []string{"note log-flush"},
			"a crash of the server loses|SET GLOBAL innodb_flush_log_at_trx_commit = 1"},
		{"a server that flushes each commit", flush("1", "ON"), serverFacts{}, "", source.OrderStrict, true, true, nil, ""},
		{"a server without a binary log", flush("1", "OFF"), serverFacts{}, "", source.OrderStrict, true, true, []string{"note log-flush"}, "keeps no binary log|set log_bin and restart the server"},
		{"a replica without a binary log", flush("1", "OFF"), serverFacts{channel: channelRuns}, "", source.OrderStrict, false, false, replica, ""},
		{"a patient server", is("innodb_lock_wait_timeout", "3600"), serverFacts{}, "", source.OrderStrict, true, true, []string{"note lock-wait"}, "1h0m0s|1h12m0s"},
		{"a clock that is ahead", nil, serverFacts{clock: 2500 * time.Millisecond, clockError: time.Millisecond}, "", source.OrderStrict, true, true, []string{"note clock"}, "2.5s ahead of"},
		{"a clock that is read slowly", nil, serverFacts{clock: 1500 * time.Millisecond, clockError: time.Second, zone: &eight}, "", source.OrderStrict, true, true, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.facts
			f.variables = c.variables
			order := f.order(innoDB + c.create)
			writer, why := f.writer()
			_, evidence, reason := f.evidence(innoDB+c.create, true)
			if order.Order != c.order || order.OrderWhy == "" || writer != c.writer || why == "" || evidence != c.evidence || reason == "" {
				t.Errorf("order %s because %q, writer %t because %q, evidence %t because %q", order.Order, order.OrderWhy, writer, why, evidence, reason)
			}
			for create, primary := range map[string]bool{"CREATE TABLE t (id int) ENGINE=MyISAM": true, "CREATE TABLE t (id int) ENGINE=MyISAM COMMENT='was ENGINE=InnoDB'": true, innoDB: false} {
				if _, evidence, why := f.evidence(create, primary); evidence || why == "" {
					t.Errorf("%s, by the primary key %t: evidence because %q", create, primary, why)
				}
			}
			var r inspect.Report
			f.checkServer(&r)
			if !slices.Equal(codes(r.Findings), c.found) {
				t.Fatalf("found %v, want %q", r.Findings, c.found)
			}
			text := f.product() + " " + f.role() + " " + why + fmt.Sprint(r.Findings)
			for word := range strings.SplitSeq(c.words, "|") {
				if !strings.Contains(text, word) {
					t.Errorf("%q lacks %q", text, word)
				}
			}
			wait := ""
			switch {
			case f.isGalera():
				wait = "wsrep_sync_wait"
			case f.isMultiPrimary():
				wait = "group_replication_consistency"
			}
			if w := f.waiting(); !strings.Contains(w.begin, wait) || !strings.Contains(w.end, wait) || wait == "" && w != (waiting{}) {
				t.Errorf("it waits by %+v, want %s", w, wait)
			}
			if holds := f.groupSettings(); (len(holds) == 1) != on(c.variables["group_replication_single_primary_mode"]) {
				t.Errorf("its sessions are set to %v", holds)
			}
		})
	}
}

func TestTheOrderOfIDsIsTheServersOrAsConfigured(t *testing.T) {
	tidb := map[string]string{"version": "8.0.11-TiDB-v8.5.1"}
	for _, c := range []struct {
		name     string
		expected source.Expected
		server   map[string]string
		create   string
		foreign  bool
		order    source.IDOrder
		want     []string
	}{
		{"one counter", source.Expected{}, nil, "", false, source.OrderStrict, nil},
		{"blocks", source.Expected{}, tidb, "", false, source.OrderSegmented, nil},
		{"blocks under another name", source.Expected{Order: source.OrderStrict}, tidb, "", false, source.OrderStrict, []string{"warning id-order"}},
		{"blocks as a person says", source.Expected{Order: source.OrderSegmented}, nil, "", true, source.OrderSegmented, nil},
		{"blocks that hold would wait for", source.Expected{Hold: true}, tidb, "", false, source.OrderSegmented, []string{"unsafe id-order"}},
		{"no order", source.Expected{}, tidb, "`id` bigint /*T![auto_rand] AUTO_RANDOM(5) */", false, source.OrderNone, []string{"warning id-order"}},
		{"an issuer that is not the database", source.Expected{}, nil, "", true, source.OrderStrict, []string{"warning id-issuer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.expected.Spec.Table, c.expected.Spec.ID = "t", "id"
			table := new(Source).newShard(c.expected.Spec).inspection(c.expected)
			table.server.variables, table.create = c.server, "CREATE TABLE `t`"+c.create
			table.Table.Columns = []sqltable.Column{{Column: source.Column{Name: "id", Kind: source.Int}, Type: "bigint unsigned", Numbered: !c.foreign}}
			if order, why := table.order(); order != c.order || why == "" || !slices.Equal(codes(table.Findings), c.want) {
				t.Errorf("%s because %s, found %v, want %s, %q", order, why, table.Findings, c.order, c.want)
			}
		})
	}
}
