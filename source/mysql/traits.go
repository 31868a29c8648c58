package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"bridge/source"
)

// traitVariables tell how ids are handed out and whose transactions the server can show. A server
// lists those it has.
const traitVariables = "SHOW VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'auto_increment_increment', " +
	"'innodb_lock_wait_timeout', 'read_only', 'super_read_only', 'innodb_read_only', 'wsrep_on', 'wsrep_cluster_address', " +
	"'group_replication_group_name', 'group_replication_single_primary_mode')"

// Traits asks the server.
func (s *shard) Traits(ctx context.Context) (source.Traits, error) {
	var create string
	var of *serverTraits
	err := s.source.do(ctx, s.source.db, func(ctx context.Context, c conn) error {
		err := c.query(ctx, "SHOW CREATE TABLE "+s.table.quoted(), func(get func(string) string) { create = get("Create Table") })
		if err != nil && number(err) != erTableAccessDenied {
			return err
		}
		if err := s.refreshIfDue(ctx, c); err != nil {
			return err
		}
		of, err = s.serverTraits(ctx, c)
		return err
	})
	if err != nil {
		return source.Traits{}, fmt.Errorf("ask about the ids of %s: %w", s.spec.Table, s.explain(err))
	}
	t := order(of.variables, create)
	t.Server = of.identity
	t.Writer, t.WriterWhy = of.writer.writer()
	t.Uncommitted, t.EvidenceWhy = uncommitted(of.variables, create, s.shape.index == "PRIMARY")
	if t.Evidence = t.Uncommitted; t.Evidence {
		t.Evidence, t.EvidenceWhy = evidence(of.variables, t)
	}
	t.ModifiedIndexed = s.shape.modified != ""
	if seconds, err := strconv.Atoi(of.variables["innodb_lock_wait_timeout"]); err == nil {
		t.LockWait = time.Duration(seconds) * time.Second
	}
	return t, nil
}

// serverTraits are what a server says of itself. They are immutable.
type serverTraits struct {
	// identity is empty where several servers may have answered.
	identity  string
	variables map[string]string
	writer    writerFacts
	at        time.Time
}

// shareTraitsFor is how long what one shard has read of the server serves others that begin. Its
// variables and its status cost a server more than a hundred pages, and thousands of shards begin
// at once.
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
	t := &serverTraits{identity: identity, variables: make(map[string]string), at: begun}
	err = c.query(ctx, traitVariables, func(get func(string) string) { t.variables[get("Variable_name")] = get("Value") })
	if err != nil {
		return nil, err
	}
	if t.writer, err = s.queryWriter(ctx, c, t.variables); err != nil {
		return nil, err
	}
	again, err := s.queryIdentity(ctx, c)
	if err != nil {
		return nil, err
	}
	if again != identity || s.contradicts(identity, t.writer) {
		// What was asked in between may hold for either.
		t.identity = ""
		return t, nil
	}
	s.source.traits.Store(t)
	return t, nil
}

func on(value string) bool { return value == "ON" || value == "1" }

func isGalera(v map[string]string) bool {
	return on(v["wsrep_on"]) && v["wsrep_cluster_address"] != ""
}

func isMultiPrimary(v map[string]string) bool {
	return v["group_replication_group_name"] != "" && !on(v["group_replication_single_primary_mode"])
}

func isTiDB(v map[string]string) bool { return strings.Contains(v["version"], "TiDB") }

func isOceanBase(v map[string]string) bool {
	return strings.Contains(v["version"]+v["version_comment"], "OceanBase")
}

// order tells how the server hands out ids.
func order(v map[string]string, create string) source.Traits {
	say := func(o source.IDOrder, why string) source.Traits { return source.Traits{Order: o, OrderWhy: why} }
	switch {
	case isTiDB(v) && strings.Contains(create, "AUTO_RANDOM"):
		return say(source.OrderNone, "TiDB hands out AUTO_RANDOM ids")
	case isTiDB(v) && strings.Contains(create, "AUTO_ID_CACHE=1 "):
		return say(source.OrderStrict, "TiDB with AUTO_ID_CACHE=1 has one counter")
	case isTiDB(v):
		return say(source.OrderSegmented, "TiDB gives each server a block of ids")
	case isOceanBase(v):
		return say(source.OrderSegmented, "OceanBase gives each node a block of ids")
	case isGalera(v):
		return say(source.OrderStrided, "the nodes of a Galera cluster interleave their ids")
	case isMultiPrimary(v):
		return say(source.OrderStrided, "the members of a multi-primary group interleave their ids")
	case v["auto_increment_increment"] != "" && v["auto_increment_increment"] != "1":
		return say(source.OrderStrided, "auto_increment_increment is "+v["auto_increment_increment"])
	}
	return say(source.OrderStrict, "auto_increment_increment is 1")
}

// queryIdentity returns the server that answers pages: it is asked in their form, so that a proxy
// sends it where it sends pages.
func (s *shard) queryIdentity(ctx context.Context, c conn) (identity string, err error) {
	query := "(SELECT CONCAT_WS(' ', " + s.source.connector.server.Load().identity + ") AS identity) UNION ALL (SELECT NULL FROM " + s.table.quoted() + " LIMIT 0)"
	err = c.query(ctx, query, func(get func(string) string) { identity = get("identity") })
	return identity, err
}

// contradicts reports whether an identity says that its server takes writes while other answers of
// the same moment say that it is read-only: it was read-only in between, or another server gave
// them.
func (s *shard) contradicts(identity string, writer writerFacts) bool {
	told := strings.Contains(s.source.connector.server.Load().identity, role)
	return told && !strings.HasSuffix(identity, " "+source.ReadOnly) && (isSet(writer.variables["read_only"]) || writer.pagesReadOnly)
}

// uncommitted tells whether a read at READ UNCOMMITTED shows the rows of transactions that are open
// on the server itself.
func uncommitted(v map[string]string, create string, primary bool) (bool, string) {
	switch {
	case isTiDB(v), isOceanBase(v):
		return false, "this database has no READ UNCOMMITTED"
	case create != "" && !strings.Contains(create, "ENGINE=InnoDB"):
		return false, "only InnoDB shows uncommitted rows"
	case !primary:
		return false, "the id is not the primary key, and a secondary index does not show every uncommitted row"
	}
	return true, "InnoDB shows uncommitted rows"
}

// evidence tells whether these are the rows of every open transaction that has inserted one. t says
// what is known of the server.
func evidence(v map[string]string, t source.Traits) (bool, string) {
	switch {
	case isGalera(v), isMultiPrimary(v):
		return false, "other members take writes that this one does not show before they commit"
	case isSet(v["read_only"]):
		return false, "the server is read-only: a replica does not show what is open on its primary"
	case !t.Writer:
		return false, t.WriterWhy
	}
	return t.Evidence, t.EvidenceWhy
}
