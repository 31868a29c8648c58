package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"example.org/bridge/sink"
)

func TestParseAck(t *testing.T) {
	for _, c := range []struct {
		data string
		want ack
	}{
		{`{"stream":"S","seq":7}`, ack{stream: "S", seq: 7}},
		{`{"stream":"S","domain":"hub","seq":18446744073709551615}`, ack{stream: "S", seq: 1<<64 - 1}},
		{`{"stream":"S","seq":7,"duplicate": true}`, ack{stream: "S", seq: 7, duplicate: true}},
		{`{"stream":"SS","seq":7}`, ack{stream: "SS", seq: 7}},
		{`{"stream":"S","seq":7,"batch":"b1","count":3}`, ack{stream: "S", seq: 7, count: 3}},
		{`{"stream":"S\u0022","seq":7}`, ack{stream: `S"`, seq: 7}},
		{`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"},"stream":"S","seq":0}`, ack{stream: "S", code: 10071}},
	} {
		got := parseAck(&nats.Msg{Data: []byte(c.data)})
		if (got.err != nil) != (c.want.code != 0) {
			t.Errorf("%s: error %v", c.data, got.err)
		}
		got.err = nil
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.data, got, c.want)
		}
	}
	for status, want := range map[string]int{"503": statusNobody, "429": statusFull} {
		if a := parseAck(&nats.Msg{Header: nats.Header{"Status": {status}}}); a.err == nil || a.code != want || !a.notStored() {
			t.Errorf("%s: %+v, want a refusal with %d", status, a, want)
		}
	}
	for _, m := range []*nats.Msg{
		{},
		{Data: []byte(`{`)}, {Data: []byte(`{"stream":"S"}`)}, {Data: []byte(`{"stream":"S","seq":0}`)},
	} {
		if a := parseAck(m); a.err == nil || a.code != 0 {
			t.Errorf("%q with %v: %+v, want a refusal without code", m.Data, m.Header, a)
		}
	}
}

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

func TestEnvelope(t *testing.T) {
	m := sink.Message{
		Destination: "s.a", Key: []byte("k+1"), ID: "0123-4567", Value: []byte("{}"), Type: "T", Version: "1.0.0", Domain: "d", Stream: "st", Shard: "db.t", RowID: 5,
		Origin: sink.FromLate, Time: time.Unix(1, 0),
	}
	e := newEnvelope()

	t.Run("the size before sending bounds the size on the wire", func(t *testing.T) {
		repair := m
		repair.Again, repair.State = true, sink.State{Epoch: 1<<64 - 1, Seq: 1<<64 - 1}
		bare := m
		bare.Format, bare.Bare = sink.FormatRow, &sink.Bare{Time: -5, Previous: "before", Reason: "TOMBSTONE"}
		own := bare
		own.Format, own.Bare = sink.FormatPayload, &sink.Bare{Headers: []sink.Header{{Name: "trace_id", Value: bytes.Repeat([]byte("x"), 70_000)}}}
		if why := (limits{}).refusal(&own); !strings.Contains(why, "JetStream takes 65535") {
			t.Errorf("refused: %q", why)
		}
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
	})

	t.Run("a fence is gone with the next message", func(t *testing.T) {
		e.fill(&m, "reply")
		for _, name := range []string{headerStream, headerLastSequence, headerLastID} {
			e.set(name, "7")
		}
		n := e.fill(&m, "reply")
		for name := range n.Header {
			if strings.HasPrefix(name, "Nats-Expected") {
				t.Errorf("header %s is left", name)
			}
		}
		if len(n.Header) != 9 || n.Header.Get(sink.HeaderOrigin) != "late" {
			t.Errorf("the headers are %v", n.Header)
		}
	})

	t.Run("limits are met to the byte", func(t *testing.T) {
		size := wireSize(&m)
		for _, c := range []struct {
			limits limits
			word   string
		}{
			{limits{}, ""}, {limits{payload: size, message: size}, ""}, {limits{message: -1}, ""},
			{limits{payload: size - 1}, "max_payload"}, {limits{payload: size, message: size - 1}, "max_msg_size"},
		} {
			why := c.limits.refusal(&m)
			if (why == "") != (c.word == "") || !strings.Contains(why, c.word) {
				t.Errorf("%+v: %q", c.limits, why)
			}
			if why != "" && (!strings.Contains(why, fmt.Sprint(size)) || !strings.Contains(why, fmt.Sprint(size-1))) {
				t.Errorf("%q does not name the size %d and the limit", why, size)
			}
		}
	})
}

// TestAClosedSinkHasNoWorker: what has just found its stream ends with the sink.
func TestAClosedSinkHasNoWorker(t *testing.T) {
	s := &Sink{workers: map[string]*worker{}, routes: map[string][]string{"S": {"a"}}}
	s.life, s.end = context.WithCancel(t.Context())
	s.end()
	batch := []sink.Message{{Destination: "a"}}
	out, err := s.publishRouted(t.Context(), batch)
	if !errors.Is(err, sink.ErrClosed) || out.Acked() > 0 {
		t.Errorf("%+v, %v", out, err)
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
		if err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows a secret: %v", c.name, err)
		}
	}
}
