package verify

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// epoch stands for the clock where none is needed.
var epoch = time.UnixMilli(0).UTC()

// proof is what an event says about itself.
type proof uint8

const (
	// unproven: what it says does not tell the row that it was made of.
	unproven proof = iota
	// proven: its members make the same meta.id, and its bytes are those of the encoder.
	proven
	// refuted: they do not.
	refuted
	// doubted: they do not, but lossy columns may explain that.
	doubted
)

// verdict is what was found about one event by itself.
type verdict struct {
	proof proof
	op    event.Op
	// digest is that of a proven event of a row that is there.
	digest [16]byte
	// why says why it is refuted or doubted, doubt what could explain it.
	why   string
	doubt columns
	// unread says that its members cannot be read as the shape has them.
	unread bool
	shape  *shape
	values [][]byte
	// key is the text of the entity's key, nil where the event does not tell it.
	key []byte
}

// The reasons of deleted events.
const (
	absent    = "ABSENT_IN_SNAPSHOT"
	tombstone = "TOMBSTONE"
	filtered  = "FILTERED"
)

// prove judges an event by itself, and spreads it.
func (s *schema) prove(m *Message, e *envelope, stamp *stamp) verdict {
	key := m.Key
	if key == nil && stamp.state.Key != "" {
		key = []byte(stamp.state.Key)
	}
	v := s.proveBody(m, e, key)
	s.spread(v.shape, e.members)
	if v.proof != proven && v.proof != refuted {
		v.doubt = s.present()
	}
	if v.key == nil {
		v.key = key
	}
	why := cmp.Or(s.proveHeader(m.Header, e), s.proveState(e, stamp, &v))
	if v.key == nil && s.Kind == event.Capability {
		why = "it lacks a member of the key"
	}
	if why != "" {
		v.proof, v.why = refuted, why
	}
	return v
}

// proveHeader returns what does not fit in the headers that the message has.
func (s *schema) proveHeader(header map[string]string, e *envelope) string {
	for _, c := range [...]struct{ name, want string }{
		{sink.HeaderID, string(e.id)}, {sink.HeaderType, string(e.kind)}, {sink.HeaderVersion, string(e.version)},
		{sink.HeaderDomain, cmp.Or(s.domain, header[sink.HeaderDomain])}, {sink.HeaderStream, s.Stream}, {sink.HeaderShard, s.Name},
	} {
		if got := header[c.name]; got != "" && got != c.want {
			return "its header " + c.name + " is " + strconv.Quote(got) + ", its body says " + strconv.Quote(c.want)
		}
	}
	if got, row := header[sink.HeaderRowID], strconv.FormatUint(e.row, 10); got != "" && got != row {
		return "its header bridge-row-id is " + strconv.Quote(got) + ", its body says " + row
	}
	return ""
}

// proveState returns what does not fit between the header bridge-state, by which bridge recovers,
// and the event: the header names the digest that meta.id is made of.
func (s *schema) proveState(e *envelope, stamp *stamp, v *verdict) string {
	if stamp.epoch == 0 || v.op == "" || v.proof == refuted {
		return ""
	}
	want := sink.StateLive
	switch {
	case e.reason == absent:
		want = sink.StateAbsent
	case v.op == event.Deleted:
		want = sink.StateTombstone
	}
	digest := stamp.state.Digest
	switch {
	case stamp.state.Kind != want:
		return "its header bridge-state does not say, as its body does, whether its row is there"
	case want != sink.StateLive || v.shape.encoder == nil, v.proof == proven && v.digest == digest:
		return ""
	case v.proof != proven:
		for _, op := range s.operations[string(e.kind)] {
			if ev, err := s.encodeAgain(e, v, op, digest); err != nil || ev.ID == string(e.id) {
				return ""
			}
		}
	}
	return "the digest in its header bridge-state is not that of its body and its meta.id"
}

// proveBody encodes the event again from its own members, in each way in which these may have been
// made of columns.
func (s *schema) proveBody(m *Message, e *envelope, key []byte) verdict {
	first, ops := s.shapeOf(e, 0), s.operations[string(e.kind)]
	if len(ops) == 0 {
		return verdict{proof: refuted, shape: first, why: "no event of the stream has its type " + strconv.Quote(string(e.kind))}
	}
	if (ops[0] == event.Deleted) != (e.reason != "") {
		return verdict{proof: refuted, shape: first, why: "its type " + string(e.kind) + " and its reason " + strconv.Quote(e.reason) + " do not go together"}
	}
	v := s.proveAs(first, m, e, key, ops)
	for guess := 1; guess < guesses && (v.proof == doubted || v.unread || v.proof == unproven && first.strange); guess++ {
		other := s.shapeOf(e, guess)
		if other == s.live || other == s.dead {
			continue
		}
		switch w := s.proveAs(other, m, e, key, ops); {
		case w.proof == proven || w.proof == refuted && !w.unread:
			// Its meta.id fits.
			return w
		case v.unread && !w.unread:
			v = w
		}
	}
	return v
}

// proveAs encodes the event again by a shape.
func (s *schema) proveAs(of *shape, m *Message, e *envelope, key []byte, ops []event.Op) verdict {
	values, exact, ok := s.invert(of, e)
	v := verdict{op: ops[0], shape: of, values: values}
	refute := func(why string) verdict {
		v.proof, v.why = refuted, why
		return v
	}
	switch {
	case !ok:
		v.op, v.unread = "", true
		return refute("a member holds what its column does not")
	case of.encoder == nil:
		return v
	}
	of.encoder.As(s.formOf(m, e))
	defer of.encoder.As(s.plain)
	// A key that is no text is null in the event, and whole in the message.
	isNull := slices.ContainsFunc(of.columns.Key, func(c int) bool { return values[c] == nil })
	if v.key = key; !isNull || of.keyed && key == nil {
		v.key = []byte(of.encoder.KeyOf(values))
	}
	var ev event.Event
	fits := false
	for _, op := range ops {
		var err error
		if ev, err = s.encodeAgain(e, &v, op, [16]byte{}); err != nil {
			return v
		}
		if fits = ev.ID == string(e.id); fits {
			v.op = op
			break
		}
	}
	body := ev.Body
	if !fits {
		// A CloudEvent has it twice.
		body = bytes.ReplaceAll(body, []byte(ev.ID), e.id)
	}
	switch same := bytes.Equal(body, m.Value); {
	case fits && !same && (e.reason == "" || e.reason == absent):
		return refute("its meta.id fits, but its bytes are not those of that event")
	case key != nil && !bytes.Equal(v.key, key) && (fits || v.op == event.Deleted):
		return refute("its key is " + strconv.Quote(string(key)) + ", that of the event " + strconv.Quote(string(v.key)))
	case !fits && e.reason == absent:
		return refute("its meta.id does not fit what it says")
	case !same:
		v.unread = true
		return refute("its bytes are not those of an event")
	case fits && (e.reason == "" || e.reason == absent):
		v.proof, v.digest = proven, ev.Digest
	case exact && e.reason == "":
		v.why = "its meta.id does not fit what it says"
		if !of.strange {
			v.proof = doubted
		}
	}
	return v
}

// encodeAgain encodes an event from its values. The state of a row that was deleted by a column is
// not among these, so its meta.id proves nothing.
func (s *schema) encodeAgain(e *envelope, v *verdict, op event.Op, digest [16]byte) (ev event.Event, err error) {
	encoder, read := v.shape.encoder, time.UnixMilli(e.time)
	buf := s.encoded[:0]
	if op == event.Deleted {
		buf, ev, err = encoder.AppendAbsent(buf, event.Absent{Key: v.key, ID: e.row, Read: read, Predecessor: string(e.predecessor)})
		if reason := tombstone; e.reason != absent {
			if e.reason == filtered {
				reason = filtered
			}
			ev.Body = bytes.Replace(ev.Body, []byte(`"reason":"`+absent+`"`), []byte(`"reason":"`+reason+`"`), 1)
		}
	} else {
		row := event.Row{Row: source.Row{ID: e.row, Values: v.values}, Read: read, Predecessor: string(e.predecessor), Op: op, State: digest}
		if op == event.Published {
			row.Op = ""
		}
		buf, ev, err = encoder.Append(buf, row)
	}
	s.encoded = buf
	return ev, err
}

// formOf returns the form of a message whose event is e. A message without bridge-state and
// eiffel-version, which old versions wrote, has the version of the configuration.
func (s *schema) formOf(m *Message, e *envelope) event.Form {
	f := event.Form{Format: m.format(), Version: s.plain.Version, Former: e.former}
	if (m.Header[sink.HeaderVersion] != "" || m.Header[sink.HeaderState] != "") && string(e.version) != f.Version {
		if _, ok := event.ParseVersion(string(e.version)); ok {
			f.Version = string(e.version)
		}
	}
	return f
}
