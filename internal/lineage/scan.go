package lineage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"example.org/bridge/event"
	"example.org/bridge/internal/published"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// Stream is a stream whose messages are read.
type Stream struct {
	Name, Domain string
	Kind         event.Kind
	// Destinations and Hash are as in stream.Stream. KeyIsID says that the id is the key.
	Destinations []string
	Hash         uint32
	KeyIsID      bool
	// Tables are the configured tables.
	Tables []string
	// Since has for each shard the epoch below which messages do not count.
	Since map[string]uint64
}

// Fact is what the newest message of a row says.
type Fact struct {
	Epoch, Seq uint64
	// Live says that the row was there, with Content.
	Live    bool
	Content uint64
	// Form and Born come from the message, Identity is made of Born and the key.
	Form     uint32
	Identity uint64
	// Server and Started say where the row was read; Server is empty where that is not known.
	Server  string
	Started int64
	// Value is the value of the message, where it was asked for.
	Value []byte
}

// compares reports whether the row of f can be compared with a table.
func (f *Fact) compares() bool { return f.Live && f.Form != 0 }

func (f *Fact) newer(other *Fact) bool {
	return other == nil || f.Epoch > other.Epoch || f.Epoch == other.Epoch && f.Seq > other.Seq
}

// Newest has the newest facts of a shard by their rows.
type Newest map[uint64]*Fact

// List returns the rows as a list of rows published last has them, and what they were read from: at
// most limit with the highest ids. Those that do not compare with the fact that was published last
// are left out.
func (n Newest) List(limit int) ([]published.Row, published.Origin) {
	var last, known *Fact
	for _, f := range n {
		if f.compares() && f.newer(last) {
			last = f
		}
	}
	if last == nil {
		return nil, published.Origin{}
	}
	origin := published.Origin{Shape: uint64(last.Form), Server: last.Server, Started: last.Started}
	var rows []published.Row
	for id, f := range n {
		if f.compares() && f.Form == last.Form {
			rows = append(rows, published.Row{ID: id, Content: f.Content, Identity: f.Identity})
			if f.Server != "" && f.newer(known) {
				known = f
			}
		}
	}
	if origin.Server == "" && known != nil {
		origin.Server, origin.Started = known.Server, known.Started
	}
	slices.SortFunc(rows, func(a, b published.Row) int { return cmp.Compare(a.ID, b.ID) })
	return rows[max(0, len(rows)-limit):], origin
}

// Values returns the values of the rows that have one.
func (n Newest) Values() map[uint64][]byte {
	values := make(map[uint64][]byte)
	for id, f := range n {
		if f.Live && f.Value != nil {
			values[id] = f.Value
		}
	}
	return values
}

const (
	// Window is how many of the newest messages of a TP are read first; as long as more are wanted,
	// windowGrows times as many.
	Window, windowGrows = 1000, 8
	// enoughRows are as many rows of a table as are wanted.
	enoughRows = 16
	// mostInAll bounds the messages of all TPs, but for Window of each: what they say is in memory.
	mostInAll = 500_000
)

// emptyEnd is the highest end of a TP that nothing was published to.
const emptyEnd = 1

// Found is what a scan has found.
type Found struct {
	Tables map[string]Newest
	// Expired says that the TPs had messages and have none any more.
	Expired bool
}

// Scan reads the newest messages of a stream: of each TP Window, and up to most where a table of it
// has fewer rows among them than are wanted, and no rows of those whose values are wanted. Of many
// TPs it reads less of each. It waits for the bus. What cannot be read any more is left out.
func Scan(ctx context.Context, reader sink.Reader, s *Stream, most uint64, values map[uint64]bool) (found Found, err error) {
	tps, err := reader.TPs(ctx, s.Destinations)
	if err != nil {
		return Found{}, err
	}
	r := &scan{Stream: s, values: values, found: make(map[string]Newest), since: maps.Clone(s.Since)}
	from, all := make([]uint64, len(tps)), len(tps) > 0
	for i := range tps {
		from[i] = tps[i].Stable
		all = all && tps[i].First == tps[i].End && tps[i].End > emptyEnd
	}
	if values == nil {
		most = min(most, mostInAll/max(1, uint64(len(tps))))
	}
	for window := uint64(Window); ; window *= windowGrows {
		window = min(window, max(most, Window))
		left := false
		for i := range tps {
			tp := &tps[i]
			next := tp.First
			if tp.Stable-min(tp.Stable, window) > next {
				next, left = tp.Stable-window, true
			}
			if next >= from[i] {
				continue
			}
			if err := r.read(ctx, reader, sink.Span{TP: tp.Name, Incarnation: tp.Incarnation, From: next, To: from[i]}); err != nil {
				return Found{}, err
			}
			from[i] = next
		}
		if !left || window >= most || r.enough() {
			return Found{r.found, all}, nil
		}
	}
}

type scan struct {
	*Stream
	values map[uint64]bool
	found  map[string]Newest
	// since has the highest that messages of a shard have told.
	since map[string]uint64
	// batches are the batches of a shard in the TP.
	batches map[string]batchOrigin
	fields  sink.Fields
}

// batchOrigin has what the first message of a batch in a TP says about the later ones.
type batchOrigin struct {
	epoch   uint64
	server  string
	started int64
}

func (r *scan) read(ctx context.Context, reader sink.Reader, span sink.Span) error {
	r.batches = make(map[string]batchOrigin)
	for {
		next, err := reader.Read(ctx, span, func(m *sink.Stored) error { r.accept(m); return nil })
		var expired *sink.ExpiredError
		switch {
		case errors.As(err, &expired) && expired.First < span.To && expired.First > next:
			span.From = expired.First
			continue
		case errors.Is(err, sink.ErrExpired), errors.Is(err, sink.ErrGone), errors.Is(err, sink.ErrBehind):
			// Catch-up says what that means.
			return nil
		}
		return err
	}
}

func (r *scan) accept(m *sink.Stored) {
	f := &r.fields
	f.Read(m)
	if string(f.Stream) != r.Name || string(f.Domain) != r.Domain {
		return
	}
	message, err := stream.ParseMessage(m)
	if err != nil || message.Dead || message.State.Hash != r.Hash {
		return
	}
	shard, state := string(f.Shard), &message.State
	if state.Since > r.since[shard] {
		if r.since == nil {
			r.since = make(map[string]uint64)
		}
		r.since[shard] = state.Since
		for row, fact := range r.found[shard] {
			if fact.Epoch < state.Since {
				delete(r.found[shard], row)
			}
		}
	}
	if state.Epoch < r.since[shard] {
		return
	}
	if started, server := sink.ParseServer(f.Server); server != "" {
		r.batches[shard] = batchOrigin{state.Epoch, server, started}
	}
	if r.values != nil && !r.values[message.Row] {
		return
	}
	fact := &Fact{Epoch: state.Epoch, Seq: state.Seq, Live: state.Kind == sink.StateLive}
	fact.Content = published.ContentOf(state.Digest)
	if from := r.batches[shard]; from.epoch == state.Epoch {
		fact.Server, fact.Started = from.server, from.started
	}
	form, born := sink.ParseForm(f.Form)
	key := message.Key
	if r.Kind == event.Release || r.KeyIsID {
		key = nil
	}
	fact.Form, fact.Identity = form, published.IdentityOf(event.Born(born), key)
	if r.values[message.Row] {
		fact.Value = bytes.Clone(m.Value)
	}
	if r.found[shard] == nil {
		r.found[shard] = make(Newest)
	}
	if was := r.found[shard][message.Row]; fact.newer(was) {
		r.found[shard][message.Row] = fact
	}
}

// enough reports whether no more messages are wanted: of each table some rows compare, and it is
// known where they were read, or all values were found.
func (r *scan) enough() bool {
	for _, table := range r.Tables {
		found := r.found[table]
		if rows, origin := found.List(enoughRows); r.values == nil && (len(rows) < enoughRows || origin.Server == "") {
			return false
		}
		for row := range r.values {
			if f := found[row]; f == nil {
				return false
			}
		}
	}
	return true
}
