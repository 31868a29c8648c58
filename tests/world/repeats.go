package world

import (
	"encoding/json"
	"fmt"
)

// copied is what is kept of a message to compare others with that have the same event id.
type copied struct {
	value digest
	// at is the member modified, or when a row was found to be gone, 0 for neither; rest is the
	// document without it and meta.time.
	at, rest digest
	// offset is where it lies, run the epoch of the process that has published it.
	offset int64
	run    uint64
}

func copiedOf(e *Event) copied {
	c := copied{value: digestOfBytes(e.Value), offset: e.Offset, run: e.stated.Epoch}
	var of struct{ Meta map[string]json.RawMessage }
	if document, err := Document(e.Message); err != nil || json.Unmarshal(document, &of) != nil {
		return c
	}
	at := e.Data["modified"]
	if e.Reason == "ABSENT_IN_SNAPSHOT" {
		at = of.Meta["time"]
	}
	if len(at) == 0 {
		return c
	}
	c.at, c.rest = digestOfBytes(at), digestOf(fmt.Sprint(e.Links))+digestOfMembers(of.Meta, "time")+digestOfMembers(e.Data, "modified")
	return c
}

func digestOfMembers(members map[string]json.RawMessage, but string) (sum digest) {
	for name, value := range members {
		if name != but {
			sum += digestOf(name + ":" + string(value))
		}
	}
	return sum
}

// repeats reports whether two messages have the same bytes, or differ in meta.time and MODIFIED: a
// row whose MODIFIED changes is the same fact as before, and so is a row that is gone.
func (c copied) repeats(other copied) bool {
	return c.value == other.value || c.at != other.at && c.at != 0 && c.rest == other.rest
}

// repeat judges an event that has come before: a person has asked for it, the bus has forgotten it,
// or neither.
func (j *Judge) repeat(e *Event, was copied) {
	switch {
	case e.Origin() == "republish":
		j.record.again(e)
	case e.forgotten:
		j.Forgotten++
	default:
		if j.Repeated++; j.Repeated <= faultsShown {
			j.Repeats = append(j.Repeats, fmt.Sprintf("%s, id %s in %s: offset %d by run %d, and offset %d by run %d",
				e, e.ID, e.Partition, was.offset, was.run, e.Offset, e.stated.Epoch))
		}
	}
}
