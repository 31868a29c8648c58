package sink_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"example.org/bridge/sink"
)

var digest = [16]byte{0x46, 0x7d, 0xe4, 0x51, 0x9d, 0x29, 0x4f, 0xc9, 0xb5, 0x85, 0x0c, 0x6f, 0xd9, 0xb6, 0x1c, 0xf4}

func decode(t *testing.T, m sink.Message) sink.DeadLetterDocument {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(m.Value))
	d.DisallowUnknownFields()
	var doc sink.DeadLetterDocument
	if err := d.Decode(&doc); err != nil {
		t.Fatalf("%v in %q", err, m.Value)
	}
	if d.More() || !json.Valid(m.Value) || !utf8.Valid(m.Value) {
		t.Fatalf("not one JSON document in UTF-8: %q", m.Value)
	}
	return doc
}

func refused() sink.Refused {
	return sink.Refused{Reason: "too large", Entity: []byte("\x02a\x02b"), Message: sink.Message{
		Destination: "orders", Key: []byte("a+b"),
		Value: []byte(`{"meta":{"id":"x","time":1700000000123},"data":{"text":"ä\n"},"links":[{"type":"PREVIOUS_VERSION","target":"before"}]}`),
		ID:    "6f1e7f9e-9d8a-5b7c-8d6e-0f1a2b3c4d5e", Type: "OrdersAddedEvent", Version: "1.0.0", Stream: "orders", Shard: "db.orders_07",
		RowID: 18446744073709551615, Origin: sink.FromLate, Time: time.Unix(1700000000, 0),
		Domain: "bridge", State: sink.State{Epoch: 7, Seq: 5, Acked: 3, Index: 1, Digest: digest, Low: 9, Hash: 11},
	}}
}

// What the value does not say, or says further in, a dead letter tells all the same.
func TestDeadLettersOfOtherFormats(t *testing.T) {
	document := refused()
	for name, change := range map[string]func(m *sink.Refused){
		"a CloudEvent": func(m *sink.Refused) {
			m.Format, m.Value = sink.FormatCloudEvents, []byte(`{"specversion":"1.0","id":"x","data":`+string(document.Value)+`}`)
		},
		"a row": func(m *sink.Refused) {
			m.Format, m.Value = sink.FormatRow, []byte(`{"text":"ä\n"}`)
			m.Bare = &sink.Bare{Time: 1700000000123, Previous: "before"}
		},
	} {
		m := refused()
		change(&m)
		dead := sink.DeadLetter(m, "dead", 1<<20)
		if got := decode(t, dead); got.EventTime != 1700000000123 || got.Previous != "before" || got.Excerpt != string(m.Value) || got.Digest != sink.Digest(m.Value) {
			t.Errorf("%s: %+v", name, got)
		}
		if dead.Format != sink.FormatEiffel || dead.Bare != nil {
			t.Errorf("%s: the dead letter has its format", name)
		}
	}
}

var uuid5 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestDeadLetterSaysWhatWasRefused(t *testing.T) {
	m := refused()
	dead := sink.DeadLetter(m, "dead", 1<<20)
	want := sink.DeadLetterDocument{
		Stream: m.Stream, Shard: m.Shard, Key: "a+b", Entity: m.Entity, EventID: m.ID, EventType: m.Type, Destination: "orders", Reason: "too large",
		EventTime: 1700000000123, Previous: "before", Digest: sink.Digest(m.Value),
		Excerpt: string(m.Value), RowID: m.RowID, Size: len(m.Value),
	}
	if got := decode(t, dead); !reflect.DeepEqual(got, want) {
		t.Errorf("the document is\n%+v, want\n%+v", got, want)
	}
	if read, err := sink.ParseDeadLetter(dead.Value); err != nil || read.RowID != m.RowID || read.Reason != m.Reason {
		t.Errorf("it is read as %+v, %v", read, err)
	}
	if dead.Destination != "dead" || !bytes.Equal(dead.Key, m.Key) || dead.Type != sink.DeadLetterType || dead.Version != sink.DeadLetterVersion ||
		dead.Stream != m.Stream || dead.Shard != m.Shard || dead.RowID != m.RowID || dead.Origin != m.Origin || !dead.Time.Equal(m.Time) || dead.Domain != m.Domain {
		t.Errorf("the message is %+v", dead)
	}
	if !uuid5.MatchString(dead.ID) || dead.ID == m.ID {
		t.Errorf("the id is %q", dead.ID)
	}
}

// Rule 19: recovery applies a dead letter as the event that was refused.
func TestDeadLetterHasTheStateOfWhatWasRefused(t *testing.T) {
	m := refused()
	m.Key = []byte(strings.Repeat("größe+", 3000) + " ")
	dead := sink.DeadLetter(m, "dead", sink.MinDeadLetter)
	want := m.State
	want.Key = string(m.Key)
	want.Event = [16]byte{0x6f, 0x1e, 0x7f, 0x9e, 0x9d, 0x8a, 0x5b, 0x7c, 0x8d, 0x6e, 0x0f, 0x1a, 0x2b, 0x3c, 0x4d, 0x5e}
	if dead.State != want {
		t.Errorf("the state is %+v, want %+v", dead.State, want)
	}
	for _, keyless := range []bool{false, true} {
		if got, err := sink.ParseState(string(dead.AppendState(nil, keyless))); err != nil || got != want {
			t.Errorf("keyless %t: %+v, %v, want %+v", keyless, got, err, want)
		}
	}
	m.ID = "no event of bridge"
	if got := sink.DeadLetter(m, "dead", sink.MinDeadLetter).State.Event; got != [16]byte{} {
		t.Errorf("the event is %x", got)
	}
}

func TestDeadLetterRepeatsAreTheSame(t *testing.T) {
	first := sink.DeadLetter(refused(), "dead", 4096)
	later := refused()
	later.Time, later.Origin = later.Time.Add(time.Hour), sink.FromTail
	second := sink.DeadLetter(later, "dead", 4096)
	if first.ID != second.ID || !bytes.Equal(first.Value, second.Value) || !bytes.Equal(first.Key, second.Key) {
		t.Errorf("a repeat differs:\n%s %s\n%s %s", first.ID, first.Value, second.ID, second.Value)
	}
	for name, change := range map[string]func(m *sink.Refused, destination *string){
		"event":       func(m *sink.Refused, _ *string) { m.ID = "another" },
		"destination": func(_ *sink.Refused, destination *string) { *destination = "elsewhere" },
		"reason":      func(m *sink.Refused, _ *string) { m.Reason = "larger" },
	} {
		m, destination := refused(), "dead"
		change(&m, &destination)
		if sink.DeadLetter(m, destination, 4096).ID == first.ID {
			t.Errorf("another %s has the same id", name)
		}
	}
}

func TestDeadLetterCutsAtACharacter(t *testing.T) {
	m := refused()
	text := strings.Repeat("€\"\n😀", 10_000)
	for limit := 1024; limit < 1100; limit++ {
		m.Value = []byte(text)
		dead := sink.DeadLetter(m, "dead", limit)
		doc := decode(t, dead)
		if !doc.Truncated || doc.Size != len(text) || !strings.HasPrefix(text, doc.Excerpt) {
			t.Fatalf("limit %d: truncated %v, size %d, excerpt ends in %q", limit, doc.Truncated, doc.Size, doc.Excerpt[len(doc.Excerpt)-8:])
		}
		if size := len(dead.Value) + len(dead.Key); size > limit || size < limit-10 {
			t.Fatalf("limit %d: the dead letter has %d bytes", limit, size)
		}
	}
}

func FuzzDeadLetter(f *testing.F) {
	f.Add("orders", "db.t", []byte("key"), []byte(`{"a":1}`), "too large", 1000)
	f.Add("\x00\xff", "\"\\", bytes.Repeat([]byte{0}, 5000), bytes.Repeat([]byte("\xf0\x9f\x98"), 3000), strings.Repeat("\x01", 4000), -1)
	f.Add("", "", []byte(nil), []byte(nil), "", 1<<20)
	f.Fuzz(func(t *testing.T, stream, shard string, key, value []byte, reason string, limit int) {
		m := sink.Refused{Reason: reason, Entity: key, Message: sink.Message{
			Destination: stream, Stream: stream, Shard: shard, Key: key, Value: value, ID: shard, Type: reason, RowID: uint64(limit),
		}}
		dead := sink.DeadLetter(m, "dead", limit)
		if size := len(dead.Value) + len(dead.Key); size > max(limit, sink.MinDeadLetter) {
			t.Fatalf("%d bytes with a limit of %d", size, limit)
		}
		doc := decode(t, dead)
		if doc.RowID != m.RowID || doc.Size != len(value) || doc.Digest != sink.Digest(value) {
			t.Fatalf("row %d of size %d, want %d and %d", doc.RowID, doc.Size, m.RowID, len(value))
		}
		if doc.Entity != nil && !bytes.Equal(doc.Entity, key) {
			t.Fatalf("entity %q of %q", doc.Entity, key)
		}
		if utf8.Valid(value) && (!strings.HasPrefix(string(value), doc.Excerpt) || doc.Truncated == (doc.Excerpt == string(value))) {
			t.Fatalf("excerpt %q (truncated: %v) of %q", doc.Excerpt, doc.Truncated, value)
		}
		again := sink.DeadLetter(m, "dead", limit)
		if again.ID != dead.ID || !bytes.Equal(again.Value, dead.Value) || !uuid5.MatchString(dead.ID) {
			t.Fatalf("not deterministic: %s, %s", dead.ID, again.ID)
		}
	})
}

func TestWhatIsNoDeadLetter(t *testing.T) {
	for _, text := range []string{"", "hello", "[]", `{"meta":{"id":"x"}}`, `{"stream":"a","shard":"b"}`, `{"stream":1}`} {
		if l, err := sink.ParseDeadLetter([]byte(text)); err == nil {
			t.Errorf("%s is read as %+v", text, l)
		}
	}
}
