package clienttest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.org/bridge/client"
	"example.org/bridge/sink"
)

// Stream is the stream that a Writer publishes.
const Stream = "orders"

// Writer publishes as one run of bridge does, and keeps the table that it makes.
type Writer struct {
	t           testing.TB
	sink        sink.Sink
	destination string
	epoch, seq  uint64
	// pad makes events longer.
	pad []byte
	// Table has what each entity says, by key; IDs are those of all events in their order.
	Table map[string]string
	IDs   []string
}

// NewWriter returns a writer. Of two the one with the higher epoch is the later one.
func NewWriter(t testing.TB, s sink.Sink, destination string, epoch uint64) *Writer {
	return &Writer{t: t, sink: s, destination: destination, epoch: epoch, Table: make(map[string]string)}
}

// Write publishes n events of so many entities; each seventh deletes its entity. The data of an
// event has one member, says.
func (w *Writer) Write(n, entities int) {
	w.t.Helper()
	batch := make([]sink.Message, 0, n)
	for i := range n {
		m := w.next(entities)
		m.State.Index = uint32(i)
		batch = append(batch, m)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if out, err := w.sink.Publish(ctx, batch); err != nil || !out.AllAcked() {
		w.t.Fatalf("published %d of %d: %v", out.Acked(), n, err)
	}
}

// Key returns the key of an entity.
func Key(entity int) string { return fmt.Sprint("key ", entity) }

func (w *Writer) next(entities int) sink.Message {
	w.seq++
	key, says := Key(int(w.seq%uint64(entities))), fmt.Sprint(w.epoch, ".", w.seq)
	m := sink.Message{
		Destination: w.destination, Key: []byte(key), ID: uuid.NewSHA1(uuid.Nil, []byte(says)).String(), Type: "OrderModifiedEvent", Version: "1.0.0",
		Domain: client.DefaultDomain, Stream: Stream, Shard: Stream, RowID: w.seq, Origin: sink.FromTail, Time: time.Now(),
		State: sink.State{Epoch: w.epoch, Seq: w.seq, Hash: 1, Digest: [16]byte{1}},
	}
	w.Table[key] = says
	if w.seq%7 == 0 {
		m.Type, m.State.Kind, m.State.Digest = "OrderDeletedEvent", sink.StateAbsent, [16]byte{}
		delete(w.Table, key)
	}
	m.Value = w.body(&m, says)
	w.IDs = append(w.IDs, m.ID)
	return m
}
