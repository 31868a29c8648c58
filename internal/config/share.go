package config

import (
	"path/filepath"
	"slices"

	"example.org/bridge/event"
	"example.org/bridge/internal/share"
)

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

// owned returns the tables of a stream that are to be worked on.
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
	own := *c
	own.Share.alone, own.Streams = true, nil
	for i := range c.Streams {
		s := c.Streams[i]
		s.Tables = own.Share.owned(&s, s.Tables)
		if len(s.Tables) > 0 || len(s.Patterns) > 0 && (s.Placed("t") != "" || own.Share.Owns(&s, "")) {
			own.Streams = append(own.Streams, s)
		}
	}
	return &own
}
