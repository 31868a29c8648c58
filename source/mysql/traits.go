package mysql

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"example.org/bridge/source"
)

// serverVariables tell how ids are handed out, whose transactions the server can show, and what a
// crash may lose, and how many connections there may be. A server lists those it has to all.
const serverVariables = "SHOW VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'auto_increment_increment', " +
	"'innodb_lock_wait_timeout', 'innodb_flush_log_at_trx_commit', 'log_bin', 'read_only', 'super_read_only', 'innodb_read_only', 'wsrep_on', " +
	"'wsrep_cluster_address', 'group_replication_group_name', 'group_replication_single_primary_mode', 'max_connections', 'max_user_connections')"

func queryVariables(ctx context.Context, c conn) (*serverFacts, error) {
	f := &serverFacts{variables: make(map[string]string)}
	return f, c.query(ctx, serverVariables, func(get func(string) string) { f.variables[get("Variable_name")] = get("Value") })
}

func (s *shard) Traits(ctx context.Context) (source.Traits, error) {
	var create string
	var of *serverTraits
	err := s.run(ctx, s.source.db, "ask about the ids of "+s.spec.Table, func(ctx context.Context, c conn) (err error) {
		// A table that could not be asked about is not taken for one of InnoDB.
		err = c.query(ctx, "SHOW CREATE TABLE "+s.quoted(), func(get func(string) string) { create = get("Create Table") })
		if err != nil && number(err) != erTableAccessDenied {
			return err
		}
		of, err = s.serverTraits(ctx, c)
		return err
	})
	if err != nil {
		return source.Traits{}, err
	}
	t := of.order(create)
	t.Server = of.identity
	t.Writer, t.WriterWhy = of.writer()
	t.Uncommitted, t.Evidence, t.EvidenceWhy = of.evidence(create, s.shape.index == "PRIMARY")
	if seconds, err := strconv.Atoi(of.variables["innodb_lock_wait_timeout"]); err == nil {
		t.LockWait = time.Duration(seconds) * time.Second
	}
	return t, nil
}

// serverTraits are what a server says of itself. They are immutable.
type serverTraits struct {
	// identity is empty where several servers may have answered.
	identity string
	*serverFacts
	at time.Time
}

// shareTraitsFor is how long traits serve other shards that begin: they cost a server more than a
// hundred pages, and thousands of shards begin at once.
const shareTraitsFor = time.Second

// serverTraits returns what the server that answers says of itself. Before its first page a shard
// takes what another one has just read from the same server: each page says which server it is
// from, and traits count for as long as pages come from that one.
func (s *shard) serverTraits(ctx context.Context, c conn) (*serverTraits, error) {
	begun := time.Now()
	identity, err := s.queryIdentity(ctx, c)
	if err != nil {
		return nil, err
	}
	if last := s.source.traits.Load(); last != nil && last.identity == identity && s.answered == "" && begun.Sub(last.at) < shareTraitsFor {
		return last, nil
	}
	t := &serverTraits{identity: identity, at: begun}
	if t.serverFacts, err = queryVariables(ctx, c); err != nil {
		return nil, err
	}
	if err := s.queryWriter(ctx, c, t.serverFacts); err != nil {
		return nil, err
	}
	again, err := s.queryIdentity(ctx, c)
	if err != nil {
		return nil, err
	}
	// It says that its server takes writes while other answers of the same moment say that it is
	// read-only: it was that in between, or another server gave them.
	contradicts := strings.Contains(s.source.connector.server.Load().identity, role) && !strings.HasSuffix(identity, " "+source.ReadOnly) &&
		(t.readOnly() != "" || t.pagesReadOnly)
	if again != identity || contradicts {
		// What was asked in between may hold for either.
		t.identity = ""
		return t, nil
	}
	s.source.traits.Store(t)
	return t, nil
}

func on(value string) bool { return value == "ON" || value == "1" }

func (f *serverFacts) isMariaDB() bool { return strings.Contains(f.variables["version"], "MariaDB") }

func (f *serverFacts) isGalera() bool {
	return on(f.variables["wsrep_on"]) && f.variables["wsrep_cluster_address"] != ""
}

func (f *serverFacts) isMultiPrimary() bool {
	return f.variables["group_replication_group_name"] != "" && !on(f.variables["group_replication_single_primary_mode"])
}

func (f *serverFacts) isTiDB() bool { return strings.Contains(f.variables["version"], "TiDB") }

func (f *serverFacts) isOceanBase() bool {
	return strings.Contains(f.variables["version"]+f.variables["version_comment"], "OceanBase")
}

// hasBlocks is true where servers may hold blocks of ids. They have no READ UNCOMMITTED.
func (f *serverFacts) hasBlocks() bool { return f.isTiDB() || f.isOceanBase() }

// stride returns auto_increment_increment, "" where that is 1.
func (f *serverFacts) stride() string {
	return strings.TrimSpace(strings.TrimPrefix(f.variables["auto_increment_increment"]+" ", "1 "))
}

func (f *serverFacts) order(create string) source.Traits {
	create = unquoted(create)
	say := func(o source.IDOrder, why string) source.Traits { return source.Traits{Order: o, OrderWhy: why} }
	switch {
	case f.isTiDB() && strings.Contains(create, "AUTO_RANDOM"):
		return say(source.OrderNone, "TiDB hands out AUTO_RANDOM ids")
	case f.isTiDB() && strings.Contains(create, "AUTO_ID_CACHE=1 "):
		return say(source.OrderStrict, "TiDB with AUTO_ID_CACHE=1 has one counter")
	case f.isTiDB():
		return say(source.OrderSegmented, "TiDB gives each server a block of ids")
	case f.isOceanBase():
		return say(source.OrderSegmented, "OceanBase gives each node a block of ids")
	case f.members() != "":
		return say(source.OrderStrided, f.members()+" interleave their ids")
	case f.stride() != "":
		return say(source.OrderStrided, "auto_increment_increment is "+f.stride())
	}
	return say(source.OrderStrict, "auto_increment_increment is 1")
}

// queryIdentity asks in the form of a page, so that a proxy sends it where it sends pages.
func (s *shard) queryIdentity(ctx context.Context, c conn) (identity string, err error) {
	query := "(SELECT CONCAT_WS(' ', " + s.source.connector.server.Load().identity + ") AS identity) UNION ALL (SELECT NULL FROM " + s.quoted() + " LIMIT 0)"
	err = c.query(ctx, query, func(get func(string) string) { identity = get("identity") })
	return identity, err
}

// unquoted returns a CREATE TABLE without its names and comments, which may say anything.
func unquoted(create string) string {
	if bare, _, err := source.Unquoted(create); err == nil {
		return bare
	}
	return create
}

// evidence tells whether a read at READ UNCOMMITTED shows the rows of transactions that are open on
// the server itself, and whether these are the rows of every open transaction that has inserted
// one. Primary says that the id is the primary key.
func (f *serverFacts) evidence(create string, primary bool) (uncommitted, evidence bool, why string) {
	create = unquoted(create)
	takesWrites, lags := f.writer()
	switch {
	case f.hasBlocks():
		return false, false, "this database has no READ UNCOMMITTED"
	case create != "" && !strings.Contains(create, "ENGINE=InnoDB"):
		return false, false, "only InnoDB shows uncommitted rows"
	case !primary:
		return false, false, "the id is not the primary key, and a secondary index does not show every uncommitted row"
	case f.members() != "":
		return true, false, "other members take writes that this one does not show before they commit"
	case !takesWrites:
		return true, false, lags
	}
	return true, true, "InnoDB shows uncommitted rows"
}

// Each server knows some of these, and wants a privilege for it that SELECT does not bring.
var replicaStatements = []string{"SHOW REPLICA STATUS", "SHOW ALL SLAVES STATUS", "SHOW SLAVE STATUS"}

// replicaChannels shows the same on MySQL to a login with SELECT on that table, in its rows after
// the first. While performance_schema is off no row proves nothing. MariaDB has a table of this
// name that may be empty on a replica.
const replicaChannels = "SELECT @@GLOBAL.performance_schema AS enabled, NULL AS Channel_Name UNION ALL " +
	"SELECT NULL, CHANNEL_NAME FROM performance_schema.replication_connection_configuration WHERE HOST <> ''"

const replicaGrant = "with REPLICATION CLIENT, or SELECT on performance_schema.replication_connection_configuration, it may"

func (f *serverFacts) queryReplication(ctx context.Context, c conn) error {
	err := c.tryQuery(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Slave_running', 'Slaves_running')", func(get func(string) string) {
		f.sawReplication = true
		if get("Value") != "OFF" && get("Value") != "0" {
			f.channel = channelRuns
		}
	})
	if err != nil {
		return err
	}
	for _, statement := range replicaStatements {
		err := c.query(ctx, statement, f.noteChannel)
		switch {
		case err == nil:
			f.sawReplication = true
			return nil
		case number(err) == 0:
			return err
		}
	}
	if f.isMariaDB() {
		return nil
	}
	return c.tryQuery(ctx, replicaChannels, func(get func(string) string) {
		if enabled := get("enabled"); enabled != "" {
			f.sawReplication = f.sawReplication || on(enabled)
			return
		}
		f.noteChannel(get)
	})
}

// channelState is the state of the channels by which a server replicates from others, if known.
type channelState uint8

const (
	// channelNone: there is none, as far as the login may see.
	channelNone channelState = iota
	// channelStopped: none of them runs. Nothing tells a server that was promoted from a replica
	// that lags, so it counts as a replica.
	channelStopped
	// channelConfigured: there is one; whether it runs does not show.
	channelConfigured
	channelRuns
)

// noteChannel notes a channel. Those of a group are there on its primary, too.
func (f *serverFacts) noteChannel(get func(string) string) {
	if strings.HasPrefix(get("Channel_Name"), "group_replication_") {
		return
	}
	receives := cmp.Or(get("Replica_IO_Running"), get("Slave_IO_Running"))
	applies := cmp.Or(get("Replica_SQL_Running"), get("Slave_SQL_Running"))
	state := channelRuns
	switch {
	case receives == "":
		state = channelConfigured
	case receives == "No" && applies == "No":
		state = channelStopped
	}
	f.channel = max(f.channel, state)
}

// stoppedChannel names a channel that may be a remainder, "" on any other server.
func (f *serverFacts) stoppedChannel() string {
	switch f.channel {
	case channelStopped:
		return "has a replication channel that is stopped"
	case channelConfigured:
		return "has a replication channel (this login may not see whether it runs)"
	}
	return ""
}

// removeChannels is the statement that makes a promoted server a replica no more.
func (f *serverFacts) removeChannels() string {
	if f.isMariaDB() {
		return "RESET SLAVE ALL;"
	}
	return "RESET REPLICA ALL;"
}

// Absence must be read where everything is that has been committed: on the one server that takes
// the writes. A member of a cluster whose members all take writes shows what the others have
// committed only some time later, so there a read by keys waits for that. What a login with SELECT
// on the tables cannot see is the replication of MySQL: a replica that is not read-only looks like
// the server it copies from, unless the login may read replicaChannels. MariaDB shows it to all.

// waiting is a pair of statements around a read that must show what other members have committed.
type waiting struct{ begin, end string }

func (f *serverFacts) waiting() waiting {
	switch {
	case f.isGalera():
		// A session with dirty reads does not wait.
		return waiting{"SET SESSION wsrep_sync_wait = @@SESSION.wsrep_sync_wait | 1, wsrep_dirty_reads = OFF",
			"SET SESSION wsrep_sync_wait = @@GLOBAL.wsrep_sync_wait, wsrep_dirty_reads = @@GLOBAL.wsrep_dirty_reads"}
	case f.isMultiPrimary():
		return waiting{"SET SESSION group_replication_consistency = 'BEFORE'", "SET SESSION group_replication_consistency = DEFAULT"}
	}
	return waiting{}
}

// groupSettings has a new primary of a group be read once it has what the former one has committed,
// which it has not at once.
func (f *serverFacts) groupSettings() []setting {
	const name = "group_replication_consistency"
	if f.variables["group_replication_group_name"] == "" || f.isMultiPrimary() {
		return nil
	}
	return []setting{{name, "IF(@@GLOBAL." + name + " = 'EVENTUAL', 'BEFORE_ON_PRIMARY_FAILOVER', @@GLOBAL." + name + ")"}}
}

// around runs read while the session waits for other members. A server that refuses that is read
// all the same: Traits says that absence is not judged there.
func (w waiting) around(ctx context.Context, c conn, read func(waits bool) error) error {
	if w.begin == "" {
		return read(false)
	}
	err := c.exec(ctx, w.begin)
	waits := err == nil
	if waits || number(err) != 0 {
		err = read(waits)
	}
	if err != nil || !waits {
		return err
	}
	return c.exec(ctx, w.end)
}

// queryWriter collects what tells whether absence can be proved.
func (s *shard) queryWriter(ctx context.Context, c conn, f *serverFacts) error {
	if err := f.queryReplication(ctx, c); err != nil {
		return err
	}
	err := f.waiting().around(ctx, c, func(waits bool) error {
		f.waits = waits
		return nil
	})
	if err != nil {
		return err
	}
	err = c.tryQuery(ctx, "SHOW GLOBAL STATUS WHERE Variable_name = 'wsrep_cluster_status'", func(get func(string) string) {
		if f.isGalera() && get("Value") != "Primary" {
			f.severed = get("Value")
		}
	})
	if err != nil {
		return err
	}
	// In the form of a page, so that a proxy sends it where it sends pages.
	return c.tryQuery(ctx, "(SELECT CONCAT_WS(' ', @@GLOBAL.read_only, @@GLOBAL.innodb_read_only) AS flags) UNION ALL (SELECT NULL FROM "+s.quoted()+" LIMIT 0)",
		func(get func(string) string) {
			for flag := range strings.FieldsSeq(get("flags")) {
				f.pagesReadOnly = f.pagesReadOnly || isSet(flag)
			}
		})
}

// isSet is about read-only: newer servers have more words for it than ON.
func isSet(value string) bool { return value != "" && value != "OFF" && value != "0" }

// writer tells whether what a read by keys does not find is not there.
func (f *serverFacts) writer() (bool, string) {
	switch variable := f.readOnly(); {
	case variable != "":
		return false, "the server takes no writes (" + variable + " is on), and a replica may lag"
	case f.pagesReadOnly:
		return false, "reads are sent to a server that takes no writes, which may lag"
	case f.proxy() != "":
		return false, f.proxy() + " may send reads to a server that lags"
	case f.hasBlocks():
		return true, "every server of this database reads what is committed on any"
	case f.stoppedChannel() != "":
		return false, "the server " + f.stoppedChannel() + ", so it may be a replica that lags (once it takes the writes: " + f.removeChannels() + ")"
	case f.channel == channelRuns:
		return false, "the server copies from another one and may lag"
	case f.severed != "":
		return false, "the node is cut off from its cluster (wsrep_cluster_status is " + f.severed + ")"
	case f.isGalera() && f.waits:
		return true, "a read by keys waits for what the other nodes have committed (wsrep_sync_wait)"
	case f.isMultiPrimary() && f.waits:
		return true, "a read by keys waits for what the other members have committed (group_replication_consistency)"
	case f.members() != "":
		return false, "other members take writes that show here later, and the server does not let this login wait for them"
	case f.sawReplication:
		return true, "the server takes the writes and copies from no other"
	}
	return true, "the server takes writes (this login may not see whether it copies from another; " + replicaGrant + ")"
}
