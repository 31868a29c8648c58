package config

import (
	"fmt"
	"slices"
	"strings"

	"bridge/event"
)

// Uncompactable returns why compaction would lose events on a topic, for the topics where it would:
// an entity is found there by its key alone.
func (c *Config) Uncompactable() map[string]string {
	streams := make(map[string][]*Stream)
	reasons := make(map[string]string)
	for i := range c.Streams {
		s := &c.Streams[i]
		tables := make(map[string]int)
		for _, table := range s.Tables {
			topic, err := c.Destination(s, table)
			if err != nil {
				continue
			}
			if tables[topic]++; tables[topic] == 1 {
				streams[topic] = append(streams[topic], s)
			}
		}
		for topic, n := range tables {
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
		return fmt.Sprintf("%d tables of the stream %s publish to it, whose rows have the same ids, and the id is the key", n, s.Name)
	case n > 1:
		return fmt.Sprintf("%d tables of the stream %s publish to it: an entity that moves from one to another is told as deleted after it was added", n, s.Name)
	}
	return ""
}
