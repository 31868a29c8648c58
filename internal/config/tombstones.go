package config

import (
	"slices"

	"bridge/event"
)

// The values of KAFKA_TOMBSTONES besides off.
const (
	TombstonesAuto = "auto"
	TombstonesOn   = "on"
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

// Tombstones returns KAFKA_TOMBSTONES of a stream that publishes to topic: off where there are
// none, and for auto where other entities may have the same keys there, which a tombstone would
// delete.
func (c *Config) Tombstones(s *Stream, topic string) string {
	switch {
	case c.Sink.Scheme != "kafka" || s.Kind == event.Release:
		return "off"
	case s.KafkaTombstones == TombstonesAuto && c.Uncompactable()[topic] != "":
		return "off"
	}
	return s.KafkaTombstones
}

// AskedTopics returns the topics of which tombstones depend on whether they are compacted.
func (c *Config) AskedTopics() []string {
	var topics []string
	for i := range c.Streams {
		s := &c.Streams[i]
		for _, table := range s.Tables {
			topic, err := c.Destination(s, table)
			if err == nil && c.Tombstones(s, topic) == TombstonesAuto && !slices.Contains(topics, topic) {
				topics = append(topics, topic)
			}
		}
	}
	return topics
}
