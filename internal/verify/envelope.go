package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"bridge/event"
)

// envelope is an event as it was read. Its byte slices lie in the message.
type envelope struct {
	id, kind, version []byte
	time              int64
	// uri names the stream: meta.source.uri of a former version, else it is made of domain, which
	// is meta.source.domainId, and the header. named is the memory of that.
	uri, domain, named []byte
	former             bool
	members            []member
	// facts says that it is of a release stream, where reason is a column.
	facts  bool
	reason string
	// database, table and row are data.row.
	database, table []byte
	row             uint64
	// predecessor is the target of the link, nil where there is none.
	predecessor []byte
	uuid, link  [16]byte
}

// member is a column in data: its name and its value as JSON.
type member struct{ name, value []byte }

var (
	errNoJSON     = errors.New("it is no JSON")
	errNoEnvelope = errors.New("it has no meta with a source")
)

// clear empties e and keeps its memory.
func (e *envelope) clear() { *e = envelope{members: e.members[:0], named: e.named, facts: e.facts} }

// parse reads a message into e. After errNoJSON and errNoEnvelope nothing is known of it; after
// another error the source, the database and the table are, where the message has them.
func (e *envelope) parse(value []byte) error {
	e.clear()
	if !json.Valid(value) {
		return errNoJSON
	}
	var meta, data, links []byte
	eachMember(value, func(name, v []byte) bool {
		switch string(name) {
		case `"meta"`:
			meta = v
		case `"data"`:
			data = v
		case `"links"`:
			links = v
		}
		return true
	})
	if !e.parseMeta(meta) {
		return errNoEnvelope
	}
	if err := e.parseData(data); err != nil {
		return err
	}
	if err := e.parseLinks(links); err != nil {
		return err
	}
	if len(e.id) == 0 {
		return errors.New("it has no meta.id")
	}
	var err error
	e.uuid, err = event.ParseID(string(e.id))
	return err
}

// parseMeta reads meta and reports whether it names its source.
func (e *envelope) parseMeta(meta []byte) bool {
	eachMember(meta, func(name, v []byte) bool {
		switch string(name) {
		case `"id"`:
			e.id, _ = unquote(v)
		case `"type"`:
			e.kind, _ = unquote(v)
		case `"version"`:
			e.version, _ = unquote(v)
		case `"time"`:
			// What is no number is seen when the event is encoded again.
			e.time, _ = strconv.ParseInt(string(v), 10, 64)
		case `"source"`:
			eachMember(v, func(name, v []byte) bool {
				switch string(name) {
				case `"uri"`:
					e.uri, _ = unquote(v)
				case `"domainId"`:
					e.domain, _ = unquote(v)
				}
				return true
			})
		}
		return true
	})
	e.former = len(e.uri) > 0
	return e.former || len(e.domain) > 0
}

func (e *envelope) parseData(data []byte) error {
	var row, reason []byte
	eachMember(data, func(name, v []byte) bool {
		switch {
		case string(name) == `"row"`:
			row = v
		case string(name) == `"reason"` && !e.facts:
			reason = v
		default:
			e.members = append(e.members, member{name, v})
		}
		return true
	})
	text, _ := unquote(reason)
	e.reason = string(text)
	var id []byte
	eachMember(row, func(name, v []byte) bool {
		switch string(name) {
		case `"source"`:
			e.database, _ = unquote(v)
		case `"table"`:
			e.table, _ = unquote(v)
		case `"id"`:
			id = v
		}
		return true
	})
	var err error
	if e.row, err = strconv.ParseUint(string(id), 10, 64); err != nil {
		return errors.New("data.row has no id")
	}
	return nil
}

func (e *envelope) parseLinks(links []byte) (err error) {
	n := 0
	ok := eachElement(links, func(link []byte) {
		n++
		eachMember(link, func(name, v []byte) bool {
			if string(name) == `"target"` {
				e.predecessor, _ = unquote(v)
			}
			return true
		})
	})
	switch {
	case !ok:
		return errors.New("it has no links")
	case n == 0:
		return nil
	case n > 1:
		return fmt.Errorf("it has %d links", n)
	case len(e.predecessor) == 0:
		return errors.New("its link leads nowhere")
	}
	e.link, err = event.ParseID(string(e.predecessor))
	return err
}
