package sink

import "strconv"

// Headers of every message, on every bus. What may differ between two sends of the same event is here and never in the
// event itself.
const (
	HeaderContentType = "content-type"
	HeaderID          = "eiffel-id"
	HeaderType        = "eiffel-type"
	HeaderVersion     = "eiffel-version"
	HeaderStream      = "bridge-stream"
	HeaderShard       = "bridge-shard"
	HeaderRowID       = "bridge-row-id"
	HeaderOrigin      = "bridge-origin"
	HeaderPublishedAt = "bridge-published-at"
)

// ContentType is the value of HeaderContentType.
const ContentType = "application/json"

// PublishedAtFormat is the layout of HeaderPublishedAt: RFC 3339 in UTC, to the millisecond.
const PublishedAtFormat = "2006-01-02T15:04:05.000Z07:00"

// EachHeader calls yield with the name and value of every header of m, always in the same order.
func (m *Message) EachHeader(yield func(name, value string)) {
	yield(HeaderContentType, ContentType)
	yield(HeaderID, m.ID)
	yield(HeaderType, m.Type)
	yield(HeaderVersion, m.Version)
	yield(HeaderStream, m.Stream)
	yield(HeaderShard, m.Shard)
	yield(HeaderRowID, strconv.FormatUint(m.RowID, 10))
	yield(HeaderOrigin, string(m.Origin))
	yield(HeaderPublishedAt, m.Time.UTC().Format(PublishedAtFormat))
}
