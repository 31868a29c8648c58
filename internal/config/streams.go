package config

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"bridge/event"
	"bridge/sink"
	"bridge/source"
)

// stream checks the variables of one stream. Its tuning is global where the stream has none of its
// own.
func (l *loader) stream(name string, global Tuning, cfg *Config) Stream {
	begin := StreamPrefix(name)
	var settings streamSettings
	l.parse(&settings, begin)
	own := global
	// No field has that tag: what holds for all streams is the default.
	l.parseOver(&own, begin, "streamDefault")

	s := Stream{
		Name:        name,
		Kind:        event.Kind(settings.Kind),
		Tables:      l.tables(begin+"TABLE", settings.Table),
		Event:       settings.Event,
		Version:     settings.Version,
		Format:      event.Format(settings.Format),
		Fields:      l.fields(begin+"FIELDS", settings.Fields, event.Kind(settings.Kind)),
		Exclude:     settings.Exclude,
		ID:          settings.ID,
		Key:         settings.Key,
		Created:     settings.Created,
		Modified:    settings.Modified,
		Filter:      settings.Filter,
		Destination: settings.Destination,
		Family:      settings.Family,
		Tag:         settings.Tag,
		Start:       settings.Start,
		Tuning:      own,
	}
	s.Deleted, s.Deletion = parseDeletion(l, begin+"DELETED", settings.Deleted)
	l.eventTypes(begin, &s, settings.EventNames)
	checkVersion(l, begin+"EVENT_VERSION", s.Version)
	l.columns(begin, &s)
	s.Masks = parseMasks(l, begin, settings.Mask)
	checkHidden(l, begin, &s)
	checkFilter(l, begin, s.Filter)
	warnOfTombstones(l, begin, &s, cfg)
	l.contradictions(begin, &s)
	if cfg.Source.Scheme == "sqlite" && l.env[begin+"TIME_ZONE"] != "" {
		l.warn(begin+"TIME_ZONE", "has no effect with the source sqlite:, where %sTIME_ZONE holds for the whole file", prefix)
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
	members, columns := map[string]bool{}, map[string]bool{}
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
		case members[member] && named:
			l.add(variable, "item %d has the member of an earlier item: give each column a member of its own", i+1)
		case columns[strings.ToLower(column)]:
			l.add(variable, "item %d has the column of an earlier item: name each column once", i+1)
		}
		members[member], columns[strings.ToLower(column)] = true, true
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
	parse := func(text string) (*sink.Template, error) { return sink.ParseTemplate(text) }
	fallback := "{stream}"
	switch cfg.Sink.Scheme {
	case "kafka":
		parse = sink.ParseTopic
	case "nats", "embedded":
		parse = sink.ParseSubject
		fallback = "eiffel.{family}.{type}.{tag}.{domain}"
	}
	s.Destination = cmp.Or(s.Destination, fallback)
	template, err := parse(s.Destination)
	if err != nil {
		l.add(variable, "%s", unquoted(err, s.Destination))
		return
	}
	if cfg.Sink.Scheme == "kafka" {
		l.topics(variable, template, s, cfg)
	}
}

// topics checks the topics that a template makes: all they depend on is known.
func (l *loader) topics(variable string, template *sink.Template, s *Stream, cfg *Config) {
	for _, table := range s.Tables {
		if _, name, qualified := strings.Cut(table, "."); qualified {
			table = name
		}
		vars := sink.Vars{Stream: s.Name, Table: table, Family: s.Family, Tag: s.Tag, Domain: cfg.DomainID}
		topic := string(template.Append(nil, vars, sink.EscapeNone))
		if sink.CheckTopic(topic) != nil {
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
	var err error
	switch cfg.Sink.Scheme {
	case "kafka":
		err = sink.CheckTopic(s.DeadLetter)
	case "nats", "embedded":
		err = sink.CheckSubject(s.DeadLetter)
	}
	if s.DeadLetter != "" && err != nil {
		l.add(variable, "%s", unquoted(err, s.DeadLetter))
	}
}
