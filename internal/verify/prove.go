package verify

import (
	"bytes"
	"cmp"
	"strconv"
	"time"

	"bridge/event"
	"bridge/sink"
	"bridge/source"
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

// lossy has the columns whose members do not tell their values, as the table's rows show: a bad
// value published as null, a number with leading zeros. Bit 63 stands for the columns from the 64th
// on.
type lossy struct{ nulls, others uint64 }

func bit(column int) uint64 { return 1 << min(column, 63) }

// doubtful are the columns of an event that is doubted: those that are null, and the others.
type doubtful struct{ nulls, others uint64 }

// excuses reports whether a lossy column explains a doubted event.
func (l lossy) excuses(d doubtful) bool { return l.nulls&d.nulls|l.others&d.others != 0 }

// finding is what was found about one event by itself.
type finding struct {
	proof proof
	op    event.Op
	// digest is that of a proven event of a row that is there.
	digest [16]byte
	// why says why it is refuted or doubted, doubt what could explain it.
	why   string
	doubt doubtful
	// usual says that its members are those of the table's columns, strange that one of them is of
	// no column and that it is not proven; unread that a member cannot be read as its column says.
	usual, strange, unread bool
	// variant is how its members are made of columns, nil for as now; form is how it is written.
	variant *variant
	form    event.Form
	// key is the entity's, keyed whether the event tells it.
	key   key
	keyed bool
	// formerKey says that its message has the key of a version that escaped nothing in it.
	formerKey bool
}

func refute(why string) finding { return finding{proof: refuted, why: why} }

// prove judges an event by itself. The event is spread afterwards, unless it was refuted without a
// key.
func (s *schema) prove(m *Message, e *envelope, stamp *stamp) finding {
	names := s.live
	if e.reason != "" {
		names = s.dead
	}
	s.spread(e, names)
	key := m.Key
	if key == nil && stamp.state.Key != "" {
		key = []byte(stamp.state.Key)
	}
	form := s.formOf(m, e)
	f := s.proveBody(m, e, key, names, form)
	if why := s.proveState(e, stamp, &f); why != "" {
		f.proof, f.why = refuted, why
	}
	f.form = form
	f.usual, f.strange = f.variant == nil && e.reason == "", f.variant != nil && f.variant.strange && f.proof != refuted && f.proof != proven
	if f.key, f.keyed = s.keyOf(e.row); !f.keyed && key != nil {
		f.key, f.keyed = s.keyFrom(key, e.row)
	}
	switch why := s.proveHeader(&m.Header, e); {
	case !f.keyed && s.Kind == event.Capability:
		f.proof, f.why = refuted, "it lacks a member of the key"
	case why != "":
		f.proof, f.why = refuted, why
	}
	return f
}

// proveHeader returns what does not fit in the headers that the message has.
func (s *schema) proveHeader(h *Header, e *envelope) string {
	for _, c := range [...]struct{ name, got, want string }{
		{"eiffel-id", h.ID, string(e.id)}, {"eiffel-type", h.Type, string(e.kind)}, {"eiffel-version", h.Version, string(e.version)},
		{"bridge-domain", h.Domain, cmp.Or(s.domain, h.Domain)}, {"bridge-stream", h.Stream, s.Stream}, {"bridge-shard", h.Shard, s.Name},
	} {
		if c.got != "" && c.got != c.want {
			return "its header " + c.name + " is " + strconv.Quote(c.got) + ", its body says " + strconv.Quote(c.want)
		}
	}
	if h.RowID != "" && h.RowID != strconv.FormatUint(e.row, 10) {
		return "its header bridge-row-id is " + strconv.Quote(h.RowID) + ", its body says " + strconv.FormatUint(e.row, 10)
	}
	return ""
}

// proveBody encodes the event again from its own members, in each way in which these may have been
// made of columns.
func (s *schema) proveBody(m *Message, e *envelope, key []byte, names []string, form event.Form) finding {
	ops := s.operation[string(e.kind)]
	if len(ops) == 0 {
		return refute("no event of the stream has its type " + strconv.Quote(string(e.kind)))
	}
	if (ops[0] == event.Deleted) != (e.reason != "") {
		return refute("its type " + string(e.kind) + " and its reason " + strconv.Quote(e.reason) + " do not go together")
	}
	v := s.variantOf(e, names, 0)
	f := s.proveAs(v, m, e, key, ops, form)
	first := s.judged
	for guess := 1; guess < guesses && (f.proof == doubted || f.unread || f.proof == unproven && first.strange); guess++ {
		if other := s.variantOf(e, names, guess); other != nil {
			switch g := s.proveAs(other, m, e, key, ops, form); {
			case g.proof == proven || g.proof == refuted && !g.unread:
				// Its meta.id fits.
				return g
			case f.unread && !g.unread:
				f, first = g, s.judged
			}
		}
	}
	s.judged = first
	return f
}

// proveAs encodes the event again as a variant, nil for that of the table.
func (s *schema) proveAs(v *variant, m *Message, e *envelope, key []byte, ops []event.Op, form event.Form) finding {
	j, exact, ok := judged{encoder: s.Encoder, columns: s.columns, values: s.values}, false, false
	if v == nil {
		exact, ok = s.invertAll(e)
	} else {
		j, exact, ok = v.invert(s, e)
	}
	s.judged = j
	if !ok {
		return finding{proof: refuted, why: "a member holds what its column does not", unread: true}
	}
	f := finding{proof: unproven, op: ops[0], variant: v}
	if j.encoder == nil {
		return f
	}
	j.encoder.As(form)
	defer s.write(s.plain)
	row := event.Row{Row: source.Row{ID: e.row, Values: j.values}, Read: time.UnixMilli(e.time), Predecessor: string(e.predecessor)}
	if e.reason != "" {
		g := s.proveDeleted(m, e, key, row)
		g.variant = v
		return g
	}
	for _, op := range ops {
		if row.Op = op; op == event.Published {
			row.Op = ""
		}
		buf, ev, err := j.encoder.Append(s.buf[:0], row)
		if err != nil {
			return f
		}
		s.buf = buf
		f.op = op
		switch {
		case ev.ID != string(e.id):
			f.op = ops[0]
			continue
		case !bytes.Equal(ev.Body, m.Value):
			f.proof, f.why = refuted, "its meta.id fits, but its bytes are not those of that event"
		case key != nil && !bytes.Equal(ev.Key, key) && !bytes.Equal(formerKey(ev.Key), key):
			f.proof, f.why = refuted, otherKey(key, ev.Key)
		default:
			f.proof, f.digest, f.formerKey = proven, ev.Digest, key != nil && !bytes.Equal(ev.Key, key)
		}
		return f
	}
	if exact {
		f.why, f.doubt = "its meta.id does not fit what it says", s.doubtOf()
		if !j.strange {
			f.proof = doubted
		}
	}
	return f
}

func otherKey(got, want []byte) string {
	return "its key is " + strconv.Quote(string(got)) + ", that of the event " + strconv.Quote(string(want))
}

// proveState returns what does not fit between the header bridge-state, by which bridge recovers,
// and the event, of which f was found: the header names the digest that meta.id is made of.
func (s *schema) proveState(e *envelope, stamp *stamp, f *finding) string {
	if stamp.epoch == 0 || f.op == "" || f.proof == refuted {
		return ""
	}
	want := sink.StateLive
	switch {
	case e.reason == absent:
		want = sink.StateAbsent
	case f.op == event.Deleted:
		want = sink.StateTombstone
	}
	state := &stamp.state
	switch {
	case state.Kind != want:
		return "its header bridge-state does not say, as its body does, whether its row is there"
	case want != sink.StateLive:
		return ""
	case f.proof == proven && state.Digest != f.digest, f.proof != proven && !s.fitsDigest(e, state.Digest):
		return "the digest in its header bridge-state is not that of its body and its meta.id"
	}
	return ""
}

// fitsDigest reports whether an event whose members were inverted last has a meta.id that is made
// of a digest, or cannot be encoded.
func (s *schema) fitsDigest(e *envelope, digest [16]byte) bool {
	if s.judged.encoder == nil {
		return true
	}
	row := event.Row{Row: source.Row{ID: e.row, Values: s.judged.values}, Read: epoch, Predecessor: string(e.predecessor), State: digest}
	for _, op := range s.operation[string(e.kind)] {
		if row.Op = op; op == event.Published {
			row.Op = ""
		}
		buf, ev, err := s.judged.encoder.Append(s.buf[:0], row)
		if err != nil {
			return true
		}
		if s.buf = buf; ev.ID == string(e.id) {
			return true
		}
	}
	return false
}

// doubtOf returns the columns of the event that was spread last.
func (s *schema) doubtOf() (d doubtful) {
	for c, v := range s.raws {
		switch {
		case v == nil:
		case string(v) == "null":
			d.nulls |= bit(c)
		default:
			d.others |= bit(c)
		}
	}
	return d
}

// proveDeleted judges a deleted event. The state of a row that is there is not in it, so its
// meta.id proves nothing.
func (s *schema) proveDeleted(m *Message, e *envelope, want []byte, row event.Row) finding {
	f := finding{proof: unproven, op: event.Deleted}
	encoder := s.judged.encoder
	buf, ev, err := encoder.Append(s.buf[:0], row)
	if err != nil {
		return f
	}
	s.buf = buf
	key := bytes.Clone(ev.Key)
	if want != nil && !bytes.Equal(want, key) && !bytes.Equal(want, formerKey(key)) {
		return finding{proof: refuted, op: event.Deleted, why: otherKey(want, key)}
	}
	buf, ev, err = encoder.AppendAbsent(s.buf[:0], event.Absent{Key: key, ID: e.row, Read: row.Read, Predecessor: row.Predecessor})
	if err != nil {
		return f
	}
	s.buf = buf
	if e.reason == absent {
		switch {
		case ev.ID != string(e.id):
			return finding{proof: refuted, op: event.Deleted, why: "its meta.id does not fit what it says"}
		case !bytes.Equal(ev.Body, m.Value):
			return finding{proof: refuted, op: event.Deleted, why: "its meta.id fits, but its bytes are not those of that event"}
		}
		return finding{proof: proven, op: event.Deleted}
	}
	reason := tombstone
	if e.reason == filtered {
		reason = filtered
	}
	body := bytes.Replace(ev.Body, []byte(`"reason":"`+absent+`"`), []byte(`"reason":"`+reason+`"`), 1)
	// A CloudEvent has it twice.
	body = bytes.ReplaceAll(body, []byte(ev.ID), e.id)
	if !bytes.Equal(body, m.Value) {
		return finding{proof: refuted, op: event.Deleted, why: "its bytes are not those of an event"}
	}
	return f
}

// The reasons of deleted events.
const (
	absent    = "ABSENT_IN_SNAPSHOT"
	tombstone = "TOMBSTONE"
	filtered  = "FILTERED"
)

// invertAll fills s.values from the event that was spread last. What is no member is NULL, save the
// id, which is data.row's.
func (s *schema) invertAll(e *envelope) (exact, ok bool) {
	exact = true
	clear(s.values)
	for c, v := range s.raws {
		if v == nil {
			continue
		}
		value, sure, fits := event.Invert(s.columns.List[c], s.Zone, v)
		if !fits {
			return false, false
		}
		s.values[c], exact = value, exact && sure
	}
	return exact, setID(s.values, s.columns.ID, e.row)
}

// setID puts the id of a row among its values, and reports whether no other one is there.
func setID(values [][]byte, column int, row uint64) bool {
	id := strconv.FormatUint(row, 10)
	if values[column] == nil {
		values[column] = []byte(id)
	}
	return string(values[column]) == id
}

// learn looks which columns of a row its event, which was spread last, does not tell.
func (s *schema) learn(values [][]byte) {
	for c, v := range s.raws {
		if v == nil || c == s.columns.ID {
			continue
		}
		got, exact, ok := event.Invert(s.columns.List[c], s.Zone, v)
		switch {
		case got == nil && values[c] != nil:
			s.lossy.nulls |= bit(c)
		case exact && ok && !bytes.Equal(got, values[c]):
			s.lossy.others |= bit(c)
		}
	}
}
