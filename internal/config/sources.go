package config

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/share"
	"example.org/bridge/source"
)

const (
	sourceVariable  = prefix + "SOURCE_URL"
	sourcesVariable = prefix + "SOURCES"
	sourceExample   = "mysql://user:password@host:3306/database"
)

// Source is a database to read.
type Source struct {
	// Name is one of BRIDGE_SOURCES, empty for that of BRIDGE_SOURCE_URL.
	Name string
	// Scheme is that of the URL.
	Scheme string
	driver.DatabaseTraits
	driver.Opener
	// Connections bounds those to the database; 0 does not.
	Connections int
}

// Sources are the databases to read, at least one: that of BRIDGE_SOURCE_URL, which has no name,
// and those of BRIDGE_SOURCES in their order. They tell which one a table is in, and what it is
// called there.
type Sources []Source

// Label names a source for people and in the names of outages: "source", or "source a".
func (s *Source) Label() string { return strings.TrimSuffix("source "+s.Name, " ") }

// Setting is that of the URL: SOURCE_URL, or SOURCE_A_URL.
func (s *Source) Setting() option.Name { return s.OwnName(option.SourceURL) }

// OwnName returns what a setting of the source is called: SOURCE_URL is SOURCE_A_URL for a. Others
// are those of the process.
func (s *Source) OwnName(name option.Name) option.Name {
	if s.Name == "" || name != option.SourceURL && name != option.SourceConnections {
		return name
	}
	return option.Name(strings.TrimPrefix(sourcePrefixOf(s.Name), prefix) + strings.TrimPrefix(string(name), "SOURCE_"))
}

func (s *Source) variable() string { return prefix + string(s.Setting()) }

func sourcePrefixOf(name string) string {
	return sourcePrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_"
}

func sourceVariables(source string) []Variable {
	return variablesOf(&sourceSettings{}, sourcePrefixOf(source), sourceGroup)
}

var sourceName = regexp.MustCompile(`^[a-z0-9_-]+$`)

// sourceNames returns the names of sources that are fit for use, and whether those are all. Their
// variables are those of the process from then on.
func (l *loader) sourceNames() (names []string, all bool) {
	text, set := l.env[sourcesVariable]
	var items list
	if err := items.UnmarshalText([]byte(text)); set && err != nil {
		// parse reports it.
		return nil, false
	}
	all = true
	prefixes := make(map[string]bool)
	for i, name := range items {
		switch begin := sourcePrefixOf(name); {
		case !sourceName.MatchString(name):
			l.add(sourcesVariable, "item %d is not a name of a source: use a-z, 0-9, _ and -", i+1)
			all = false
		case prefixes[begin]:
			l.add(sourcesVariable, "item %d has the name of another source, or the same variable %sURL: rename it", i+1, begin)
			all = false
		default:
			prefixes[begin] = true
			names = append(names, name)
		}
	}
	l.globals = slices.Clone(l.globalVariables())
	for _, name := range names {
		l.globals = append(l.globals, sourceVariables(name)...)
	}
	return names, all
}

// zone is BRIDGE_TIME_ZONE.
func (l *loader) sources(names []string, zone *time.Location, connections int) (all []Source) {
	for _, name := range append([]string{""}, names...) {
		s := Source{Name: name}
		variable := s.variable()
		text := l.env[variable]
		switch {
		case text == "" && name == "" && l.env[sourcesVariable] != "":
			continue
		case l.has(variable, variable+fileSuffix):
		case text == "" && name != "":
			l.add(variable, "is not set, and %s names the source: set it, as in %s", sourcesVariable, sourceExample)
		case text != "":
			if chosen, ok := choose(l, variable, text, sourceExample, l.Databases); ok {
				in := input{l, &s}
				s.Scheme = chosen.Scheme()
				s.Opener, s.DatabaseTraits = chosen.Load(&driver.Input{URL: text, TimeZone: zone, Environment: in})
			}
		}
		s.Connections = l.connections(&s, connections)
		all = append(all, s)
	}
	return all
}

// checkSources finds tables whose source is not known, or has no database for them, and sources
// without tables.
func (l *loader) checkSources(cfg *Config) {
	used, named := make(map[string]bool), l.env[sourcesVariable] != ""
	for _, s := range cfg.Streams {
		variable := StreamPrefix(s.Name) + "TABLE"
		for i, table := range s.items {
			src, name := cfg.SourceOf(table)
			known := slices.ContainsFunc(cfg.Sources, func(one Source) bool { return one.Name == src.Name })
			used[src.Name] = true
			switch of := src.variable(); {
			case !known && src.Name == "":
				l.add(variable, "has table %d without a source, and %s is not set: write one of %s before it, with a /", i+1, sourceVariable, sourcesVariable)
			case !known && source.IsPattern(src.Name):
				l.add(variable, "has a pattern in the source of table %d: a pattern is of one source, name it before the /", i+1)
			case !known:
				l.add(variable, "has table %d of a source that %s does not name: add it there, or correct what stands before the /", i+1, sourcesVariable)
			case !named && strings.Contains(name, "/"):
				l.warn(variable, "has a / in the name of a table: where a source stands before it, name it in %s", sourcesVariable)
			case src.Opener != nil && !src.Alone && src.Database == "" && !strings.Contains(name, ".") && !l.has(of):
				l.add(of, "names no database, and %sTABLE has a table without one: write %s, or db.table", StreamPrefix(s.Name), src.Example)
			}
		}
	}
	for i := range cfg.Sources {
		switch name := cfg.Sources[i].Name; {
		case used[name] || !named || slices.ContainsFunc(cfg.Streams, func(s Stream) bool { return s.items == nil }):
		case name == "":
			l.add(sourceVariable, "is the source without a name, and no table of a stream is without one: name one, or unset it")
		default:
			l.add(sourcesVariable, "names the source %s, of which no stream has a table: name one as %s/table, or remove it", name, name)
		}
	}
}

// SourceOf returns the source of a table, and what the table is called there. It returns a source
// that is not one of them where the name is unknown.
func (all Sources) SourceOf(table string) (s *Source, name string) {
	of, rest, found := strings.Cut(table, "/")
	if !found || len(all) == 1 && all[0].Name == "" {
		of, rest = "", table
	}
	for i := range all {
		if all[i].Name == of {
			return &all[i], rest
		}
	}
	return &Source{Name: of}, rest
}

// cutSource splits a name into what may be a source and the rest.
func cutSource(table string) (source, rest string) {
	if of, rest, found := strings.Cut(table, "/"); found && sourceName.MatchString(of) {
		return of, rest
	}
	return "", table
}

// SameTable reports whether two names of tables differ in their source, and may else be one table:
// either may leave out its database.
func SameTable(a, b string) bool {
	ofA, a := cutSource(a)
	ofB, b := cutSource(b)
	nameOf := func(table string) string { return table[strings.LastIndex(table, ".")+1:] }
	return ofA != ofB && (a == b || nameOf(a) == nameOf(b) && strings.Contains(a, ".") != strings.Contains(b, "."))
}

// OneTable reports whether two names lead to one table: with and without its database, or in upper
// and lower case, which MySQL may tell apart.
func (all Sources) OneTable(a, b string) bool {
	ofA, a := all.physical(a)
	ofB, b := all.physical(b)
	return strings.EqualFold(ofA+"."+a, ofB+"."+b)
}

// SourceHint says which variable makes a table have its name.
func SourceHint(table string) string {
	if of, _ := cutSource(table); of != "" {
		return of + " in " + sourcesVariable
	}
	return "its server in " + sourceVariable
}

// TablesOf returns the tables of a stream that are in a source.
func (all Sources) TablesOf(s *Stream, of *Source) (tables []string) {
	for _, table := range s.Tables {
		if src, _ := all.SourceOf(table); src.Name == of.Name {
			tables = append(tables, table)
		}
	}
	return tables
}

// SharedDatabase returns the name of a database that two sources both have tables in, if they lead
// to one server, empty where there is none. A server may take names in any case, and a file may
// have several names.
func (c *Config) SharedDatabase(a, b *Source) string {
	if a.Alone && b.Alone && a.Scheme == b.Scheme {
		return a.Database
	}
	of := func(one *Source) map[string]string {
		names := make(map[string]string)
		for i := range c.Streams {
			for _, table := range c.TablesOf(&c.Streams[i], one) {
				database, _ := c.physical(table)
				database = strings.TrimPrefix(database, one.Name+"/")
				names[strings.ToLower(database)] = database
			}
		}
		return names
	}
	first, second := of(a), of(b)
	for _, name := range slices.Sorted(maps.Keys(first)) {
		if second[name] != "" {
			return first[name]
		}
	}
	return ""
}

// physical splits a table as configured into its database, behind the name of its source, and its
// name: no other table has both.
func (all Sources) physical(table string) (database, name string) {
	s, rest := all.SourceOf(table)
	database, name, qualified := strings.Cut(rest, ".")
	if !qualified {
		name = rest
	}
	if !qualified || s.Alone {
		// Every file calls its database main.
		database = s.Database
	}
	if s.Name != "" {
		database = s.Name + "/" + database
	}
	return database, name
}

const shareVariable = prefix + "SHARE"

// Share is the part of the tables that a process works on; without shares it is all.
type Share struct {
	share.Share
	// alone says that the streams have those tables alone.
	alone bool
}

// setShare checks BRIDGE_SHARE, and gives the share a folder of its own.
func setShare(c *Config, l *loader, text string, onBus bool) {
	if text == "" {
		return
	}
	s, err := share.Parse(text)
	switch {
	case err != nil:
		l.add(shareVariable, "%v", err)
	case !onBus && !l.has(checkpointVariable):
		l.add(shareVariable, "is set, and %s is not bus:, by which a table keeps its progress when the number of shares changes: set it to bus:, or bus:///path for a folder", checkpointVariable)
	default:
		c.Share.Share, c.CheckpointPath = s, filepath.Join(c.CheckpointPath, s.Name())
	}
}

// Placed returns the name by which a table of a stream is in a share: empty for a stream that is in
// one as a whole, because its entities may move between its tables.
func (s *Stream) Placed(table string) string {
	if s.Kind == event.Capability && len(s.Key) > 0 {
		return ""
	}
	return table
}

// Owns reports whether a table of a stream is one to work on. All are before OfShare.
func (s *Share) Owns(of *Stream, table string) bool {
	return !s.alone || s.Has(of.Name, of.Placed(table))
}

func (s *Share) owned(of *Stream, tables []string) []string {
	if !s.alone {
		return tables
	}
	return slices.DeleteFunc(slices.Clone(tables), func(table string) bool { return !s.Owns(of, table) })
}

// OfShare returns the configuration of the share: with its tables alone, and without streams of
// which it has none and can get none.
func OfShare(c *Config) *Config {
	if !c.Share.One() || c.Share.alone {
		return c
	}
	own := c.Part(nil)
	own.Share.alone = true
	for i := range c.Streams {
		s := c.Streams[i]
		s.Tables = own.Share.owned(&s, s.Tables)
		if len(s.Tables) > 0 || len(s.Patterns) > 0 && (s.Placed("t") != "" || own.Share.Owns(&s, "")) {
			own.Streams = append(own.Streams, s)
		}
	}
	return own
}

// Part returns the configuration of a process that works on these streams alone. What is asked of
// the whole one stays.
func (c *Config) Part(streams []Stream) *Config {
	part := *c
	part.Streams, part.all = streams, whole(c)
	return &part
}

func whole(c *Config) []Stream {
	if c.all != nil {
		return c.all
	}
	return c.Streams
}
