package mysql

import (
	"strings"
	"testing"
)

func TestWhereAbsenceIsProved(t *testing.T) {
	galera := map[string]string{"wsrep_on": "ON", "wsrep_cluster_address": "gcomm://a,b"}
	group := map[string]string{"group_replication_group_name": "g", "group_replication_single_primary_mode": "OFF"}
	for _, c := range []struct {
		name      string
		variables map[string]string
		facts     writerFacts
		want      bool
		why       string
	}{
		{"one server of MariaDB", map[string]string{"version": "11.8.3-MariaDB"}, writerFacts{serverFacts: &serverFacts{sawReplication: true}}, true, "copies from no other"},
		{"one server of MySQL", map[string]string{"version": "8.4.0", "read_only": "OFF", "super_read_only": "OFF"}, writerFacts{}, true, "may not see"},
		{"a replica", map[string]string{"read_only": "ON"}, writerFacts{}, false, "read_only is on"},
		{"a reader of Aurora", map[string]string{"innodb_read_only": "ON"}, writerFacts{}, false, "innodb_read_only"},
		{"a replica that could be written", nil, writerFacts{serverFacts: &serverFacts{channel: channelRuns, sawReplication: true}}, false, "copies from another"},
		{"a server that was promoted", nil, writerFacts{serverFacts: &serverFacts{channel: channelStopped, sawReplication: true}}, false, "a replication channel that is stopped"},
		{"a proxy that sends pages to a replica", map[string]string{"read_only": "OFF"}, writerFacts{apart: true}, false, "reads are sent"},
		{"Vitess", map[string]string{"version": "8.0.30-Vitess"}, writerFacts{}, false, "Vitess"},
		{"a Galera node that waits", galera, writerFacts{waits: true}, true, "wsrep_sync_wait"},
		{"a Galera node that does not", galera, writerFacts{}, false, "does not let"},
		{"a Galera node that is cut off", galera, writerFacts{waits: true, severed: "non-Primary"}, false, "non-Primary"},
		{"a member of a multi-primary group that waits", group, writerFacts{waits: true}, true, "group_replication_consistency"},
		{"the primary of a group", map[string]string{"group_replication_group_name": "g", "group_replication_single_primary_mode": "ON"}, writerFacts{}, true, "takes writes"},
		{"a secondary of a group", map[string]string{"group_replication_group_name": "g", "group_replication_single_primary_mode": "ON", "super_read_only": "ON"}, writerFacts{}, false, "super_read_only"},
		{"TiDB", map[string]string{"version": "8.0.11-TiDB-v8.5.0"}, writerFacts{}, true, "every server"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.facts.serverFacts == nil {
				c.facts.serverFacts = new(serverFacts)
			}
			c.facts.variables = c.variables
			if got, why := c.facts.writer(); got != c.want || !strings.Contains(why, c.why) {
				t.Errorf("writer %t because %q, want %t because of %q", got, why, c.want, c.why)
			}
		})
	}
}

func TestOnlyMembersOfClustersWait(t *testing.T) {
	for name, v := range map[string]map[string]string{
		"wsrep_sync_wait":               {"wsrep_on": "ON", "wsrep_cluster_address": "gcomm://"},
		"group_replication_consistency": {"group_replication_group_name": "g", "group_replication_single_primary_mode": "OFF"},
	} {
		if w := waitingOf(v); !strings.Contains(w.begin, name) || !strings.Contains(w.end, name) {
			t.Errorf("%v waits by %+v, want %s", v, w, name)
		}
	}
	if w := waitingOf(map[string]string{"wsrep_on": "OFF", "group_replication_group_name": ""}); w != (waiting{}) {
		t.Errorf("one server waits by %+v", w)
	}
}
