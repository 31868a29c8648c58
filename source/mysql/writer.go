package mysql

import (
	"context"
	"strings"
)

// Absence must be read where everything is that has been committed. On the one server that takes
// the writes it is. A member of a cluster whose members all take writes shows what the others have
// committed only some time later, so there a read by keys waits for that: by wsrep_sync_wait on
// Galera, by group_replication_consistency in a group; where the server refuses the setting absence
// is not judged. A replica may lag for hours, and so may the server to which a proxy sends reads.
//
// What a login with SELECT on the tables cannot see is the replication of MySQL: a replica that is
// not read-only looks like the server it copies from. SELECT on a table of performance_schema shows
// it (replicaChannels). MariaDB shows it to everyone. A server that takes writes and also copies
// from another counts as a replica.

// waiting is a pair of statements around a read that must show what other members have committed.
type waiting struct{ begin, end string }

// waitingOf returns how to wait for the other members of the cluster, if there are any.
func waitingOf(v map[string]string) waiting {
	switch {
	case isGalera(v):
		return waiting{"SET SESSION wsrep_sync_wait = @@SESSION.wsrep_sync_wait | 1", "SET SESSION wsrep_sync_wait = @@GLOBAL.wsrep_sync_wait"}
	case isMultiPrimary(v):
		return waiting{"SET SESSION group_replication_consistency = 'BEFORE'", "SET SESSION group_replication_consistency = DEFAULT"}
	}
	return waiting{}
}

const clusterVariables = "SHOW VARIABLES WHERE Variable_name IN ('wsrep_on', 'wsrep_cluster_address', " +
	"'group_replication_group_name', 'group_replication_single_primary_mode')"

// queryWaiting asks whether the server is a member of a cluster.
func queryWaiting(ctx context.Context, c conn) (waiting, error) {
	variables := make(map[string]string)
	err := c.query(ctx, clusterVariables, func(get func(string) string) { variables[get("Variable_name")] = get("Value") })
	return waitingOf(variables), err
}

// around runs read while the session waits for other members. A server that refuses that is read
// all the same: Traits says that absence is not judged there.
func (w waiting) around(ctx context.Context, c conn, read func() error) error {
	if w.begin == "" {
		return read()
	}
	accepted, err := w.accepted(ctx, c)
	if err != nil {
		return err
	}
	if err := read(); err != nil || !accepted {
		return err
	}
	return c.exec(ctx, w.end)
}

// accepted reports whether the server lets the session wait.
func (w waiting) accepted(ctx context.Context, c conn) (bool, error) {
	err := c.exec(ctx, w.begin)
	if number(err) != 0 {
		return false, nil
	}
	return err == nil, err
}

// writerFacts are what tells whether absence can be judged.
type writerFacts struct {
	*serverFacts
	// waits says that a read can wait for other members.
	waits bool
	// apart says that the server that answers pages is read-only although another one, asked for
	// its variables, is not.
	apart bool
	// pagesReadOnly says that read_only is on where pages are answered.
	pagesReadOnly bool
	// severed is the state of a Galera node that is not in the primary component, else "".
	severed string
}

// queryWriter collects them. variables are what the server says of itself.
func (s *shard) queryWriter(ctx context.Context, c conn, variables map[string]string) (writerFacts, error) {
	f := writerFacts{serverFacts: &serverFacts{variables: variables}}
	if err := f.queryReplication(ctx, c); err != nil {
		return f, err
	}
	if w := waitingOf(variables); w.begin != "" {
		var err error
		if f.waits, err = w.accepted(ctx, c); err == nil && f.waits {
			err = c.exec(ctx, w.end)
		}
		if err != nil {
			return f, err
		}
	}
	err := c.query(ctx, "SHOW GLOBAL STATUS WHERE Variable_name = 'wsrep_cluster_status'", func(get func(string) string) {
		if isGalera(variables) && get("Value") != "Primary" {
			f.severed = get("Value")
		}
	})
	if err != nil && number(err) == 0 {
		return f, err
	}
	// In the form of a page, so that a proxy sends it where it sends pages.
	err = c.query(ctx, "(SELECT CONCAT_WS(' ', @@GLOBAL.read_only, @@GLOBAL.innodb_read_only) AS flags) UNION ALL (SELECT NULL FROM "+s.table.quoted()+" LIMIT 0)",
		func(get func(string) string) {
			for i, flag := range strings.Fields(get("flags")) {
				f.apart = f.apart || f.readOnly() == "" && isSet(flag)
				f.pagesReadOnly = f.pagesReadOnly || i == 0 && isSet(flag)
			}
		})
	if err != nil && number(err) == 0 {
		return f, err
	}
	return f, nil
}

// isSet reports whether a variable that says whether a server is read-only says so: newer servers
// have more words for it than ON.
func isSet(value string) bool { return value != "" && value != "OFF" && value != "0" }

// writer tells whether what a read by keys does not find is not there.
func (f writerFacts) writer() (bool, string) {
	v := f.variables
	switch variable := f.readOnly(); {
	case variable != "":
		return false, "the server takes no writes (" + variable + " is on), and a replica may lag"
	case f.apart:
		return false, "reads are sent to a server that takes no writes, which may lag"
	case f.proxy() != "":
		return false, f.proxy() + " may send reads to a server that lags"
	case isTiDB(v), isOceanBase(v):
		return true, "every server of this database reads what is committed on any"
	case f.stoppedChannel() != "":
		return false, "the server " + f.stoppedChannel() + ", so it may be a replica that lags; once it takes the writes: " + f.removeChannels()
	case f.channel == channelRuns:
		return false, "the server copies from another one and may lag"
	case f.severed != "":
		return false, "the node is cut off from its cluster (wsrep_cluster_status is " + f.severed + ")"
	case isGalera(v) && f.waits:
		return true, "a read by keys waits for what the other nodes have committed (wsrep_sync_wait)"
	case isMultiPrimary(v) && f.waits:
		return true, "a read by keys waits for what the other members have committed (group_replication_consistency)"
	case isGalera(v), isMultiPrimary(v):
		return false, "other members take writes that show here later, and the server does not let this login wait for them"
	case f.sawReplication:
		return true, "the server takes writes and copies from no other"
	}
	return true, "the server takes writes (this login may not see whether it copies from another; " + replicaGrant + ")"
}
