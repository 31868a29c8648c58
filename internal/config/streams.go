package config

import (
	"cmp"
	"fmt"
	"maps"
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

// streamLoader checks the variables of one stream, whose names begin with begin.
type streamLoader struct {
	*loader
	cfg   *Config
	begin string
	// stream has the tuning of the process, which holds where the stream has none of its own.
	stream *Stream
}

func (l *streamLoader) load() Stream {
	s := l.stream
	l.parse(&s.streamSettings, l.begin, false)
	l.parse(&s.Tuning, l.begin, true)

	if table := l.begin + "TABLE"; s.Table != "" && !l.has(table) {
		items, err := source.ExpandTables(s.Table)
		if err != nil {
			l.add(table, "%s", unquoted(err, s.Table))
		}
		s.items = items
		for _, item := range items {
			if source.IsPattern(item) {
				s.Patterns = append(s.Patterns, item)
			}
		}
		s.Tables = s.named()
	}
	s.Fields = l.fields()
	s.Deleted, s.Deletion = parseDeletion(l.loader, l.begin+"DELETED", s.Gone)
	l.eventTypes()
	if _, ok := event.ParseVersion(s.Version); !ok {
		l.add(l.begin+"EVENT_VERSION", "invalid version: use three numbers with dots, as in 1.0.0")
	}
	l.columns()
	s.Masks = parseMasks(l.loader, l.begin, s.Mask)
	l.checkHidden()
	if s.Filter != "" {
		if err := source.CheckFilter(s.Filter); err != nil {
			l.add(l.begin+"FILTER", "%s", err)
		}
	}
	l.warnOfTombstones()
	l.contradictions()
	l.checkOrder()
	l.checkFormat()
	l.payload()
	l.checkStale()
	l.checkList()
	among := slices.ContainsFunc(s.items, func(table string) bool { src, _ := l.cfg.SourceOf(table); return !src.Alone })
	if len(s.items) > 0 && !among && l.env[l.begin+"TIME_ZONE"] != "" {
		src, _ := l.cfg.SourceOf(s.items[0])
		l.warn(l.begin+"TIME_ZONE", "has no effect with the source %s:, where %sTIME_ZONE holds for the whole file", src.Scheme, prefix)
	}
	l.destination()
	l.warnOfIdle()
	if check := l.cfg.Sink.Destinations.Check; check != nil && s.DeadLetter != "" {
		if err := check(s.DeadLetter); err != nil {
			variable := l.begin + "DEAD_LETTER"
			if l.env[variable] == "" {
				variable = prefix + "DEAD_LETTER"
			}
			l.add(variable, "%s", unquoted(err, s.DeadLetter))
		}
	}
	return *s
}

// quotation finds what an error may quote: text in quotes and in braces.
var quotation = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\{[^{}]*\}`)

// word is what the name of a placeholder may be, and hardly a secret.
var word = regexp.MustCompile(`^\{[a-z]{1,16}\}$`)

// unquoted returns the text of err without what it quotes of value, apart from numbers, single
// characters and names of placeholders.
func unquoted(err error, value string) string {
	return quotation.ReplaceAllStringFunc(err.Error(), func(quote string) string {
		text := quote[1 : len(quote)-1]
		if quote[0] == '"' {
			if plain, err := strconv.Unquote(quote); err == nil {
				text = plain
			}
		}
		if len(text) > 2 && !word.MatchString(quote) && strings.Contains(value, text) && strings.Trim(text, "0123456789.{}") != "" {
			return "…"
		}
		return quote
	})
}

// fields parses FIELDS: column:member or column.
func (l *streamLoader) fields() []event.Field {
	var fields []event.Field
	variable := l.begin + "FIELDS"
	has := func(same func(event.Field) bool) bool { return slices.ContainsFunc(fields, same) }
	for i, item := range l.stream.Members {
		column, member, named := strings.Cut(item, ":")
		column, member = strings.TrimSpace(column), strings.TrimSpace(member)
		switch {
		case column == "" || named && member == "":
			l.add(variable, "item %d has no column or no member: write column:member, or column alone", i+1)
		case !utf8.ValidString(item):
			l.add(variable, "item %d is not valid UTF-8: write it in UTF-8", i+1)
		case member == "row" || member == "reason" && l.stream.Kind != event.Release:
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
func (l *streamLoader) columns() {
	for _, column := range []struct{ variable, name string }{
		{"ID", l.stream.ID}, {"CREATED", l.stream.Created}, {"MODIFIED", l.stream.Modified}, {"DELETED", l.stream.Deleted},
	} {
		if !isColumn(column.name) {
			l.add(l.begin+column.variable, "invalid column name: write one name without control characters, of at most 64 characters")
		}
	}
	for i, column := range l.stream.Key {
		switch {
		case !isColumn(column):
			l.add(l.begin+"KEY", "item %d is not a column name: write names without control characters, of at most 64 characters", i+1)
		case slices.ContainsFunc(l.stream.Key[:i], func(before string) bool { return strings.EqualFold(before, column) }):
			l.add(l.begin+"KEY", "item %d has the column of an earlier item: name each column once", i+1)
		}
	}
}

func isColumn(name string) bool {
	return utf8.ValidString(name) && utf8.RuneCountInString(name) <= 64 && !strings.ContainsFunc(name, unicode.IsControl)
}

func (l *streamLoader) contradictions() {
	if l.stream.GapPolicy == "hold" && l.stream.IDOrder == "segmented" {
		variable := l.begin + "GAP_POLICY"
		if l.env[variable] == "" && l.env[l.begin+"ID_ORDER"] == "" {
			variable = prefix + "GAP_POLICY"
		}
		l.add(variable, "is hold, but ID_ORDER is segmented, where a gap may stay open for hours: use late")
	}
	if l.stream.Fields == nil || l.stream.Kind != event.Capability {
		return
	}
	// A deleted event carries the key and nothing else.
	for i, column := range l.stream.Key {
		published := slices.ContainsFunc(l.stream.Fields, func(f event.Field) bool { return strings.EqualFold(f.Column, column) })
		if !published && !strings.EqualFold(column, l.stream.ID) {
			l.add(l.begin+"FIELDS", "leaves out item %d of %sKEY, without which a deleted event does not say what was deleted: add it", i+1, l.begin)
		}
	}
}

// warnOfIdle warns of settings of the stream that others leave nothing to do.
func (l *streamLoader) warnOfIdle() {
	s := l.stream
	release, unordered := s.Kind == event.Release, s.Order() == source.OrderNone && s.IDFormat() == ""
	unused := func(placeholder string) bool { return s.template != nil && !s.template.Uses(placeholder) }
	for _, of := range []struct {
		name string
		idle bool
		why  string
	}{
		{"DELETED", release, "on a release stream: each row of it is a fact"},
		{"RECONCILE_MAX_DELETES", release, "on a release stream: each row of it is a fact"},
		{"GAP_POLICY", unordered, "with ID_ORDER=none, where ids have no gaps"},
		{"GAP_TTL", unordered, "with ID_ORDER=none, where ids have no gaps"},
		{"FAMILY", unused("family"), "without {family} in DESTINATION"},
		{"TAG", unused("tag"), "without {tag} in DESTINATION"},
		{"DEAD_LETTER_LIMIT", s.DeadLetter == "", "without DEAD_LETTER"},
		{"ON_BAD_VALUE", s.Payload != "", "with PAYLOAD: rows that make no message become dead letters"},
	} {
		if of.idle && l.env[l.begin+of.name] != "" {
			l.warn(l.begin+of.name, "has no effect %s", of.why)
		}
	}
	spec := s.Spec("")
	for i, item := range s.Mask {
		column, _ := splitMask(item)
		same := func(name string) bool { return strings.EqualFold(name, column) }
		if spec.Fields != nil && !slices.ContainsFunc(spec.Fields, same) || slices.ContainsFunc(spec.Exclude, same) {
			l.warn(l.begin+"MASK", "item %d has no effect: the column is not published", i+1)
		}
	}
}

// checkOrder finds what does not go with ids without an order.
func (l *streamLoader) checkOrder() {
	if l.stream.Order() != source.OrderNone {
		return
	}
	setting := "ID_ORDER=none"
	if l.stream.IDFormat() != "" {
		setting = "ID_FORMAT=" + l.stream.IDValues
	}
	if l.env[l.begin+rateName] != "" {
		l.warn(l.begin+rateName, "has no effect with %s%s, where reconcile alone reads the rows: set %sRECONCILE_RATE", l.begin, setting, l.begin)
	}
	if l.stream.Kind == event.Release && l.stream.IDFormat() == "" {
		l.add(l.begin+"ID_ORDER", "is none, and a release stream is nothing but its tail, which needs an order: set another one, or %sKIND=capability", l.begin)
	}
	if l.stream.Start != (Start{}) {
		l.add(l.begin+"START", "is not beginning, and with %s%s nothing tells a row of before from one that was committed late: remove it", l.begin, setting)
	}
}

// checkFormat finds what does not go with ids that are not integers.
func (l *streamLoader) checkFormat() {
	variable := l.begin + "ID_FORMAT"
	if l.stream.IDFormat() == "" || l.has(variable) {
		return
	}
	if l.stream.Kind == event.Release {
		l.add(variable, "is for capability streams: of a release stream only rows with ever higher numbers are found: add an AUTO_INCREMENT column, which may be INVISIBLE, and name it with %sID", l.begin)
	}
	if order := l.env[l.begin+"ID_ORDER"]; order != "" && l.stream.IDOrder != "auto" && l.stream.IDOrder != "none" {
		l.add(l.begin+"ID_ORDER", "is %s, and ids with %s have no gaps: remove one of the two", l.stream.IDOrder, variable)
	}
	for _, name := range []string{"GAP_POLICY", "GAP_TTL"} {
		if l.env[l.begin+name] != "" {
			l.add(l.begin+name, "has no meaning with %s, whose ids have no gaps: remove it", variable)
		}
	}
}

// checkStale finds what keeps rows from expiring, or from being found soon.
func (l *streamLoader) checkStale() {
	variable := l.begin + "STALE_AFTER"
	switch {
	case l.stream.StaleAfter == 0 || l.has(variable):
	case l.stream.Kind == event.Release:
		l.add(variable, "is for capability streams: each row of a release stream is a fact, which does not expire")
	case l.stream.Modified == "":
		l.add(variable, "needs the column that says when a row was touched last: set %sMODIFIED", l.begin)
	case l.stream.ReconcileInterval > l.stream.StaleAfter:
		l.warn(variable, "is %s, and a reconcile finds the rows up to %s later: set %sRECONCILE_INTERVAL=%s, say", l.stream.StaleAfter, l.stream.ReconcileInterval, l.begin, max(time.Second, l.stream.StaleAfter/10))
	}
}

// checkList finds why there are no full lists of a stream.
func (l *streamLoader) checkList() {
	variable := l.begin + "FULL_LIST_INTERVAL"
	if l.stream.FullListInterval == 0 || l.has(variable) {
		return
	}
	if why := l.cfg.ListFault(l.stream); why != "" {
		l.add(variable, "%s", why)
	}
}

// ListFault returns why there is no full list of a stream, empty where there is one.
func (c *Config) ListFault(s *Stream) string {
	switch {
	case s.Kind == event.Release:
		return "is for capability streams: a release stream is a log, which has no list of what is there now; bridge republish with --from 1 publishes its rows again"
	case c.Share.One():
		return "is not for " + shareVariable + ", where each process would list its own tables alone: run the stream in one process"
	case !c.Sink.Readable():
		return "needs a bus that can be read, as Kafka and NATS can"
	}
	return ""
}

func (l *streamLoader) destination() {
	variable := l.begin + "DESTINATION"
	to := l.cfg.Sink.Destinations
	if to.Parse == nil {
		// The sink is at fault.
		to = driver.Labels
	}
	l.stream.Destination = cmp.Or(l.stream.Destination, to.Default)
	template, err := to.Parse(l.stream.Destination)
	if err != nil {
		l.add(variable, "%s", unquoted(err, l.stream.Destination))
		return
	}
	l.stream.template = template
	l.destinations()
	unnamed := func(table string) bool { src, _ := l.cfg.SourceOf(table); return src.Name == "" }
	if i := slices.IndexFunc(l.stream.items, unnamed); i >= 0 && template.Uses("source") {
		l.add(variable, "has {source}, and table %d of %sTABLE is of the source without a name: name the source in %s, or leave {source} out", i+1, l.begin, sourcesVariable)
		return
	}
	if !to.Topics || len(template.Columns()) > 0 {
		return
	}
	// All that these topics depend on is known.
	for _, item := range l.stream.items {
		switch topic := l.cfg.Destination(l.stream, sample(item)); {
		case bus.CheckTopic(topic) != nil:
			l.add(variable, "makes a name that no Kafka topic can have: see to 1 to 249 letters, digits and . _ - with FAMILY, TAG, BRIDGE_DOMAIN_ID and TABLE filled in")
			return
		case topic == l.stream.DeadLetter:
			l.add(variable, "leads to the topic of DEAD_LETTER: use different topics")
			return
		}
	}
}

// checkDeadLetters finds dead letters that go where events of a stream do.
func checkDeadLetters(l *loader, cfg *Config) {
	if !slices.ContainsFunc(cfg.Streams, func(s Stream) bool { return s.DeadLetter != "" }) {
		return
	}
	events := make(map[string]string)
	for _, of := range cfg.Streams {
		of.DeadLetter = ""
		if l.has(StreamPrefix(of.Name)+"DESTINATION", StreamPrefix(of.Name)+"DESTINATIONS") {
			continue
		}
		for _, to := range cfg.Destinations(&of) {
			events[to] = cmp.Or(events[to], of.Name)
		}
	}
	covers := bus.Coverer(slices.Collect(maps.Keys(events)))
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		by := covers(s.DeadLetter)
		if s.DeadLetter == "" || by == "" {
			continue
		}
		variable := StreamPrefix(s.Name) + "DEAD_LETTER"
		if l.env[variable] == "" {
			variable = prefix + "DEAD_LETTER"
		}
		if name, is := events[s.DeadLetter]; is {
			l.add(variable, "is where events of the stream %s go: use a topic or subject of its own", name)
		} else {
			l.warn(variable, "is one of the subjects %s of the stream %s, of which an event may lie among the dead letters: use a subject of its own", by, events[by])
		}
	}
}

// checkTables finds a table that a stream has twice under different names.
func (l *loader) checkTables(cfg *Config) {
	for _, s := range cfg.Streams {
		known := make(map[string]bool)
		for _, table := range s.Tables {
			database, name := cfg.physical(table)
			full := database + "." + name
			// SQLite has one table by either name, MySQL unless lower_case_table_names is 0.
			either := "\x00" + strings.ToLower(full)
			if known[full] {
				l.add(StreamPrefix(s.Name)+"TABLE", "names one table twice, with and without its database: name it once")
				break
			} else if known[either] {
				l.add(StreamPrefix(s.Name)+"TABLE", "names tables that differ in upper and lower case alone, which may be one: name it once, or give each a stream of its own")
				break
			}
			known[full], known[either] = true, true
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

// IDFormat is that of the ids of the stream, empty where they are integers.
func (s *Stream) IDFormat() source.IDFormat {
	if s.IDValues == "integer" {
		return ""
	}
	return source.IDFormat(s.IDValues)
}

// Order is empty where the server is to be asked.
func (s *Stream) Order() source.IDOrder {
	switch {
	case s.IDFormat() != "":
		return source.OrderNone
	case s.IDOrder == "auto":
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
		Table: table, ID: s.ID, IDFormat: s.IDFormat(), Key: s.Key, Created: s.Created, Modified: s.Modified, Deleted: s.Deleted,
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
	id := s.ID
	if format := s.IDFormat(); format != "" {
		id += " as " + string(format)
	}
	return &store.Meaning{Kind: string(s.Kind), Table: database + "." + name, ID: id, Key: key}
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

func (l *streamLoader) eventTypes() {
	// The default is made of the words of the stream's name.
	if words := strings.ReplaceAll(l.stream.Name, "_", ""); l.stream.Event != "" {
		l.eventType(l.begin+"EVENT", "", l.stream.Event)
	} else if words == "" || !isAlpha(rune(words[0])) || isEiffel(words) {
		l.add(l.begin+"EVENT", "is not set, and the stream's name makes no event type: set a stem that begins with a letter and not with Eiffel")
	}
	if l.has(l.begin + "KIND") {
		return
	}
	for i, item := range l.stream.Names {
		l.eventName(item, i+1)
	}
	if deleted := l.stream.EventNames[event.Deleted]; deleted != "" && (deleted == l.stream.EventNames[event.Added] || deleted == l.stream.EventNames[event.Modified]) {
		l.add(l.begin+"EVENT_NAMES", "gives deleted the name of another operation, which consumers could not tell apart: choose another name")
	}
}

// eventName parses one operation:name of EVENT_NAMES into s; number tells which item it is.
func (l *streamLoader) eventName(item string, number int) {
	variable := l.begin + "EVENT_NAMES"
	operations := []event.Op{event.Added, event.Modified, event.Deleted}
	allowed := "added, modified and deleted"
	if l.stream.Kind == event.Release {
		operations, allowed = []event.Op{event.Published}, "published"
	}
	operation, name, named := strings.Cut(item, ":")
	op := event.Op(strings.ToLower(strings.TrimSpace(operation)))
	name = strings.TrimSpace(name)
	_, twice := l.stream.EventNames[op]
	switch {
	case !named || name == "":
		l.add(variable, "item %d has no name: write operation:name, as in added:OrderAddedMessage", number)
	case !slices.Contains(operations, op):
		l.add(variable, "item %d has no operation of a %s stream: use %s", number, l.stream.Kind, allowed)
	case twice:
		l.add(variable, "item %d names an operation a second time: name each once", number)
	default:
		l.eventType(variable, fmt.Sprintf("item %d ", number), name)
		if l.stream.EventNames == nil {
			l.stream.EventNames = map[event.Op]string{}
		}
		l.stream.EventNames[op] = name
	}
}

func (l *streamLoader) eventType(variable, where, name string) {
	if isEiffel(name) {
		l.add(variable, "%sbegins with Eiffel, which the Eiffel protocol keeps for its own events: choose another name", where)
	} else if !isStreamName(name) || !isAlpha(rune(name[0])) {
		l.add(variable, "%sis no event type: use letters, digits and _, a letter first", where)
	}
}

func isEiffel(name string) bool {
	return len(name) >= len("eiffel") && strings.EqualFold(name[:len("eiffel")], "eiffel")
}
