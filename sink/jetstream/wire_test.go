package jetstream

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// TestWhatIsNotStored: a refusal of the last message of a batch that may come while the batch is
// being stored proves nothing, nor does one that says that the claim is another one.
func TestWhatIsNotStored(t *testing.T) {
	for code, want := range map[int]bool{
		codeBatchIncomplete: true, codeTooManyBatches: true, codeWrongSequenceConst: true, codeExceedsMaximum: true, codeStreamMismatch: true,
		codeWrongLastSequence: false, 10023: false, 10077: false, 10002: false, 0: false,
	} {
		if a := (ack{code: code}); a.notStored() != want {
			t.Errorf("%d: want %t", code, want)
		}
	}
}

// TestWhatIsNoAnswer is a refusal, and proves nothing but where its status says that.
func TestWhatIsNoAnswer(t *testing.T) {
	for _, data := range []string{"", "{", `{"stream":"S"}`, `{"stream":"S","seq":0}`} {
		if a := parseAck(&nats.Msg{Data: []byte(data)}); a.err == nil || a.code != 0 || a.notStored() {
			t.Errorf("%q: %+v, want a refusal without code", data, a)
		}
	}
	for status, want := range map[string]int{"503": statusNobody, "429": statusFull} {
		if a := parseAck(&nats.Msg{Header: nats.Header{"Status": {status}}}); a.err == nil || a.code != want || !a.notStored() {
			t.Errorf("%s: %+v, want a refusal with %d", status, a, want)
		}
	}
}

// TestTheSizeOnTheWire is at most what is computed before sending, by which limits are kept.
func TestTheSizeOnTheWire(t *testing.T) {
	m := sink.Message{
		Destination: "s.a", Key: []byte("k+1"), ID: "0123-4567", Value: []byte("{}"), Type: "T", Version: "1.0.0", Domain: "d", Stream: "st", Shard: "db.t", RowID: 5,
		Origin: sink.FromLate, Time: time.Unix(1, 0),
	}
	repair, bare := m, m
	repair.Again, repair.State = true, sink.State{Epoch: 1<<64 - 1, Seq: 1<<64 - 1}
	bare.Format, bare.Bare = sink.FormatRow, &sink.Bare{Time: -5, Previous: "before", Reason: "TOMBSTONE"}
	own := bare
	own.Format, own.Bare = sink.FormatPayload, &sink.Bare{Headers: []sink.Header{{Name: "trace_id", Value: bytes.Repeat([]byte("x"), 70_000)}}}
	if why := (limits{}).refusal(&own); !strings.Contains(why, "JetStream takes 65535") {
		t.Errorf("refused: %q", why)
	}
	e := newEnvelope()
	for _, m := range []sink.Message{m, repair, bare, own, m} {
		n := e.fill(&m, "reply")
		e.set(headerMsgID, m.DedupID())
		e.set(headerLastSequence, fmt.Sprint(uint64(1<<64-1)))
		e.set(headerLastID, repair.DedupID())
		size := len("NATS/1.0\r\n\r\n") + len(n.Data)
		for name, values := range n.Header {
			size += len(name) + len(values[0]) + len(": \r\n")
		}
		if got := wireSize(&m); got != int64(size) {
			t.Errorf("wireSize is %d, on the wire it is %d", got, size)
		}
	}
	size := wireSize(&m)
	for l, word := range map[limits]string{
		{payload: size, message: size}: "", {message: -1}: "", {payload: size - 1}: "a reload asks again", {payload: size, message: size - 1}: "max_msg_size",
	} {
		if why := l.refusal(&m); (why == "") != (word == "") || !strings.Contains(why, word) {
			t.Errorf("%d bytes for %+v: %q", size, l, why)
		}
	}
}

func TestOptions(t *testing.T) {
	secret := func() (string, error) { return "s", nil }
	for _, c := range []struct {
		name string
		o    Options
		word string
	}{
		{"no URL", Options{}, "no URL"},
		{"a URL that cannot be read", Options{Connection: Connection{URLs: []string{"nats://u:hunter2@h:port"}}}, "URL 1"},
		{"a URL of another scheme", Options{Connection: Connection{URLs: []string{"http://u:hunter2@h"}}}, `"http"`},
		{"two logins", Options{Connection: Connection{URLs: []string{"nats://h"}, Creds: secret, NkeySeed: secret}}, "exclude"},
		{"a stream to create without a name", Options{
			Connection:   Connection{URLs: []string{"nats://h"}},
			CreateStream: true, Subjects: []string{"a"},
		}, "name"},
		{"a claim without a stream", Options{
			Connection: Connection{URLs: []string{"nats://h"}},
			Claim:      "bridge.claim",
		}, "needs the name of the stream"},
		{"a claim with a wildcard", Options{Connection: Connection{URLs: []string{"nats://h"}, Stream: "S"}, Claim: "bridge.*"}, "wildcard"},
	} {
		_, err := Open(c.o)
		must.Fail(t, err, c.word)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows a secret: %v", c.name, err)
		}
	}
}
