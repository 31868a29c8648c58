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

type proof uint8

const (
	// unproven: the event does not identify the row that it was made of.
	unproven proof = iota
	// proven: its members make the same meta.id, and the encoder makes the same bytes.
	proven
	// refuted: they do not.
	refuted
	// doubted: they do not, but lossy columns may explain that.
	doubted
)

type verdict struct {
	*reading
	proof  proof
	op     event.Op
	digest [16]byte
	// why says why it is refuted or doubted, doubt what could explain it.
	why   string
	doubt columns
	// unread says that its members cannot have been made as the reading has them.
	unread bool
	// form is the form of digests by which it was made, where that is not the one of now.
	form uint32
	// key is the text of the entity's key, nil where the event does not tell it.
	key []byte
}

const (
	absent    = "ABSENT_IN_SNAPSHOT"
	tombstone = "TOMBSTONE"
	filtered  = "FILTERED"
	untouched = "STALE"
)

// isAbsent reports whether the reason is one of an entity that has no row.
func (e *envelope) isAbsent() bool { return e.reason == absent || e.reason == untouched }

func (s *schema) prove(m *Message, e *envelope, stamp *stamp) verdict {
	key := m.Key
	if key == nil && (stamp.Key != "" || stamp.Epoch != 0 && s.Encoder.Payload() != nil) {
		// An empty key is left out, and a payload has no members that tell it.
		key = []byte(stamp.Key)
	}
	v := s.proveBody(m, e, key)
	if v.form = s.formerForm(m); v.form != 0 && v.proof == doubted {
		v.proof, v.strange, v.usual = unproven, true, false
	}
	if v.proof != proven && v.proof != refuted {
		v.doubt = s.present(&v.body)
	}
	if v.key == nil {
		v.key = key
	}
	why := cmp.Or(s.proveHeader(m.header, e), s.proveState(e, stamp, &v))
	if v.key == nil && s.Kind == event.Capability {
		why = "it lacks a member of the key"
	}
	if why != "" {
		v.proof, v.why = refuted, why
	}
	return v
}

func (s *schema) proveHeader(header map[string]string, e *envelope) string {
	for _, c := range [...]struct{ name, want string }{
		{sink.HeaderID, string(e.id)}, {sink.HeaderType, string(e.kind)}, {sink.HeaderVersion, string(e.version)},
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
	if stamp.Epoch == 0 || v.op == "" || v.proof == refuted {
		return ""
	}
	want := sink.StateLive
	switch {
	case e.isAbsent():
		want = sink.StateAbsent
	case v.op == event.Deleted:
		want = sink.StateTombstone
	}
	digest := stamp.Digest
	switch {
	case stamp.Kind != want:
		return "its header bridge-state does not say, as its body does, whether its row is there"
	case want != sink.StateLive, v.proof == proven && v.digest == digest:
		return ""
	case v.proof != proven:
		if _, fits := s.fits(e, v, digest, s.operations[string(e.kind)]); fits {
			return ""
		}
	}
	return "the digest in its header bridge-state is not that of its body and its meta.id"
}

func (v *verdict) said(e *envelope, op event.Op) *event.Said {
	return &event.Said{
		ID: e.uuid, Op: op, Reason: e.reason, Time: time.UnixMilli(e.time), Key: v.key, Row: e.row, Predecessor: string(e.predecessor), Members: e.members,
		Shard: e.shard,
	}
}

// fits reports with which of the operations a digest makes the meta.id of the event, if any.
func (s *schema) fits(e *envelope, v *verdict, digest [16]byte, ops []event.Op) (event.Op, bool) {
	for _, op := range ops {
		said := v.said(e, op)
		if s.anyWidth(v.values, s.columns.Key, func() bool { return s.Encoder.IDOf(said, v.values, digest) == e.uuid }) {
			return op, true
		}
	}
	return ops[0], false
}

// anyWidth reports whether fits does with the bit fields among these columns in any of their
// widths, which no event tells.
func (s *schema) anyWidth(values [][]byte, columns []int, fits func() bool) bool {
	for i, c := range columns {
		v := values[c]
		if s.columns.List[c].Kind != source.Bit || v == nil {
			continue
		}
		defer func() { values[c] = v }()
		for width := len(v); width <= 8; width++ {
			values[c] = append(make([]byte, width-len(v)), v...)
			if s.anyWidth(values, columns[i+1:], fits) {
				return true
			}
		}
		return false
	}
	return fits()
}

// proveBody computes the digest and meta.id again from the event's own members, in each way in
// which these may have been made of columns.
func (s *schema) proveBody(m *Message, e *envelope, key []byte) verdict {
	first, ops := s.read(e, 0), s.operations[string(e.kind)]
	if len(ops) == 0 {
		return verdict{reading: first, proof: refuted, why: "no event of the stream has its type " + strconv.Quote(string(e.kind))}
	}
	fitting := e.reason == ""
	if ops[0] == event.Deleted {
		fitting = e.isAbsent() || e.reason == tombstone || e.reason == filtered
	}
	if !fitting {
		return verdict{reading: first, proof: refuted, why: "its type " + string(e.kind) + " and its reason " + strconv.Quote(e.reason) + " do not go together"}
	}
	v := s.proveAs(first, m, e, key, ops)
	for guess := 1; guess < guesses && (v.proof == doubted || v.unread || v.proof == unproven && first.strange); guess++ {
		other := s.read(e, guess)
		if other.usual {
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

// proveAs judges one reading of an event. The state of a row that was deleted by a column is not
// among its members, so its meta.id proves nothing.
func (s *schema) proveAs(r *reading, m *Message, e *envelope, key []byte, ops []event.Op) verdict {
	v := verdict{reading: r, op: ops[0], key: key}
	refute := func(why string) verdict {
		v.proof, v.why = refuted, why
		return v
	}
	if !r.fits {
		v.op, v.unread = "", true
		return refute("a member holds what its column does not")
	}
	if own, whole := s.keyOf(r, key); whole || key == nil {
		v.key = own
	}
	if e.reason == "" {
		v.digest = s.digest(r)
	}
	var fits bool
	v.op, fits = s.fits(e, &v, v.digest, ops)
	switch same := s.isWritten(m, e, &v); {
	case fits && !same && (e.reason == "" || e.isAbsent()):
		return refute("its meta.id fits, but its bytes are not those of that event")
	case key != nil && !bytes.Equal(v.key, key) && (fits || v.op == event.Deleted):
		return refute("its key is " + strconv.Quote(string(key)) + ", that of the event " + strconv.Quote(string(v.key)))
	case !fits && e.isAbsent():
		return refute("its meta.id does not fit what it says")
	case !same:
		v.unread = true
		return refute("its bytes are not those of an event")
	case fits && (e.reason == "" || e.isAbsent()):
		v.proof = proven
	case r.exact && e.reason == "":
		v.why = "its meta.id does not fit what it says"
		if !r.strange {
			v.proof = doubted
		}
	}
	return v
}

// keyOf returns the text of the key by the members of an event, nil where these lack a column of
// it, and whether they tell all of it. A value that is no text is null in the event, and whole in
// the key of the message: then the values are taken from that.
func (s *schema) keyOf(r *reading, key []byte) (own []byte, whole bool) {
	own, whole = []byte{}, true
	lacks := false
	for n, c := range s.columns.Key {
		if n > 0 {
			own = append(own, '+')
		}
		v, i := r.values[c], slices.Index(r.at, c)
		lacks = lacks || i < 0 && (c != s.columns.ID || s.sharesIDs())
		if whole = whole && v != nil; v != nil && i >= 0 && (r.columns[i].Kind == source.Binary || r.columns[i].Kind == source.Bit) {
			// It stands there as in the member.
			v = []byte(textOf(r.members[i].Value))
		}
		own = event.AppendKeyText(own, v)
	}
	if values, err := s.Encoder.KeyValues(key, nil); err == nil && key != nil && !whole {
		for i, c := range s.columns.Key {
			if r.values[c] == nil {
				r.values[c], r.exact = values[i], r.exact && s.columns.List[c].Kind != source.Bit
			}
		}
	}
	if lacks {
		own = nil
	}
	return own, whole
}

// isWritten reports whether a message is, byte for byte, how its event is written.
func (s *schema) isWritten(m *Message, e *envelope, v *verdict) bool {
	s.Encoder.As(s.formOf(m, e))
	s.encoded = s.Encoder.Rewrite(s.encoded[:0], v.said(e, v.op))
	s.Encoder.As(s.plain)
	if !bytes.Equal(s.encoded, m.Value) {
		return false
	}
	for i := range v.members {
		name, _ := unquote(v.members[i].Name)
		s.encoded = s.Encoder.AppendValue(s.encoded[:0], &source.Column{Kind: source.Text}, name)
		if !bytes.Equal(s.encoded, v.members[i].Name) {
			return false
		}
		s.encoded = s.Encoder.AppendValue(s.encoded[:0], &v.columns[i], v.values[v.at[i]])
		if !bytes.Equal(s.encoded, v.members[i].Value) {
			return false
		}
	}
	// meta.time is MODIFIED, else CREATED, else any moment.
	for _, c := range [...]int{s.columns.Modified, s.columns.Created} {
		i := slices.Index(v.at, c)
		if c >= 0 && i < 0 {
			return true
		}
		if c >= 0 && e.reason == "" {
			if t, ok := v.columns[i].Time(v.values[c], s.Zone); ok {
				return t.UnixMilli() == e.time
			}
		}
	}
	return true
}

// formOf returns the form of a message whose event is e. A message without bridge-state and
// eiffel-version, which old versions wrote, has the version of the configuration.
func (s *schema) formOf(m *Message, e *envelope) event.Form {
	f := event.Form{Format: m.format(), Version: s.plain.Version}
	if (m.header[sink.HeaderVersion] != "" || m.header[sink.HeaderState] != "") && string(e.version) != f.Version {
		if _, ok := event.ParseVersion(string(e.version)); ok {
			f.Version = string(e.version)
		}
	}
	return f
}
