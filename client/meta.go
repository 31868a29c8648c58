package client

import (
	"bytes"
	"encoding/json"
)

// kindIn returns meta.type and meta.version of the document in a value, nil where it cannot be
// read. They are parts of the value where the document begins as bridge writes it.
func kindIn(value []byte, format Format) (typ, version []byte) {
	document := value
	if format == FormatCloudEvents {
		// A text cannot hold this: its quotes would be escaped.
		_, document, _ = bytes.Cut(value, []byte(`,"data":`))
	}
	if typ, version, ok := beginning(document); ok {
		return typ, version
	}
	var e struct {
		Meta meta
		Data struct{ Meta meta }
	}
	if json.Unmarshal(value, &e) != nil {
		return nil, nil
	}
	if format == FormatCloudEvents {
		e.Meta = e.Data.Meta
	}
	return []byte(e.Meta.Type), []byte(e.Meta.Version)
}

// meta is what is read of meta.
type meta struct{ Type, Version string }

// beginning reads type and version off the front of a document.
func beginning(document []byte) (typ, version []byte, ok bool) {
	rest, ok := bytes.CutPrefix(document, []byte(`{"meta":{"id":"`))
	if ok {
		_, rest, ok = textTo(rest, `","type":"`)
	}
	if ok {
		typ, rest, ok = textTo(rest, `","version":"`)
	}
	if ok {
		version, _, ok = textTo(rest, `","time":`)
	}
	return typ, version, ok
}

// textTo returns a text without escapes that ends with this.
func textTo(b []byte, end string) (text, rest []byte, ok bool) {
	at := bytes.IndexByte(b, '"')
	if at < 0 || bytes.IndexByte(b[:at], '\\') >= 0 {
		return nil, nil, false
	}
	rest, ok = bytes.CutPrefix(b[at:], []byte(end))
	return b[:at], rest, ok
}
