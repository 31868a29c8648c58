package mysql

import (
	"testing"

	"example.org/bridge/source"
)

func TestTopologies(t *testing.T) {
	const innoDB = "CREATE TABLE t (id int) ENGINE=InnoDB"
	for _, c := range []struct {
		name      string
		variables map[string]string
		create    string
		order     source.IDOrder
		evidence  bool
		// writer says that the server takes the writes, as far as is known.
		writer bool
	}{
		{"one server", map[string]string{"version": "8.4.0", "auto_increment_increment": "1"}, innoDB, source.OrderStrict, true, true},
		{"a stride", map[string]string{"version": "8.4.0", "auto_increment_increment": "3"}, innoDB, source.OrderStrided, true, true},
		{"a replica", map[string]string{"version": "8.4.0", "read_only": "ON"}, innoDB, source.OrderStrict, false, true},
		{"a replica that takes writes, too", map[string]string{"version": "8.4.0"}, innoDB, source.OrderStrict, false, false},
		{"Galera", map[string]string{"wsrep_on": "ON", "wsrep_cluster_address": "gcomm://a,b"}, innoDB, source.OrderStrided, false, true},
		{"MariaDB with Galera switched off", map[string]string{"wsrep_on": "OFF", "wsrep_cluster_address": ""}, innoDB, source.OrderStrict, true, true},
		{"a multi-primary group", map[string]string{"group_replication_group_name": "g", "group_replication_single_primary_mode": "OFF"}, innoDB, source.OrderStrided, false, true},
		{"the primary of a group", map[string]string{"group_replication_group_name": "g", "group_replication_single_primary_mode": "ON"}, innoDB, source.OrderStrict, true, true},
		{"TiDB", map[string]string{"version": "8.0.11-TiDB-v8.5.0"}, innoDB, source.OrderSegmented, false, true},
		{"TiDB with one counter", map[string]string{"version": "8.0.11-TiDB-v8.5.0"}, innoDB + " /*T![auto_id_cache] AUTO_ID_CACHE=1 */", source.OrderStrict, false, true},
		{"TiDB with random ids", map[string]string{"version": "8.0.11-TiDB-v8.5.0"}, "CREATE TABLE t (id bigint /*T![auto_rand] AUTO_RANDOM(5) */)", source.OrderNone, false, true},
		{"OceanBase", map[string]string{"version": "5.7.25", "version_comment": "OceanBase_CE 4.2.1"}, innoDB, source.OrderSegmented, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := order(c.variables, c.create); got.Order != c.order || got.OrderWhy == "" {
				t.Errorf("order %s because %q, want %s", got.Order, got.OrderWhy, c.order)
			}
			shown, why := uncommitted(c.variables, c.create, true)
			if shown {
				shown, why = evidence(c.variables, source.Traits{Evidence: true, EvidenceWhy: why, Writer: c.writer, WriterWhy: "it lags"})
			}
			if shown != c.evidence || why == "" {
				t.Errorf("evidence %v because %q, want %v", shown, why, c.evidence)
			}
		})
	}
}
