package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"example.org/bridge/client/bus"
	"example.org/bridge/event"
	"example.org/bridge/sink"
)

// vars are the values that are the same for all events of a shard.
func (c *Config) vars(s *Stream, table string) sink.Vars {
	src, _ := c.SourceOf(table)
	_, name := c.physical(table)
	return sink.Vars{Stream: s.Name, Source: src.Name, Table: name, Family: s.Family, Tag: s.Tag, Domain: c.DomainID}
}

// Destination returns where events of a shard go, with the parts that depend on an event left
// empty.
func (c *Config) Destination(s *Stream, table string) string {
	return string(s.template.Append(nil, c.vars(s, table), c.Sink.Destinations.Escape))
}

// Route returns the function that tells the destination of each event of a shard. It serves one
// goroutine.
func (c *Config) Route(s *Stream, table string) func(*event.Event) string {
	vars := c.vars(s, table)
	var buf []byte
	fill := func(e *event.Event) string {
		vars.Type, vars.Key = e.Type, e.Key
		buf = s.template.Append(buf[:0], vars, c.Sink.Destinations.Escape)
		return string(buf)
	}
	if len(s.routed) > 0 {
		return func(e *event.Event) string {
			vars.Columns = e.Routed
			to := fill(e)
			e.Unfit = cmp.Or(e.Unfit, s.bounded(e, to))
			return to
		}
	}
	if !s.template.ConstantPerType() {
		return fill
	}
	known := make(map[string]string)
	return func(e *event.Event) string {
		destination, ok := known[e.Type]
		if !ok {
			destination = fill(e)
			known[e.Type] = destination
		}
		return destination
	}
}

// Addresses returns where the events of a shard with a type go; "{key}" stands for the key of an
// entity.
func (c *Config) Addresses(s *Stream, table, eventType string) []string {
	return c.fill(nil, s, table, "{key}", eventType, false)
}

// fill appends where the events of a shard with a type go: of one, unless rows say it. unknown
// stands for the key, and may be the type; former has the form of versions for which a domain was
// one token.
func (c *Config) fill(all []string, s *Stream, table, unknown, eventType string, former bool) []string {
	template := s.template
	switch {
	case template == nil:
		// It is at fault.
		return all
	case len(s.routed) > 0:
		return append(all, s.Bounds...)
	case former:
		template = template.OneTokenDomain()
	}
	vars := c.vars(s, table)
	vars.Key, vars.Type = []byte(unknown), eventType
	return append(all, string(template.Append(nil, vars, func(dst []byte, value string) []byte {
		if value == unknown {
			return append(dst, unknown...)
		}
		return c.Sink.Destinations.Escape(dst, value)
	})))
}

// destinations returns what all shards of streams publish to, dead letters included, each once and
// in order. unknown stands for what depends on an event; the types are known where typed says so.
func (c *Config) destinations(streams []Stream, unknown string, typed, former bool) (all []string) {
	for i := range streams {
		s := &streams[i]
		tables := s.Tables
		if unknown == open {
			// A name that stands for all tables that match a pattern.
			tables = slices.Clone(tables)
			for _, pattern := range s.Patterns {
				_, rest := c.SourceOf(pattern)
				if name := strings.TrimSuffix(pattern, rest) + open; !slices.Contains(tables, name) {
					tables = append(tables, name)
				}
			}
		}
		for _, table := range tables {
			types := []string{unknown}
			if typed {
				switch encoder, err := c.Encoder(s, table); {
				case err != nil:
					types = []string{open}
				case s.Kind == event.Release:
					types = []string{encoder.Type(event.Published)}
				default:
					types = []string{encoder.Type(event.Added), encoder.Type(event.Modified), encoder.Type(event.Deleted)}
				}
			}
			for _, one := range types {
				all = c.fill(all, s, table, unknown, one, former)
			}
		}
		if s.DeadLetter != "" {
			all = append(all, s.DeadLetter)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Destinations returns all topics, or subjects with a wildcard where they depend on the entity,
// that a stream may publish to, with those of dead letters, each once and in order.
func (c *Config) Destinations(s *Stream) []string {
	if c.Sink.Destinations.Topics {
		return c.destinations([]Stream{*s}, "", false, false)
	}
	return withoutCovered(wildcards(c.destinations([]Stream{*s}, open, true, false)))
}

// ListDestinations returns where the boundaries of a full list of a stream go, each once: to all
// topics or subjects of its events, with [bus.ListKey] and the stream for a key.
func (c *Config) ListDestinations(s *Stream) (all []string) {
	for _, table := range s.Tables {
		vars := c.vars(s, table)
		vars.Key = []byte(bus.ListKey + s.Name)
		encoder, err := c.Encoder(s, table)
		if err != nil {
			// The shard says why it has none.
			continue
		}
		for _, op := range []event.Op{event.Added, event.Modified, event.Deleted} {
			vars.Type = encoder.Type(op)
			all = append(all, string(s.template.Append(nil, vars, c.Sink.Destinations.Escape)))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Topics returns the topics that must be there.
func (c *Config) Topics() []string { return c.destinations(c.Streams, "", false, false) }

// Subjects returns the subjects of a JetStream stream that takes all messages, also of streams and
// tables that another process works on: a token that depends on the event is a wildcard.
func (c *Config) Subjects() []string {
	return withoutCovered(wildcards(c.destinations(whole(c), open, false, false)))
}

// Published returns the subjects that the events of all streams, and their dead letters, will have:
// the types are filled in, and only a token that depends on the entity is a wildcard.
func (c *Config) Published() []string {
	return withoutCovered(wildcards(c.destinations(c.Streams, open, true, false)))
}

// Readable returns the topics or subjects that events may lie on: those of published, and those of
// versions for which a domain was one token.
func (c *Config) Readable() []string {
	if c.Sink.Destinations.Topics {
		return c.Topics()
	}
	return withoutCovered(slices.Concat(c.Published(), wildcards(c.destinations(c.Streams, open, true, true))))
}

// ErrNoDeadLetters is returned where no stream has a destination for dead letters.
var ErrNoDeadLetters error = &Error{Faults: []Fault{{prefix + "DEAD_LETTER",
	"is not set, so no row is put aside: a row that the bus refuses stops its stream. Set it to a topic or subject for dead letters"}}}

// DeadLetters returns where the dead letters of all streams go, each once and in order. That there
// is none is a fault.
func (c *Config) DeadLetters() ([]string, error) {
	var all []string
	for i := range c.Streams {
		if to := c.Streams[i].DeadLetter; to != "" {
			all = append(all, to)
		}
	}
	if len(all) == 0 {
		return nil, ErrNoDeadLetters
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// open stands for what is not known before an event is.
const open = "\x00"

// wildcards turns tokens with open parts into wildcards.
func wildcards(destinations []string) []string {
	var subjects []string
	for _, destination := range destinations {
		tokens := strings.Split(destination, ".")
		for i, token := range tokens {
			if strings.Contains(token, open) {
				tokens[i] = "*"
			}
		}
		subjects = append(subjects, strings.Join(tokens, "."))
	}
	return subjects
}

// withoutCovered leaves out subjects that a wildcard among the others takes already: a stream's
// subjects must not overlap.
func withoutCovered(subjects []string) []string {
	covers := bus.Coverer(subjects)
	slices.Sort(subjects)
	return slices.DeleteFunc(slices.Compact(subjects), func(s string) bool { return covers(s) != s })
}

// Uncompactable returns why compaction would lose events on a topic, for the topics where it would:
// an entity is found there by its key alone. Streams and tables of other processes count. Of NATS
// it returns the subjects that several entities share.
func (c *Config) Uncompactable() map[string]string {
	streams := make(map[string][]*Stream)
	reasons := make(map[string]string)
	all := whole(c)
	if !c.Sink.Destinations.Topics {
		for _, s := range all {
			if s.DeadLetter = ""; s.Kind == event.Capability && !s.template.Uses("key") {
				for _, subject := range c.Destinations(&s) {
					reasons[subject] = "entities of the stream " + s.Name + " share a subject, and each is found by its last message"
				}
			}
		}
		return reasons
	}
	for i := range all {
		s := &all[i]
		shared := make(map[string]int)
		tables := slices.Clone(s.Tables)
		for _, pattern := range s.Patterns {
			// It may match several at any time. None is named like these two.
			tables = append(tables, pattern, pattern+"*")
		}
		for _, table := range tables {
			to := c.Addresses(s, table, "")
			if s.DeadLetter != "" {
				// A dead letter has the key of its event.
				to = append(to, s.DeadLetter)
			}
			for _, topic := range to {
				if shared[topic]++; shared[topic] == 1 {
					streams[topic] = append(streams[topic], s)
				}
			}
		}
		for topic, n := range shared {
			if why := s.sharedKeys(n); why != "" {
				reasons[topic] = why
			}
		}
	}
	for topic, all := range streams {
		if len(all) > 1 {
			names := make([]string, len(all))
			for i, s := range all {
				names[i] = s.Name
			}
			reasons[topic] = fmt.Sprintf("the streams %s publish to it, and their keys may be the same", strings.Join(names, ", "))
		}
	}
	return reasons
}

// sharedKeys returns why events of the stream that are to be kept may share a key on a topic that n
// of its tables publish to.
func (s *Stream) sharedKeys(n int) string {
	byID := len(s.Key) == 0 || slices.EqualFunc(s.Key, []string{s.ID}, strings.EqualFold)
	switch {
	case s.Kind == event.Release && !byID:
		return fmt.Sprintf("%s is a release stream: rows that share a KEY are facts of their own", s.Name)
	case n > 1 && byID:
		return fmt.Sprintf("tables of the stream %s publish to it, whose rows have the same ids, and the id is the key", s.Name)
	case n > 1:
		return fmt.Sprintf("tables of the stream %s publish to it: an entity that moves from one to another is told as deleted after it was added", s.Name)
	}
	return ""
}

// The values of KAFKA_TOMBSTONES.
const (
	TombstonesAuto = "auto"
	TombstonesOn   = "on"
	tombstonesOff  = "off"
)

// warnOfTombstones finds tombstones that nobody makes.
func (l *streamLoader) warnOfTombstones() {
	variable := l.begin + "KAFKA_TOMBSTONES"
	if l.env[variable] == "" || l.stream.KafkaTombstones != TombstonesOn {
		return
	}
	switch {
	case !l.cfg.Sink.Tombstones:
		l.warn(variable, "has no effect: only Kafka has tombstones")
	case l.stream.Kind == event.Release:
		l.warn(variable, "has no effect on a release stream: it has no deleted events")
	}
}

// Tombstones returns a function that returns KAFKA_TOMBSTONES of a stream for a topic: off where
// there are none, and for auto where other entities may have the same keys there, which a tombstone
// would delete.
func (c *Config) Tombstones() func(s *Stream, topic string) string {
	if !c.Sink.Tombstones {
		return func(*Stream, string) string { return tombstonesOff }
	}
	shared := c.Uncompactable()
	return func(s *Stream, topic string) string {
		if s.Kind == event.Release || s.KafkaTombstones == TombstonesAuto && shared[topic] != "" {
			return tombstonesOff
		}
		return s.KafkaTombstones
	}
}

// AskedTopics returns the topics of which tombstones depend on whether they are compacted.
func (c *Config) AskedTopics() []string {
	asked, modeOf := make(map[string]bool), c.Tombstones()
	for i := range c.Streams {
		s := &c.Streams[i]
		for _, table := range s.Tables {
			if topic := c.Destination(s, table); modeOf(s, topic) == TombstonesAuto {
				asked[topic] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(asked))
}
