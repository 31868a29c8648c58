package event

const (
	// Version is that of the schemas, and meta.version of events whose options name no other; see
	// the Eiffel protocol's rules of versioning before changing it.
	Version = "1.0.0"
	// serializer is meta.source.serializer. Its version is that of the encoding, not of the
	// program: two programs that encode alike name the same one.
	serializer = "pkg:golang/bridge/event@1.0.0"
	// tombstone is data.reason of a row that is there and marked as deleted.
	tombstone = "TOMBSTONE"
	// filtered is data.reason of a row that is there and does not match the stream's condition.
	filtered = "FILTERED"
	// absentInSnapshot is data.reason of a row that is gone.
	absentInSnapshot = "ABSENT_IN_SNAPSHOT"
)

// appendOrigin appends meta.source and what leads to the members of data.
func (o Options) appendOrigin(dst []byte) []byte {
	dst = append(dst, `,"source":{"domainId":`...)
	dst, _ = appendString(dst, []byte(o.Domain))
	dst = append(dst, `,"name":"bridge","serializer":"`+serializer+`","uri":`...)
	return append(o.appendURI(dst), `}},"data":{`...)
}

// appendURI appends meta.source.uri as a JSON string.
func (o Options) appendURI(dst []byte) []byte {
	dst = appendPercent(append(dst, `"bridge://`...), o.Domain)
	dst = appendPercent(append(dst, '/'), o.Stream)
	return append(dst, '"')
}

// appendRow appends data.row up to the row's id.
func (o Options) appendRow(dst []byte) []byte {
	dst = append(dst, `"row":{"source":`...)
	dst, _ = appendString(dst, []byte(o.Source))
	dst = append(dst, `,"table":`...)
	dst, _ = appendString(dst, []byte(o.Table))
	return append(dst, `,"id":`...)
}

// appendPercent appends text with every byte percent-encoded that is not unreserved in a URI (RFC
// 3986, section 2.3).
func appendPercent(dst []byte, text string) []byte {
	const upperHex = "0123456789ABCDEF"
	for i := range len(text) {
		b := text[i]
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '-', b == '.', b == '_', b == '~':
			dst = append(dst, b)
		default:
			dst = append(dst, '%', upperHex[b>>4], upperHex[b&0xf])
		}
	}
	return dst
}
