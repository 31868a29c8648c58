package event

const (
	// Version is that of the schemas, and meta.version of events whose options name no other; see
	// the Eiffel protocol's rules of versioning before changing it.
	Version = "1.0.0"
	// formerSource are the members of meta.source that are the same in all events. Former versions
	// wrote them, and the stream in uri behind them.
	formerSource = `,"name":"bridge","serializer":"pkg:golang/bridge/event@1.0.0","uri":`
	// tombstone is data.reason of a row that is there and marked as deleted.
	tombstone = "TOMBSTONE"
	// filtered is data.reason of a row that is there and does not match the stream's condition.
	filtered = "FILTERED"
	// absentInSnapshot is data.reason of a row that is gone.
	absentInSnapshot = "ABSENT_IN_SNAPSHOT"
)

// appendOrigin appends meta.source, in the form of former versions or in that of now, and what
// leads to the members of data.
func (o Options) appendOrigin(dst []byte, former bool) []byte {
	dst = append(dst, `,"source":{"domainId":`...)
	dst, _ = appendString(dst, []byte(o.Domain))
	if former {
		dst = append(AppendURI(append(dst, formerSource+`"`...), o.Domain, o.Stream), '"')
	}
	return append(dst, `}},"data":{`...)
}

// AppendURI appends the URI of a stream: source of a CloudEvent, and meta.source.uri of events of
// former versions.
func AppendURI[T string | []byte](dst []byte, domain, stream T) []byte {
	dst = appendPercent(append(dst, `bridge://`...), domain)
	return appendPercent(append(dst, '/'), stream)
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
func appendPercent[T string | []byte](dst []byte, text T) []byte {
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
