package config

import (
	"maps"
	"slices"

	"bridge/event"
)

// The values of KAFKA_TOMBSTONES.
const (
	TombstonesAuto = "auto"
	TombstonesOn   = "on"
	tombstonesOff  = "off"
)

// warnOfTombstones finds tombstones that nobody makes.
func warnOfTombstones(l *loader, begin string, s *Stream, cfg *Config) {
	variable := begin + "KAFKA_TOMBSTONES"
	if l.env[variable] == "" || s.KafkaTombstones != TombstonesOn {
		return
	}
	switch {
	case cfg.Sink.Scheme != "kafka":
		l.warn(variable, "has no effect: only Kafka has tombstones")
	case s.Kind == event.Release:
		l.warn(variable, "has no effect on a release stream: it has no deleted events")
	}
}

// Tombstones returns a function that returns KAFKA_TOMBSTONES of a stream for a topic: off where
// there are none, and for auto where other entities may have the same keys there, which a tombstone
// would delete.
func (c *Config) Tombstones() func(s *Stream, topic string) string {
	if c.Sink.Scheme != "kafka" {
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
			if topic, err := c.Destination(s, table); err == nil && modeOf(s, topic) == TombstonesAuto {
				asked[topic] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(asked))
}
