package sink_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"example.org/bridge/sink"
)

func headersOf(m *sink.Message, each func(*sink.Message, func(name, value string))) (all []string) {
	each(m, func(name, value string) { all = append(all, name, value) })
	return all
}

func TestHeadersAreThoseOfEachMessage(t *testing.T) {
	at := time.Date(2026, 3, 1, 10, 20, 30, 123456789, time.FixedZone("", 3600))
	var headers sink.Headers
	var kept, want [][]string
	for i := range uint64(1000) {
		// Times change and come again, rows are of every length.
		m := sink.Message{
			ID: "a", Type: "b", Version: "c", Domain: "f", Stream: "d", Shard: "e", Origin: sink.FromTail, RowID: math.MaxUint64 >> (i % 64),
			Time: at.Add(time.Duration(i%7/3) * time.Hour), Key: []byte("k"), State: sink.State{Seq: i, Index: uint32(i)},
		}
		if i%3 == 0 {
			m.Format, m.Bare = sink.FormatRow, &sink.Bare{Time: int64(i) - 500, Previous: "p"[:i%2]}
		}
		if i%5 == 0 {
			m.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		}
		kept = append(kept, headersOf(&m, headers.Each))
		want = append(want, headersOf(&m, new(sink.Headers).Each))
	}
	for i := range kept {
		if !slices.Equal(kept[i], want[i]) {
			t.Fatalf("message %d: %q, want %q", i, kept[i], want[i])
		}
	}
}

func TestStatesOfABatchAllocateNoStringForEachMessage(t *testing.T) {
	m := sink.Message{
		RowID: 1 << 60, Key: []byte("region+order-1"), Time: time.Unix(1_760_000_000, 0),
		State: sink.State{Epoch: 1_760_000_000_000, Seq: 1 << 30, Acked: 1 << 20, Index: 1 << 10, Hash: 1 << 31, Low: 1 << 40},
	}
	headers := sink.Headers{Keyless: true}
	const messages = 1000
	got := testing.AllocsPerRun(5, func() {
		for range messages {
			m.RowID++
			headers.Each(&m, func(string, string) {})
		}
	})
	if got > messages/25 {
		t.Errorf("%v allocations for %d messages", got, messages)
	}
}

func TestTheKeyIsInTheStateWhereTheBusHasNone(t *testing.T) {
	for _, c := range []struct {
		key, whole     string
		keyless, keyed string
	}{
		{"", "", "", ""},
		{"red", "", "red", ""},
		{"re", "red", "red", "red"},
		{"", "red", "red", "red"},
	} {
		m := sink.Message{Key: []byte(c.key), State: sink.State{Seq: 1, Key: c.whole}}
		for keyless, want := range map[bool]string{false: c.keyed, true: c.keyless} {
			state, err := sink.ParseState(string(m.AppendState(nil, keyless)))
			if err != nil || state.Key != want || state.Seq != 1 {
				t.Errorf("key %q, whole key %q, keyless %t: %+v, %v", c.key, c.whole, keyless, state, err)
			}
		}
	}
}

// TestWhatIsNoDocumentHasItsHeadersBehindTheOthers: a row, and a column that is the value.
func TestWhatIsNoDocumentHasItsHeadersBehindTheOthers(t *testing.T) {
	row := sink.Message{ID: "a", Schema: "0123456789ab", Value: []byte("x"), Format: sink.FormatRow, Bare: &sink.Bare{Time: 5}}
	common := headersOf(&row, new(sink.Headers).Each)
	if at := slices.Index(common, sink.HeaderPublishedAt); at < 0 || common[at+1] != "0001-01-01T00:00:00.000Z" || !slices.Contains(common, sink.HeaderType) {
		t.Errorf("%q", common)
	}
	own := []sink.Header{{Name: "tenant", Value: []byte("7")}}
	for _, c := range []struct {
		format sink.Format
		bare   sink.Bare
		from   int
		more   []string
	}{
		{sink.FormatRow, sink.Bare{Time: 5, Previous: "before", Reason: "TOMBSTONE"}, 0, []string{sink.HeaderPrevious, "before", sink.HeaderReason, "TOMBSTONE"}},
		// What is not JSON has no content type.
		{sink.FormatPayload, sink.Bare{Time: 5, Headers: own}, 2, []string{sink.HeaderFormat, "payload", "tenant", "7"}},
		{sink.FormatPayload, sink.Bare{Time: 5, Headers: own, Content: "application/json"}, 0, []string{sink.HeaderFormat, "payload", "tenant", "7"}},
	} {
		m := row
		m.Format, m.Bare = c.format, &c.bare
		if got, want := headersOf(&m, new(sink.Headers).Each), append(slices.Clone(common[c.from:]), c.more...); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestADocumentHasNoHeaderOfWhatItSays: nor of what the bus says, and what stays the same in a
// batch is said once.
func TestADocumentHasNoHeaderOfWhatItSays(t *testing.T) {
	names := func(m sink.Message) (list []string) {
		new(sink.Headers).Each(&m, func(name, _ string) { list = append(list, name) })
		return list
	}
	first := sink.Message{Value: []byte("{}"), Type: "T", Version: "1.0.0", Schema: "0123456789ab"}
	whole := names(sink.Message{})
	with := func(change func(m *sink.Message)) sink.Message { m := first; change(&m); return m }
	without := func(left ...string) []string {
		return slices.DeleteFunc(slices.Clone(whole), func(name string) bool { return slices.Contains(left, name) })
	}
	later := func(m *sink.Message) { m.State.Index = 1 }
	for name, c := range map[string]struct {
		m    sink.Message
		want []string
	}{
		"the first of a batch": {first, without(sink.HeaderContentType, sink.HeaderType, sink.HeaderPublishedAt)},
		"a later one":          {with(later), without(sink.HeaderContentType, sink.HeaderType, sink.HeaderPublishedAt, sink.HeaderVersion, sink.HeaderSchema)},
		"a CloudEvent": {with(func(m *sink.Message) { later(m); m.Format = sink.FormatCloudEvents }),
			without(sink.HeaderType, sink.HeaderPublishedAt, sink.HeaderVersion, sink.HeaderSchema)},
		"a row":         {with(func(m *sink.Message) { later(m); m.Format = sink.FormatRow }), whole},
		"a tombstone":   {with(func(m *sink.Message) { later(m); m.Value = nil }), whole},
		"a dead letter": {with(func(m *sink.Message) { later(m); m.Type = sink.DeadLetterType }), whole},
	} {
		if got := names(c.m); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestFormsAreReadAsTheyAreWritten(t *testing.T) {
	for _, m := range []sink.Message{{}, {Form: 1}, {Form: 1<<32 - 1, Born: 7}} {
		form, born := sink.ParseForm(m.AppendForm(nil))
		if form != m.Form || born != m.Born {
			t.Errorf("%d %d, want %d %d", form, born, m.Form, m.Born)
		}
	}
	for _, text := range []string{"", "abc", "abcdefghijkl", "!!!!!!"} {
		if form, _ := sink.ParseForm([]byte(text)); form != 0 {
			t.Errorf("%q is read as %d", text, form)
		}
	}
	text := sink.AppendServer(nil, 1760000000, "db one\n/shop")
	if started, server := sink.ParseServer(text); started != 1760000000 || server != "db one /shop" {
		t.Errorf("%d %q", started, server)
	}
}

// TestEachDestinationHasAFirstMessage: a consumer of one alone reads there what the batch has in
// common.
func TestEachDestinationHasAFirstMessage(t *testing.T) {
	var batch []sink.Message
	for i := range 30 {
		batch = append(batch, sink.Message{Destination: string(rune('a' + i/2%10)), Value: []byte("{}"), Schema: "0123456789ab", Version: "1.0.0", State: sink.State{Index: uint32(i)}})
	}
	sink.NoteFirst(batch)
	for i := range batch {
		said := false
		new(sink.Headers).Each(&batch[i], func(name, _ string) { said = said || name == sink.HeaderSchema })
		if want := i%2 == 0 && i < 16; said != want {
			t.Errorf("message %d to %s says its schema: %t, want %t", i, batch[i].Destination, said, want)
		}
	}
}
