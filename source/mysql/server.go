package mysql

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
)

// serverFacts is what a login with SELECT can see of a server.
type serverFacts struct {
	variables map[string]string
	// clock is how far the database's clock is ahead of this host's, give or take clockError.
	clock, clockError time.Duration
	// zone is the offset from UTC in which the server writes times without one; nil if unknown.
	zone *time.Duration
	// channel says whether the server copies from another, sawReplication that the login sees it.
	channel        channelState
	sawReplication bool
	// waits says that a read can wait for other members of its cluster, and severed is the state of
	// a Galera node that is not in the primary component, else "".
	waits   bool
	severed string
	// pagesReadOnly says that the server that answers pages is read-only: another one may have been
	// asked for its variables.
	pagesReadOnly bool
}

func (f *serverFacts) product() string {
	version := f.variables["version"]
	switch {
	case f.isTiDB():
		return "TiDB " + version
	case f.isOceanBase():
		return "OceanBase " + version
	case f.isMariaDB():
		number, _, _ := strings.Cut(version, "-")
		return "MariaDB " + number
	}
	return "MySQL " + version
}

func (f *serverFacts) role() string {
	if f.members() != "" && f.channel == channelNone && f.readOnly() == "" {
		return "it is one of several that take writes"
	}
	_, why := f.writer()
	return why
}

// members names the servers that all take writes together with this one, "" where there are none.
func (f *serverFacts) members() string {
	switch {
	case f.isGalera():
		return "the nodes of a Galera cluster"
	case f.isMultiPrimary():
		return "the members of a multi-primary group"
	}
	return ""
}

// readOnly returns the variable that says that the server takes no writes, "" when none does.
func (f *serverFacts) readOnly() string {
	for _, name := range []string{"super_read_only", "innodb_read_only", "read_only"} {
		if isSet(f.variables[name]) {
			return name
		}
	}
	return ""
}

const gapsExpireByAge = "what commits late is then found by polling: a missing id is looked for at every poll for a minute, then once a minute until GAP_TTL; an update that commits more than 10 s after it began waits for reconcile"

func (f *serverFacts) checkServer(r *inspect.Report) {
	f.checkIDs(r)
	f.checkServerRole(r)
	f.checkTimes(r)
	f.checkFlush(r)
}

func (f *serverFacts) checkConnections(r *inspect.Report, most int) {
	for _, name := range []string{"max_user_connections", "max_connections"} {
		n, err := strconv.Atoi(f.variables[name])
		if err != nil || n == 0 || n >= most {
			continue
		}
		r.Add(inspect.Warning, inspect.Connections, "server", fmt.Sprintf("allows %d connections (%s), and bridge opens up to %d: reads fail now and then", n, name, most)).
			Says("set %s to less than %d, or increase %s", option.SourceConnections, n, name)
		return
	}
}

// checkFlush notes that a crash may take away rows that were committed, and published. Without a
// binary log InnoDB shows a commit before its own log has it, also where it flushes each commit:
// tests that kill servers lose rows that were read. A replica and a node of Galera get such rows
// again, and TiDB and OceanBase have other engines.
func (f *serverFacts) checkFlush(r *inspect.Report) {
	const variable = "innodb_flush_log_at_trx_commit"
	note := func(what, set string) *inspect.Finding {
		return r.Add(inspect.Note, inspect.Flush, "server", what+", and hands out their ids again").
			Says("bridge then stops a stream whose rows were published and names the command that goes on; to lose none, let an administrator %s", set)
	}
	v := f.variables
	switch flush := v[variable]; flush {
	case "":
	case "1":
		if v["log_bin"] == "OFF" && !f.isGalera() && !f.hasBlocks() && f.channel == channelNone {
			note("keeps no binary log, and shows a commit a moment before its own log has it: a crash may lose rows that bridge has read in that moment", "set log_bin and restart the server")
		}
	default:
		lost := "of its host"
		if flush == "0" {
			lost = "of the server"
		}
		note("has "+variable+"="+flush+": a crash "+lost+" loses the rows that were committed last", "run").Types("SET GLOBAL %s = 1;", variable)
	}
}

func (f *serverFacts) checkIDs(r *inspect.Report) {
	switch members := f.members(); {
	case f.hasBlocks():
		finding := r.Add(inspect.Warning, inspect.Blocks, "server", "is "+f.product()+", whose servers may hold blocks of ids and does not show uncommitted rows").
			Says("a row may come hours after higher ids; such ids are looked for until GAP_TTL. A table with AUTO_ID_CACHE=1 (TiDB, which takes it in " +
				"CREATE TABLE and not in ALTER TABLE) or AUTO_INCREMENT_MODE='ORDER' (OceanBase) has one counter: set ID_ORDER=strict for it")
		if f.isOceanBase() {
			finding.Statement = "ALTER TABLE <table> AUTO_INCREMENT_MODE = 'ORDER';"
		}
	case members != "":
		r.Add(inspect.Warning, inspect.Stride, "server", "is one of "+members+": they interleave their ids, and this one does not show what is uncommitted on others").
			Says("nothing has to be done; %s", gapsExpireByAge)
	case f.stride() != "":
		r.Add(inspect.Warning, inspect.Stride, "server", "hands out ids in steps of "+f.stride()+" (auto_increment_increment), which leaves a gap at each row").
			Says("where no other server hands out the ids between, let an administrator run").
			Types("SET GLOBAL auto_increment_increment = 1, GLOBAL auto_increment_offset = 1;")
	}
}

func (f *serverFacts) checkServerRole(r *inspect.Report) {
	if variable := f.readOnly(); variable != "" || f.channel != channelNone {
		_, why := f.writer()
		finding := r.Add(inspect.Warning, inspect.Replica, "server", "counts as a replica: what is uncommitted on the server that takes the writes does not show here, "+
			"and a row that vanished is not published as deleted, because "+why)
		if f.stoppedChannel() != "" && variable == "" {
			finding.Says("point %s to the server that takes the writes; if it is this one since it was promoted, let an administrator run", option.SourceURL).
				Types("%s", f.removeChannels())
		} else {
			finding.Says("point %s to the server that takes the writes; otherwise %s", option.SourceURL, gapsExpireByAge)
		}
	}
	if proxy := f.proxy(); proxy != "" {
		r.Add(inspect.Warning, inspect.Proxied, "server", "is "+proxy+", which may send reads to another server than writes").
			Says("have it send the reads of this login to the server that takes the writes; otherwise %s", gapsExpireByAge)
	}
}

// proxy names what stands before the server, "" when nothing shows.
func (f *serverFacts) proxy() string {
	comment := strings.ToLower(f.variables["version_comment"] + f.variables["version"])
	for _, proxy := range []string{"ProxySQL", "Vitess", "MaxScale", "MyCat"} {
		if strings.Contains(comment, strings.ToLower(proxy)) {
			return proxy
		}
	}
	return ""
}

// usualLockWait is the longest innodb_lock_wait_timeout for the least hot time, 60 s.
const usualLockWait = 50 * time.Second

func (f *serverFacts) checkTimes(r *inspect.Report) {
	if seconds, err := strconv.Atoi(f.variables["innodb_lock_wait_timeout"]); err == nil {
		if wait := time.Duration(seconds) * time.Second; wait > usualLockWait {
			r.Add(inspect.Note, inspect.LockWait, "server", fmt.Sprintf("lets a statement wait %s for a lock (innodb_lock_wait_timeout)", wait)).
				Says("nothing has to be done; a missing id is looked for at every poll for %s instead of 1m0s", wait*6/5)
		}
	}
	if off := f.clock.Abs() - f.clockError; off > time.Second {
		direction := "ahead of"
		if f.clock < 0 {
			direction = "behind"
		}
		r.Add(inspect.Note, inspect.Clock, "server", fmt.Sprintf("has a clock that is %s %s this host's", f.clock.Abs().Round(100*time.Millisecond), direction)).
			Says("let both follow the same time server; rows are judged by the database's clock, latencies that a consumer computes are off by as much")
	}
}
