package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/bus"
	"example.org/bridge/event"
	"example.org/bridge/internal/driver"
	"example.org/bridge/source"
)

// stream checks the variables of one stream. Its tuning is global where the stream has none of its
// own.
func (l *loader) stream(name string, global Tuning, cfg *Config) Stream {
	begin := StreamPrefix(name)
	s := Stream{Name: name, Tuning: global}
	l.parse(&s.streamSettings, begin, false)
	l.parse(&s.Tuning, begin, true)

	s.setTables(l.tables(begin+"TABLE", s.Table))
	s.Fields = l.fields(begin+"FIELDS", s.Members, s.Kind)
	s.Deleted, s.Deletion = parseDeletion(l, begin+"DELETED", s.Gone)
	l.eventTypes(begin, &s)
	if _, ok := event.ParseVersion(s.Version); !ok {
		l.add(begin+"EVENT_VERSION", "invalid version: use three numbers with dots, as in 1.0.0")
	}
	l.columns(begin, &s)
	s.Masks = parseMasks(l, begin, s.Mask)
	checkHidden(l, begin, &s)
	if s.Filter != "" {
		if err := source.CheckFilter(s.Filter); err != nil {
			l.add(begin+"FILTER", "%s", err)
		}
	}
	warnOfTombstones(l, begin, &s, cfg)
	l.contradictions(begin, &s)
	l.checkRate(begin, &s)
	l.payload(begin, &s, cfg)
	l.checkStale(begin, &s)
	if src := cfg.alone(s.items); src != nil && l.env[begin+"TIME_ZONE"] != "" {
		l.warn(begin+"TIME_ZONE", "has no effect with the source %s:, where %sTIME_ZONE holds for the whole file", src.Scheme, prefix)
	}
	l.destination(begin, &s, cfg)
	l.deadLetter(begin, &s, cfg)
	return s
}

func (l *loader) tables(variable, pattern string) []string {
	if pattern == "" || l.has(variable) {
		return nil
	}
	tables, err := source.ExpandTables(pattern)
	if err != nil {
		l.add(variable, "%s", unquoted(err, pattern))
	}
	return tables
}

// quotation finds what an error may quote: text in quotes and in braces.
var quotation = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\{[^{}]*\}`)

// unquoted returns the text of err without what it quotes of value, apart from numbers and single
// characters.
func unquoted(err error, value string) string {
	return quotation.ReplaceAllStringFunc(err.Error(), func(quote string) string {
		text := quote[1 : len(quote)-1]
		if quote[0] == '"' {
			if plain, err := strconv.Unquote(quote); err == nil {
				text = plain
			}
		}
		if len(text) > 2 && strings.Contains(value, text) && strings.Trim(text, "0123456789.{}") != "" {
			return "…"
		}
		return quote
	})
}

// fields parses FIELDS: column:member or column.
func (l *loader) fields(variable string, items list, kind event.Kind) []event.Field {
	var fields []event.Field
	has := func(same func(event.Field) bool) bool { return slices.ContainsFunc(fields, same) }
	for i, item := range items {
		column, member, named := strings.Cut(item, ":")
		column, member = strings.TrimSpace(column), strings.TrimSpace(member)
		switch {
		case column == "" || named && member == "":
			l.add(variable, "item %d has no column or no member: write column:member, or column alone", i+1)
		case !utf8.ValidString(item):
			l.add(variable, "item %d is not valid UTF-8: write it in UTF-8", i+1)
		case member == "row" || member == "reason" && kind != event.Release:
			l.add(variable, "item %d has the member row or reason, which bridge adds to events itself: choose another name", i+1)
		case named && has(func(f event.Field) bool { return f.Member == member }):
			l.add(variable, "item %d has the member of an earlier item: give each column a member of its own", i+1)
		case has(func(f event.Field) bool { return strings.EqualFold(f.Column, column) }):
			l.add(variable, "item %d has the column of an earlier item: name each column once", i+1)
		}
		fields = append(fields, event.Field{Column: column, Member: member})
	}
	return fields
}

// columns checks the names of the columns that play a role.
func (l *loader) columns(begin string, s *Stream) {
	for _, column := range []struct{ variable, name string }{
		{"ID", s.ID}, {"CREATED", s.Created}, {"MODIFIED", s.Modified}, {"DELETED", s.Deleted},
	} {
		if !isColumn(column.name) {
			l.add(begin+column.variable, "invalid column name: write one name without control characters, of at most 64 characters")
		}
	}
	for i, column := range s.Key {
		switch {
		case !isColumn(column):
			l.add(begin+"KEY", "item %d is not a column name: write names without control characters, of at most 64 characters", i+1)
		case slices.Contains(s.Key[:i], column):
			l.add(begin+"KEY", "item %d has the column of an earlier item: name each column once", i+1)
		}
	}
}

func isColumn(name string) bool {
	return utf8.ValidString(name) && utf8.RuneCountInString(name) <= 64 && !strings.ContainsFunc(name, unicode.IsControl)
}

// contradictions finds settings of one stream that exclude one another.
func (l *loader) contradictions(begin string, s *Stream) {
	if s.GapPolicy == "hold" && s.IDOrder == "segmented" {
		variable := begin + "GAP_POLICY"
		if l.env[variable] == "" && l.env[begin+"ID_ORDER"] == "" {
			variable = prefix + "GAP_POLICY"
		}
		l.add(variable, "is hold, but ID_ORDER is segmented, where a gap may stay open for hours: use late")
	}
	l.keyInFields(begin, s)
	if s.Kind == event.Release && s.Deleted != "" {
		l.warn(begin+"DELETED", "has no effect on a release stream: each row of it is a fact")
	}
}

// checkStale finds what keeps rows from expiring, or from being found soon.
func (l *loader) checkStale(begin string, s *Stream) {
	variable := begin + "STALE_AFTER"
	switch {
	case s.StaleAfter == 0 || l.has(variable):
	case s.Kind == event.Release:
		l.add(variable, "is for capability streams: each row of a release stream is a fact, which does not expire")
	case s.Modified == "":
		l.add(variable, "needs the column that says when a row was touched last: set %sMODIFIED", begin)
	case s.ReconcileInterval > s.StaleAfter:
		l.warn(variable, "is %s, and a reconcile finds the rows up to %s later: set %sRECONCILE_INTERVAL=%s, say", s.StaleAfter, s.ReconcileInterval, begin, max(time.Second, s.StaleAfter/10))
	}
}

// keyInFields finds a key column that FIELDS leaves out: a deleted event carries the key and
// nothing else.
func (l *loader) keyInFields(begin string, s *Stream) {
	if s.Fields == nil || s.Kind != event.Capability {
		return
	}
	for i, column := range s.Key {
		published := slices.ContainsFunc(s.Fields, func(f event.Field) bool { return strings.EqualFold(f.Column, column) })
		if !published && !strings.EqualFold(column, s.ID) {
			l.add(begin+"FIELDS", "leaves out item %d of %sKEY, without which a deleted event does not say what was deleted: add it", i+1, begin)
		}
	}
}

// destination checks the template, or sets the default of the sink.
func (l *loader) destination(begin string, s *Stream, cfg *Config) {
	variable := begin + "DESTINATION"
	to := cfg.Sink.Destinations
	if to.Parse == nil {
		// The sink is at fault.
		to = driver.Labels
	}
	s.Destination = cmp.Or(s.Destination, to.Default)
	template, err := to.Parse(s.Destination)
	if err != nil {
		l.add(variable, "%s", unquoted(err, s.Destination))
		return
	}
	s.template = template
	l.destinations(begin, s, cfg)
	unnamed := func(table string) bool { src, _ := cfg.SourceOf(table); return src.Name == "" }
	if i := slices.IndexFunc(s.items, unnamed); i >= 0 && template.Uses("source") {
		l.add(variable, "has {source}, and table %d of %sTABLE is of the source without a name: name the source in %s, or leave {source} out", i+1, begin, sourcesVariable)
		return
	}
	if to.Topics && len(template.Columns()) == 0 {
		l.topics(variable, s, cfg)
	}
}

// topics checks the topics that a template makes: all they depend on is known.
func (l *loader) topics(variable string, s *Stream, cfg *Config) {
	for _, item := range s.items {
		topic := cfg.Destination(s, sample(item))
		if bus.CheckTopic(topic) != nil {
			l.add(variable, "makes a name that no Kafka topic can have: see to 1 to 249 letters, digits and . _ - with FAMILY, TAG, BRIDGE_DOMAIN_ID and TABLE filled in")
			return
		}
		if topic == s.DeadLetter {
			l.add(variable, "leads to the topic of DEAD_LETTER: use different topics")
			return
		}
	}
}

// deadLetter checks the destination of rejected messages.
func (l *loader) deadLetter(begin string, s *Stream, cfg *Config) {
	variable := begin + "DEAD_LETTER"
	if l.env[variable] == "" {
		variable = prefix + "DEAD_LETTER"
	}
	if check := cfg.Sink.Destinations.Check; check != nil && s.DeadLetter != "" {
		if err := check(s.DeadLetter); err != nil {
			l.add(variable, "%s", unquoted(err, s.DeadLetter))
		}
	}
}

// checkTables finds a table that a stream has twice under different names.
func (l *loader) checkTables(cfg *Config) {
	for _, s := range cfg.Streams {
		known := make(map[string]bool)
		for _, table := range s.Tables {
			database, name := cfg.physical(table)
			if full := database + "." + name; known[full] {
				l.add(StreamPrefix(s.Name)+"TABLE", "names one table twice, with and without its database: name it once")
				break
			} else {
				known[full] = true
			}
		}
	}
}

// Stream returns the stream with this name, nil where there is none.
func (c *Config) Stream(name string) *Stream {
	for i := range c.Streams {
		if c.Streams[i].Name == name {
			return &c.Streams[i]
		}
	}
	return nil
}

// StreamNames returns the names of all streams in their order.
func (c *Config) StreamNames() []string {
	names := make([]string, len(c.Streams))
	for i := range c.Streams {
		names[i] = c.Streams[i].Name
	}
	return names
}

// Order is empty where the server is to be asked.
func (s *Stream) Order() source.IDOrder {
	if s.IDOrder == "auto" {
		return ""
	}
	return source.IDOrder(s.IDOrder)
}

// Encoder returns the encoder of the events of a table.
func (c *Config) Encoder(s *Stream, table string) (*event.Encoder, error) {
	database, name := c.physical(table)
	return event.NewEncoder(event.Options{
		Stream: s.Name, Shard: table, Kind: s.Kind, Stem: s.Event, Version: s.Version, Format: s.Format, Names: s.EventNames, Fields: s.Fields, Exclude: s.Exclude, Payload: s.payloadOf(),
		Domain: c.DomainID, Source: database, Table: name,
		Zone: s.TimeZone.Location, BadValue: event.BadValue(s.OnBadValue), Deletion: s.Deletion,
	})
}

// Spec says what to read of a table.
func (s *Stream) Spec(table string) source.Spec {
	spec := source.Spec{
		Table: table, ID: s.ID, Key: s.Key, Created: s.Created, Modified: s.Modified, Deleted: s.Deleted,
		// The rows of a release stream are facts: several may share a key.
		UniqueKey: s.Kind == event.Capability,
		Exclude:   s.Exclude, Masks: s.Masks, Filter: s.Filter,
		StaleAfter: s.StaleAfter, Zone: s.TimeZone.Location,
	}
	for _, f := range s.Fields {
		spec.Fields = append(spec.Fields, f.Column)
	}
	if p := s.payloadOf(); p != nil {
		spec.Fields = p.Columns()
	}
	return spec
}

// Meaning is what the saved state of a table depends on. What else a stream has may change: FIELDS,
// FILTER, DELETED, CREATED and MODIFIED decide what is published of a row, which the next reconcile
// compares.
func (c *Config) Meaning(s *Stream, table string) *store.Meaning {
	database, name := c.physical(table)
	key := s.Key
	if len(key) == 0 {
		key = []string{s.ID}
	}
	return &store.Meaning{Kind: string(s.Kind), Table: database + "." + name, ID: s.ID, Key: key}
}

// parseDeletion parses DELETED: column, column=value|value or column!=value|value.
func parseDeletion(l *loader, variable, text string) (column string, d event.Deletion) {
	column, values, named := strings.Cut(text, "=")
	if !named {
		return text, d
	}
	column, d.Except = strings.CutSuffix(column, "!")
	column = strings.TrimSpace(column)
	for i, value := range strings.Split(values, "|") {
		value = strings.TrimSpace(value)
		if value == "" || !utf8.ValidString(value) {
			l.add(variable, "value %d is empty or not valid UTF-8: write column=value, or column=value|value", i+1)
		}
		d.Values = append(d.Values, value)
	}
	if column == "" {
		l.add(variable, "names values and no column: write column=value")
	}
	return column, d
}

// deletionText returns DELETED of a stream.
func deletionText(s *Stream) string {
	sign := "="
	switch {
	case len(s.Deletion.Values) == 0:
		return s.Deleted
	case s.Deletion.Except:
		sign = "!="
	}
	return s.Deleted + sign + strings.Join(s.Deletion.Values, "|")
}

// eventTypes checks EVENT and EVENT_NAMES and puts the names into s.
func (l *loader) eventTypes(begin string, s *Stream) {
	// The default is made of the words of the stream's name.
	if words := strings.ReplaceAll(s.Name, "_", ""); s.Event != "" {
		l.eventType(begin+"EVENT", "", s.Event)
	} else if words == "" || !isAlpha(rune(words[0])) || isEiffel(words) {
		l.add(begin+"EVENT", "is not set, and the stream's name makes no event type: set a stem that begins with a letter and not with Eiffel")
	}
	if l.has(begin + "KIND") {
		return
	}
	for i, item := range s.Names {
		l.eventName(begin+"EVENT_NAMES", item, i+1, s)
	}
	if deleted := s.EventNames[event.Deleted]; deleted != "" && (deleted == s.EventNames[event.Added] || deleted == s.EventNames[event.Modified]) {
		l.add(begin+"EVENT_NAMES", "gives deleted the name of another operation, which consumers could not tell apart: choose another name")
	}
}

// eventName parses one operation:name of EVENT_NAMES into s; number tells which item it is.
func (l *loader) eventName(variable, item string, number int, s *Stream) {
	operations := []event.Op{event.Added, event.Modified, event.Deleted}
	allowed := "added, modified and deleted"
	if s.Kind == event.Release {
		operations, allowed = []event.Op{event.Published}, "published"
	}
	operation, name, named := strings.Cut(item, ":")
	op := event.Op(strings.ToLower(strings.TrimSpace(operation)))
	name = strings.TrimSpace(name)
	_, twice := s.EventNames[op]
	switch {
	case !named || name == "":
		l.add(variable, "item %d has no name: write operation:name, as in added:OrderAddedMessage", number)
	case !slices.Contains(operations, op):
		l.add(variable, "item %d has no operation of a %s stream: use %s", number, s.Kind, allowed)
	case twice:
		l.add(variable, "item %d names an operation a second time: name each once", number)
	default:
		l.eventType(variable, fmt.Sprintf("item %d ", number), name)
		if s.EventNames == nil {
			s.EventNames = map[event.Op]string{}
		}
		s.EventNames[op] = name
	}
}

// eventType checks a name, or the stem of one. The Eiffel protocol keeps types that begin with its
// name for itself.
func (l *loader) eventType(variable, where, name string) {
	if isEiffel(name) {
		l.add(variable, "%sbegins with Eiffel, which the Eiffel protocol keeps for its own events: choose another name", where)
	} else if !isStreamName(name) || !isAlpha(rune(name[0])) {
		l.add(variable, "%sis no event type: use letters, digits and _, a letter first", where)
	}
}

func isEiffel(name string) bool {
	return len(name) >= len("eiffel") && strings.EqualFold(name[:len("eiffel")], "eiffel")
}
