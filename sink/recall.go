package sink

import (
	"context"
	"errors"
	"strconv"
	"strings"
)

// ErrUnreadable is returned when the bus does not let its messages be read. The wrapping error
// names the right that lacks.
var ErrUnreadable = errors.New("the messages on the bus cannot be read")

// Recaller is a sink that can read what its bus holds. It is safe for concurrent use.
type Recaller interface {
	// Recall reads what the bus holds behind marks, up to where it ends when it is called, and
	// calls each with every message that bridge has published, whichever stream it is of: place by
	// place, and in the order of each place. Where marks name some partitions of a topic, the
	// others are read from their beginning. A place that is gone, was made anew or ends before its
	// mark holds nothing, which is for Verify to judge; what has expired is passed over. When
	// nothing is behind the marks this takes as long as asking for the ends.
	//
	// It waits for a bus that cannot be reached and goes on where it was; no message is told twice.
	// The error is that of each, the cause of ctx, ErrClosed, or one that wraps ErrUnreadable. A
	// message is valid until each returns; its Destination and Time are not set.
	Recall(ctx context.Context, marks []Offset, each func(*Message) error) (ends []Offset, err error)
}

// TopicOf returns the topic of a place that is a partition ("topic/3"), else the place itself.
func TopicOf(place string) string {
	if i := strings.LastIndexByte(place, '/'); i >= 0 {
		return place[:i]
	}
	return place
}

// SetHeader is the inverse of EachHeader: it sets the field of m that a header holds, save the
// time. Other headers are left alone.
func (m *Message) SetHeader(name, value string) {
	switch name {
	case HeaderID:
		m.ID = value
	case HeaderType:
		m.Type = value
	case HeaderVersion:
		m.Version = value
	case HeaderStream:
		m.Stream = value
	case HeaderShard:
		m.Shard = value
	case HeaderRowID:
		// What is no number was not made by bridge, and tells no row.
		m.RowID, _ = strconv.ParseUint(value, 10, 64)
	case HeaderOrigin:
		m.Origin = Origin(value)
	}
}
