package mysql

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
)

// serverFacts is what a login with SELECT can see of a server.
type serverFacts struct {
	variables map[string]string
	// clock is how far the database's clock is ahead of this host's, give or take clockError.
	clock, clockError time.Duration
	// zone is the offset from UTC of the zone in which the server writes times without one, in
	// seconds as a duration; nil when it does not tell.
	zone *time.Duration
	// channel says whether the server copies from another one, sawReplication that the login may
	// see it.
	channel        channelState
	sawReplication bool
}

// product names the server.
func (f *serverFacts) product() string {
	version := f.variables["version"]
	switch {
	case isTiDB(f.variables):
		return "TiDB " + version
	case isOceanBase(f.variables):
		return "OceanBase " + version
	case strings.Contains(version, "MariaDB"):
		number, _, _ := strings.Cut(version, "-")
		return "MariaDB " + number
	}
	return "MySQL " + version
}

// role says what is known of the server's part among others.
func (f *serverFacts) role() string {
	switch {
	case f.stoppedChannel() != "":
		return "counts as a replica: it " + f.stoppedChannel()
	case f.channel == channelRuns:
		return "a replica"
	case f.readOnly() != "":
		return "read-only"
	case isGalera(f.variables), isMultiPrimary(f.variables):
		return "one of several that take writes"
	case f.sawReplication:
		return "takes the writes"
	}
	return "takes writes (this login may not see whether it copies from another server; " + replicaGrant + ")"
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

const timeDecides = "what commits late is then found by time alone: a missing id is looked for for a minute at every poll, then once a minute until GAP_TTL; an update that commits more than 10 s after it began waits for reconcile"

// checkServer adds the findings that concern all tables.
func (f *serverFacts) checkServer(r *inspect.Report) {
	f.checkIDs(r)
	f.checkServerRole(r)
	f.checkTimes(r)
	f.checkFlush(r)
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
		if v["log_bin"] == "OFF" && !isGalera(v) && !isTiDB(v) && !isOceanBase(v) && f.channel == channelNone {
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
	v := f.variables
	step := v["auto_increment_increment"]
	switch {
	case isTiDB(v), isOceanBase(v):
		r.Add(inspect.Warning, inspect.Blocks, "server", "is "+f.product()+", whose servers may hold blocks of ids and does not show uncommitted rows").
			Says("a row may come hours after higher ids; such ids are looked for until GAP_TTL. A table with AUTO_ID_CACHE=1 (TiDB, which takes it in " +
				"CREATE TABLE and not in ALTER TABLE) or AUTO_INCREMENT_MODE='ORDER' (OceanBase) has one counter: set ID_ORDER=strict for it")
		if isOceanBase(v) {
			r.Findings[len(r.Findings)-1].Statement = "ALTER TABLE <table> AUTO_INCREMENT_MODE = 'ORDER';"
		}
	case isGalera(v):
		r.Add(inspect.Warning, inspect.Stride, "server", "is a node of a Galera cluster: the nodes interleave their ids, and this one does not show what is uncommitted on others").
			Says("nothing has to be done; %s", timeDecides)
	case isMultiPrimary(v):
		r.Add(inspect.Warning, inspect.Stride, "server", "is a member of a multi-primary group: the members interleave their ids, and this one does not show what is uncommitted on others").
			Says("nothing has to be done; %s", timeDecides)
	case step != "" && step != "1":
		r.Add(inspect.Warning, inspect.Stride, "server", "hands out every "+ordinal(step)+" id (auto_increment_increment), which leaves a gap at each row").
			Says("where no other server hands out the ids between, let an administrator run").
			Types("SET GLOBAL auto_increment_increment = 1, GLOBAL auto_increment_offset = 1;")
	}
}

func ordinal(number string) string {
	switch {
	case strings.HasSuffix(number, "1") && number != "11":
		return number + "st"
	case strings.HasSuffix(number, "2") && number != "12":
		return number + "nd"
	case strings.HasSuffix(number, "3") && number != "13":
		return number + "rd"
	}
	return number + "th"
}

func (f *serverFacts) checkServerRole(r *inspect.Report) {
	what := ""
	switch variable := f.readOnly(); {
	case f.stoppedChannel() != "" && variable == "":
		r.Add(inspect.Warning, inspect.Replica, "server", f.stoppedChannel()+", so it counts as a replica that may lag: "+
			"what is uncommitted on it counts for nothing, and a row that vanished is not published as deleted").
			Says("point %s to the server that takes the writes; if it is this one since it was promoted, let an administrator run", option.SourceURL).
			Types("%s", f.removeChannels())
	case f.channel != channelNone:
		what = "is a replica: it does not show what is uncommitted on the server that takes the writes, and may lag behind it, so that a row that vanished is not published as deleted"
	case variable != "":
		what = "takes no writes (" + variable + " is on), so it is a replica or stands still: what is uncommitted on the server that takes the writes does not show here, and a row that vanished is not published as deleted"
	}
	if what != "" {
		r.Add(inspect.Warning, inspect.Replica, "server", what).
			Says("point %s to the server that takes the writes; otherwise %s", option.SourceURL, timeDecides)
	}
	if proxy := f.proxy(); proxy != "" {
		r.Add(inspect.Warning, inspect.Proxied, "server", "is "+proxy+", which may send reads to another server than writes").
			Says("have it send the reads of this login to the server that takes the writes; otherwise %s", timeDecides)
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

// usualLockWait is the longest innodb_lock_wait_timeout that fits into the least hot time of a
// vacant id, 60 s.
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

// checkID looks at the id column and reports whether its ids can be compared with a position.
func (t *tableInspection) checkID(id tableColumn) bool {
	if !isID(id.columnType) {
		t.Add(inspect.Unsafe, inspect.IDType, t.spec.Table, fmt.Sprintf("has the id column %s of type %s, which is not an integer", id.name, id.columnType)).
			Says("name the integer column that counts up with %s", option.ID)
		return false
	}
	index := uniqueColumns(t.facts.indexes)[strings.ToLower(id.name)]
	refused := refusesUnique(t.facts.create, id.name)
	switch {
	case t.facts.unproved:
		f := t.Add(inspect.Warning, inspect.IDUnproved, t.spec.Table, fmt.Sprintf("has no unique index over its id column %s alone, so that nothing but AUTO_INCREMENT keeps ids from coming twice: a row that is written with an id of its own may have that of another one", id.name)).
			Says("nothing where the database numbers all rows; an id that comes twice stops the stream, or its reconcile where it is below the position")
		if refused == "" && t.facts.create != "" {
			f.Says("nothing where the database numbers all rows; an id that comes twice stops the stream, or its reconcile where it is below the position. "+
				"To be sure let an administrator run").Types("%s;", t.addUnique(id.name))
		}
	case index == "" && refused != "":
		t.Add(inspect.Unsafe, inspect.IDNotUnique, t.spec.Table, fmt.Sprintf("has no unique index over its id column %s alone, and %s", id.name, refused)).
			Says("name another column with %s, or let an administrator make %s AUTO_INCREMENT and the first column of the primary key", option.ID, id.name)
	case index == "":
		t.Add(inspect.Unsafe, inspect.IDNotUnique, t.spec.Table, fmt.Sprintf("has no unique index over its id column %s alone", id.name)).
			Says("name another column with %s, or let an administrator run", option.ID).Types("%s;", t.addUnique(id.name))
	case index != "PRIMARY":
		f := t.Add(inspect.Warning, inspect.IDNotPrimary, t.spec.Table, fmt.Sprintf("has the id column %s that is not its primary key, so uncommitted rows do not show reliably", id.name)).
			Says("nothing has to be done; %s", timeDecides)
		if refused == "" && !slices.ContainsFunc(t.facts.indexes, func(i tableIndex) bool { return i.name == "PRIMARY" }) {
			f.Says("let an administrator run").Types("ALTER TABLE %s ADD PRIMARY KEY (%s);", t.table.quoted(), quoteName(id.name))
		}
	}
	if id.nullable {
		f := t.Add(inspect.Unsafe, inspect.IDNull, t.spec.Table, fmt.Sprintf("has the id column %s that may be NULL", id.name)).
			Says("let an administrator make it NOT NULL")
		if definition := notNull(definitionOf(t.facts.create, id.name)); definition != "" {
			f.Types("ALTER TABLE %s MODIFY %s;", t.table.quoted(), definition)
		}
	}
	return index != ""
}

func (t *tableInspection) checkNegative(lowest string) {
	t.Add(inspect.Warning, inspect.IDNegative, t.spec.Table, "has rows with ids from "+lowest+": rows below id 1 are not read").
		Says("give these rows ids above 0 if they are to be published")
}

// checkKeyIndex looks whether every entity is a single row.
func (t *tableInspection) checkKeyIndex() {
	if !t.spec.UniqueKey || len(t.spec.Key) == 0 {
		return
	}
	for _, key := range t.spec.Key {
		if column, _ := t.facts.column(key); isFloat(column.columnType) {
			t.Add(inspect.Unsafe, inspect.KeyType, t.spec.Table, fmt.Sprintf("has the KEY column %s of type %s, an approximate number, which identifies nothing", column.name, column.columnType)).
				Says("name other columns with %s, or let an administrator make it DECIMAL", option.Key)
			return
		}
	}
	proof, fault := keyIndex(t.facts.indexes, t.facts.columns, t.spec.Key)
	if fault == "" {
		t.checkProof(proof)
		if null := proof.nullKey(t.facts.columns); len(null) > 0 {
			t.Add(inspect.Note, inspect.KeyNull, t.spec.Table, fmt.Sprintf("has a KEY whose column %s may be NULL: rows with NULL there are not published, as they are no single rows", strings.Join(null, ", "))).
				Says("nothing where there are none; %s=stop stops at the first", option.OnBadValue)
		}
		return
	}
	if refused := refusesUnique(t.facts.create, t.spec.Key...); refused != "" && !t.isUnique(t.spec.Key) {
		t.Add(inspect.Unsafe, inspect.KeyNotUnique, t.spec.Table, fmt.Sprintf("has %s over its KEY (%s): an entity must be a single row, and %s", fault, strings.Join(t.spec.Key, ", "), refused)).
			Says("name these columns with %s, too, or those of another unique index", option.Key)
		return
	}
	f := t.Add(inspect.Unsafe, inspect.KeyNotUnique, t.spec.Table, fmt.Sprintf("has %s over its KEY (%s): an entity must be a single row", fault, strings.Join(t.spec.Key, ", "))).
		Says("name the columns of a unique index with %s, or let an administrator run", option.Key)
	if statement := t.uniqueKeyStatement(); statement != "" {
		f.Types("%s;", statement)
	} else {
		f.Says("name the columns of a unique index with %s, or let an administrator add one; TEXT and BLOB columns need a length there", option.Key)
	}
}

// checkProof warns of a unique index that the server checks but does not read by.
func (t *tableInspection) checkProof(proof *tableIndex) {
	if proof.usable() {
		return
	}
	why := "is a hash, by which nothing can be read"
	if proof.ignored {
		why = "is ignored by the server"
	}
	t.Add(inspect.Warning, inspect.KeyIndex, t.spec.Table, fmt.Sprintf("has a KEY (%s) whose unique index %s %s: a lookup by key, as reconcile does, reads the whole table", strings.Join(t.spec.Key, ", "), proof.name, why)).
		Says("let an administrator make the index visible, or add a unique one over columns with a length")
}

// uniqueKeyStatement returns the statement that makes KEY identify single rows, "" when none can be
// given.
func (t *tableInspection) uniqueKeyStatement() string {
	var clauses, columns []string
	for _, key := range t.spec.Key {
		column, ok := t.facts.column(key)
		if !ok {
			return ""
		}
		columns = append(columns, quoteName(column.name))
		kind := strings.ToLower(column.columnType)
		if strings.HasSuffix(kind, "text") || strings.HasSuffix(kind, "blob") || kind == "json" {
			return ""
		}
		if column.nullable {
			definition := notNull(definitionOf(t.facts.create, column.name))
			if definition == "" {
				return ""
			}
			clauses = append(clauses, "MODIFY "+definition)
		}
	}
	if !t.isUnique(t.spec.Key) {
		clauses = append(clauses, "ADD UNIQUE KEY ("+strings.Join(columns, ", ")+")")
	}
	return "ALTER TABLE " + t.table.quoted() + " " + strings.Join(clauses, ", ")
}

// isUnique reports whether a unique index lies within key, whether or not its columns may be NULL.
func (t *tableInspection) isUnique(key []string) bool {
	return slices.ContainsFunc(t.facts.indexes, func(i tableIndex) bool {
		covered, _ := i.over(t.facts.columns, key)
		return i.unique && covered
	})
}

// checkModified looks for the column and the index that the tail of updates goes by.
func (t *tableInspection) checkModified() {
	t.expected.CheckNoModified(&t.Report, t.spec.ModifiedCandidates(t.times()))
	if t.spec.Modified == "" || !t.expected.Updates {
		return
	}
	if modifiedIndex(t.facts.indexes, t.spec) != "" {
		return
	}
	t.Add(inspect.Warning, inspect.ModifiedIndex, t.spec.Table, "has no index that begins with MODIFIED ("+t.spec.Modified+"): updates and soft deletes wait for the next reconcile").
		Says("to have them within a second let an administrator run").
		Types("%s;", t.createModifiedIndex())
}

// times returns the columns that MODIFIED could name.
func (t *tableInspection) times() (times []source.Candidate) {
	for _, column := range t.facts.columns {
		if kind, _ := parseType(column.columnType); kind != source.DateTime && kind != source.Timestamp {
			continue
		}
		as := t.tableSpec
		as.spec.Modified = column.name
		c := source.Candidate{Name: column.name, Sure: column.moves}
		if modifiedIndex(t.facts.indexes, as.spec) == "" {
			c.CreateIndex = as.createModifiedIndex() + ";"
		}
		times = append(times, c)
	}
	return times
}

// definitionOf returns the definition of a column as SHOW CREATE TABLE writes it, "" when it is not
// there.
func definitionOf(create, column string) string {
	for line := range strings.Lines(create) {
		line = strings.TrimSuffix(strings.TrimSpace(line), ",")
		if strings.HasPrefix(line, quoteName(column)+" ") {
			return line
		}
	}
	return ""
}

var (
	timeType    = regexp.MustCompile("(?i)^(`(?:[^`]|``)+` (?:datetime|timestamp))(\\(\\d\\))?")
	currentTime = regexp.MustCompile(`(?i)\bcurrent_timestamp(\(\d?\))?`)
	// attributes are where NOT NULL can stand before.
	attributes = regexp.MustCompile(` (?:DEFAULT|AUTO_INCREMENT|COMMENT|CHECK) `)
)

// finer returns the definition of a time column with microseconds, "" when it is none.
func finer(definition string) string {
	if !timeType.MatchString(definition) {
		return ""
	}
	definition, comment, commented := strings.Cut(definition, " COMMENT '")
	definition = timeType.ReplaceAllString(definition, "${1}(6)")
	definition = currentTime.ReplaceAllString(definition, "CURRENT_TIMESTAMP(6)")
	if commented {
		definition += " COMMENT '" + comment
	}
	return definition
}

// notNull returns the definition of a column that may be NULL as one that may not.
func notNull(definition string) string {
	if definition == "" {
		return ""
	}
	definition, comment, commented := strings.Cut(definition, " COMMENT '")
	for _, null := range []string{" NULL DEFAULT NULL", " DEFAULT NULL", " NULL"} {
		if before, after, found := strings.Cut(definition, null); found {
			definition = before + after
			break
		}
	}
	at := len(definition)
	if found := attributes.FindStringIndex(definition + " "); found != nil {
		at = found[0]
	}
	definition = definition[:at] + " NOT NULL" + definition[at:]
	if commented {
		definition += " COMMENT '" + comment
	}
	return definition
}
