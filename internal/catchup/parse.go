package catchup

import (
	"errors"
	"time"

	"bridge/sink"
)

// errStateless is wrapped where a message of ours has no state: a version before catch-up wrote it.
var errStateless = errors.New("the message has no header " + sink.HeaderState)

// parse sets m to what the headers and the key of a stored message say, but for Stream, Shard and
// At. Its Key is a part of that one. It allocates nothing but an error.
func (m *Message) parse(f *sink.Fields, stored *sink.Stored) (err error) {
	if f.State == nil {
		return errStateless
	}
	*m = Message{Origin: originOf(f.Origin), Dead: string(f.Type) == sink.DeadLetterType}
	if m.State, m.Key, err = f.ParseState(stored); err != nil {
		return err
	}
	if m.Event, err = f.ParseID(); err != nil {
		return err
	}
	if len(f.RowID) == 0 {
		return errors.New("the message has no header " + sink.HeaderRowID)
	}
	if m.Row, err = f.ParseRowID(); err != nil {
		return err
	}
	if published := f.Published(stored); published != 0 {
		m.Time = time.UnixMilli(published).UTC()
	}
	if !m.Dead {
		m.Schema = parseSchema(f.Version, f.Schema)
	}
	return nil
}

// originOf returns the origin without a copy of its text. One that is not known, of a newer
// version, is empty.
func originOf(text []byte) sink.Origin {
	for _, o := range [...]sink.Origin{sink.FromTail, sink.FromLate, sink.FromModified, sink.FromReconcile, sink.FromSnapshot} {
		if string(text) == string(o) {
			return o
		}
	}
	return ""
}
