package config

import (
	"regexp"
	"slices"
	"strings"

	"example.org/bridge/client/bus"
	"example.org/bridge/event"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// headerName is what a header may be called on every bus.
var headerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// natsHeaders are those of a server's replies without a message, as when there are no responders.
var natsHeaders = []string{"status", "description"}

// payload checks the settings of a stream whose messages are a column.
func (l *streamLoader) payload() {
	if l.stream.Payload == "" {
		if l.stream.HeaderColumns != nil {
			l.add(l.begin+"HEADERS", "is for a stream whose message is a column: set %sPAYLOAD, too", l.begin)
		}
		return
	}
	if !isColumn(l.stream.Payload) {
		l.add(l.begin+"PAYLOAD", "invalid column name: write one name without control characters, of at most 64 characters")
	}
	if l.stream.Kind == event.Capability {
		l.add(l.begin+"PAYLOAD", "is for a release stream: its rows are facts, and the messages of a capability stream say which entity lives: set %sKIND=release", l.begin)
	}
	for _, other := range []string{"EVENT_FORMAT", "FIELDS", "EXCLUDE"} {
		if l.env[l.begin+other] != "" {
			l.add(l.begin+other, "has no meaning with PAYLOAD: the message is that column as it is: unset one of them")
		}
	}
	if l.stream.DeadLetter == "" {
		l.add(l.begin+"DEAD_LETTER", "is not set, and PAYLOAD needs it: rows that make no message, or name no destination, are put there. Name a topic or subject of its own")
	}
	if len(l.stream.Key) == 0 {
		l.warn(l.begin+"KEY", "is not set, so the key of a message is the id of its row: messages about one thing have no order. Name the column of what they are about, as in aggregateid")
	}
	l.unmasked("PAYLOAD", l.stream.Payload)
	l.stream.headers = l.headers()
}

// unmasked refuses a mask of a column that a setting needs as it is.
func (l *streamLoader) unmasked(setting, column string) {
	for masked := range l.stream.Masks {
		if strings.EqualFold(masked, column) {
			l.add(l.begin+"MASK", "names the column of %s, which bridge has to read as it is: mask others", setting)
		}
	}
}

// headers parses HEADERS: column:header or column.
func (l *streamLoader) headers() (headers []event.Field) {
	variable := l.begin + "HEADERS"
	known := make(map[string]bool)
	for i, item := range l.stream.HeaderColumns {
		column, name, named := strings.Cut(item, ":")
		if column, name = strings.TrimSpace(column), strings.TrimSpace(name); !named {
			name = column
		}
		lower := strings.ToLower(name)
		switch {
		case !isColumn(column) || column == "":
			l.add(variable, "item %d has no column: write column, or column:header", i+1)
		case !headerName.MatchString(name):
			l.add(variable, "item %d invalid header: write column:header with up to 100 letters, digits and . _ -", i+1)
		case sink.IsReserved(name) && lower != bus.HeaderTraceParent:
			l.add(variable, "item %d has a header that bridge or the bus sets itself, as all that begin with %s: choose another name", i+1, strings.Join(sink.ReservedPrefixes, ", "))
		case lower == bus.HeaderTraceParent && l.cfg.Trace != nil:
			l.add(variable, "item %d has the header %s, which BRIDGE_TRACE=on sets: choose another name, or switch that off", i+1, bus.HeaderTraceParent)
		case !l.cfg.Sink.Destinations.Topics && slices.Contains(natsHeaders, lower):
			l.add(variable, "item %d has the header %s, by which clients of NATS tell a message from a reply of the server: choose another name", i+1, name)
		case known[lower]:
			l.add(variable, "item %d has the header of an earlier item: name each once", i+1)
		}
		known[lower] = true
		headers = append(headers, event.Field{Column: column, Member: name})
	}
	return headers
}

// destinations checks DESTINATIONS, which bounds where the rows of a stream may go.
func (l *streamLoader) destinations() {
	variable := l.begin + "DESTINATIONS"
	l.stream.routed = l.stream.template.Columns()
	switch {
	case len(l.stream.routed) == 0 && l.stream.Bounds != nil:
		l.add(variable, "is for a DESTINATION with a column, as orders.{column:type}: write one, or unset this")
		return
	case len(l.stream.routed) == 0:
		return
	case l.stream.Payload == "":
		l.add(l.begin+"DESTINATION", "has a column, which is for a stream whose message is a column, too: set %sPAYLOAD", l.begin)
		return
	case l.stream.Bounds == nil:
		l.add(variable, "is not set, and DESTINATION has a column: list all topics or subjects that rows may go to, which bridge reads back when it starts")
		return
	}
	for _, column := range l.stream.routed {
		l.unmasked("DESTINATION", column)
	}
	for i, to := range l.stream.Bounds {
		switch {
		case l.cfg.Sink.Destinations.Topics && bus.CheckTopic(to) != nil:
			l.add(variable, "item %d is an invalid topic: write 1 to 249 letters, digits and . _ -; there are no patterns", i+1)
		case !l.cfg.Sink.Destinations.Topics && !isPattern(to):
			l.add(variable, "item %d is an invalid subject: write tokens with dots between, the first of them without a wildcard, as in orders.*", i+1)
		case bus.Covers(to, l.stream.DeadLetter):
			l.add(variable, "item %d covers DEAD_LETTER: use different topics or subjects", i+1)
		case !makes(l.cfg, l.stream, to):
			why := ""
			if !l.cfg.Sink.Destinations.Topics {
				why = ", of which a column makes one token, without dots"
			}
			l.add(variable, "item %d is none that DESTINATION makes%s: correct one of them", i+1, why)
		}
	}
}

// checkBounds refuses patterns of DESTINATIONS that share subjects with others, of any stream, and
// neither covers the other: a stream of NATS cannot take both, nor a consumer read them. Of
// subjects that DESTINATION makes it warns: a wider stream, which bridge does not create, takes
// both. Those of one template have their wildcards in the same tokens, so only those of different
// ones are compared.
func checkBounds(l *loader, cfg *Config) {
	if cfg.Sink.Destinations.Topics {
		return
	}
	overlap := func(to string, all []string) string {
		for _, other := range all {
			if bus.Meet(to, other) && !bus.Covers(to, other) && !bus.Covers(other, to) {
				return other
			}
		}
		return ""
	}
	if slices.ContainsFunc(cfg.Streams, func(s Stream) bool { return len(s.Bounds) > 0 }) {
		all := cfg.Published()
		for i := range cfg.Streams {
			for n, to := range cfg.Streams[i].Bounds {
				if other := overlap(to, all); other != "" {
					l.add(StreamPrefix(cfg.Streams[i].Name)+"DESTINATIONS", "item %d shares subjects with %s, and neither covers the other, so no NATS stream can have both: make one wider or list subjects one by one", n+1, other)
					return
				}
			}
		}
	}
	if !slices.ContainsFunc(cfg.Streams, func(s Stream) bool { return s.Destination != cfg.Streams[0].Destination }) {
		return
	}
	made := make([][]string, len(cfg.Streams))
	for i := range cfg.Streams {
		made[i] = slices.DeleteFunc(cfg.Destinations(&cfg.Streams[i]), func(to string) bool { return !strings.ContainsAny(to, "*>") })
	}
	for i, own := range made {
		for j, others := range made {
			if cfg.Streams[i].Destination == cfg.Streams[j].Destination {
				continue
			}
			for _, to := range own {
				if other := overlap(to, others); other != "" {
					l.warn(StreamPrefix(cfg.Streams[i].Name)+"DESTINATION", "makes subjects of %s, as %s does, and neither covers the other: bridge cannot create a stream that has both; use tokens that tell them apart, or create one with a wider subject", to, other)
					return
				}
			}
		}
	}
}

// isPattern reports whether text is a subject whose tokens, but for the first, may be wildcards.
func isPattern(text string) bool {
	tokens := strings.Split(text, ".")
	for i, token := range tokens {
		if i > 0 && (token == "*" || token == ">" && i == len(tokens)-1) {
			tokens[i] = "x"
		}
	}
	return sink.CheckSubject(strings.Join(tokens, ".")) == nil
}

// makes reports whether some table of s can have to as the destination of a row: it is the template
// with values for what depends on the event, or on the table of a pattern.
func makes(cfg *Config, s *Stream, to string) bool {
	return slices.ContainsFunc(s.items, func(item string) bool {
		vars := cfg.vars(s, sample(item))
		vars.Type, vars.Key = open, []byte(open)
		if source.IsPattern(item) {
			vars.Table = open
		}
		for range s.routed {
			vars.Columns = append(vars.Columns, []byte(open))
		}
		made := string(s.template.Append(nil, vars, func(dst []byte, value string) []byte {
			if value == open {
				return append(dst, open...)
			}
			return cfg.Sink.Destinations.Escape(dst, value)
		}))
		value, as, bs := `[A-Za-z0-9._-]+`, []string{made}, []string{to}
		if !cfg.Sink.Destinations.Topics {
			// As sink.EscapeToken makes a token.
			value, as, bs = `(?:[A-Za-z0-9_-]|%[0-9A-F]{2})+`, strings.Split(made, "."), strings.Split(to, ".")
		}
		for n, token := range bs {
			switch {
			case n == len(as):
				return false
			case token == ">":
				return true
			case token != "*" && !regexp.MustCompile("^"+strings.ReplaceAll(regexp.QuoteMeta(as[n]), open, value)+"$").MatchString(token):
				return false
			}
		}
		return len(as) == len(bs)
	})
}

// bounded reports why a row must not go to a destination, empty where it may.
func (s *Stream) bounded(e *event.Event, to string) string {
	for i, value := range e.Routed {
		if len(value) == 0 {
			return "its column " + s.routed[i] + " is NULL or empty, so it names no destination"
		}
	}
	if slices.ContainsFunc(s.Bounds, func(one string) bool { return one == to || bus.Covers(one, to) }) {
		return ""
	}
	return "its destination is none of those that DESTINATIONS lists"
}

// payloadOf returns what the encoder is told of the column that is the message, nil for none.
func (s *Stream) payloadOf() *event.Payload {
	if s.Payload == "" {
		return nil
	}
	return &event.Payload{Column: s.Payload, Headers: s.headers, Routed: s.routed}
}
