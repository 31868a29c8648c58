package config

import (
	"slices"
	"strings"

	"bridge/checkpoint/store"
	"bridge/event"
	"bridge/source"
)

// physical splits a table as configured into its database and its name.
func (c *Config) physical(table string) (database, name string) {
	database, name, ok := strings.Cut(table, ".")
	switch {
	case !ok:
		return c.Source.Database, table
	case c.Source.Scheme == "sqlite":
		// Every file calls its database main.
		return c.Source.Database, name
	}
	return database, name
}

// Stream returns the stream with this name, nil where there is none.
func (c *Config) Stream(name string) *Stream {
	at := slices.IndexFunc(c.Streams, func(s Stream) bool { return s.Name == name })
	if at < 0 {
		return nil
	}
	return &c.Streams[at]
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
		Stream: s.Name, Shard: table, Kind: s.Kind, Stem: s.Event, Version: s.Version, Format: s.Format, Names: s.EventNames, Fields: s.Fields, Exclude: s.Exclude,
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
	}
	for _, f := range s.Fields {
		spec.Fields = append(spec.Fields, f.Column)
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
