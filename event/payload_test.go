package event_test

import (
	"strings"
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

func outbox(kind source.Kind, payload, trace any) *table {
	return newTable(
		cell{"id", source.Int, 0, "1"}, cell{"payload", kind, 0, payload}, cell{"trace_id", source.Text, 0, trace},
		cell{"at", source.DateTime, 3, "2026-03-01 12:00:00.250"}, cell{"tenant", source.Int, 0, "7"}, cell{"doc", source.JSON, 0, `{"a": "b"}`},
		cell{"raw", source.Binary, 0, "\xff"}, cell{"aggregatetype", source.Text, 0, "order"},
		cell{"amount", source.Decimal, 2, `1"2`},
	)
}

func payloadOptions() event.Options {
	o := options()
	o.Kind = event.Release
	o.Payload = &event.Payload{
		Column: "payload", Routed: []string{"aggregatetype", "TENANT"},
		Headers: []event.Field{{"trace_id", "trace-id"}, {"at", "at"}, {"tenant", "tenant"}, {"doc", "doc"}, {"raw", "raw"}, {"amount", "amount"}},
	}
	return o
}

func payloadEvent(t *testing.T, o event.Options, rows *table) event.Event {
	t.Helper()
	_, ev, err := bind(t, o, rows).Append([]byte("before"), rows.row(1))
	must.OK(t, err)
	return ev
}

func TestAPayloadIsTheMessageAsItIs(t *testing.T) {
	for _, c := range []struct {
		kind    source.Kind
		payload string
	}{
		{source.JSON, "{ \"b\": 1,\n \"a\" : 2.50 }"}, {source.JSON, "no JSON"}, {source.Text, "text\n\x00\xff"}, {source.Text, ""}, {source.Binary, "\x00\xff"},
	} {
		ev := payloadEvent(t, payloadOptions(), outbox(c.kind, c.payload, "t 1"))
		if string(ev.Body) != c.payload || ev.Body == nil || ev.Unfit != "" || ev.BadValues != 0 {
			t.Errorf("%q is published as %q, unfit: %s", c.payload, ev.Body, ev.Unfit)
		}
		var headers []string
		for _, h := range ev.Headers {
			headers = append(headers, h.Name+"="+string(h.Value))
		}
		if got := strings.Join(headers, "|"); got != `trace-id=t 1|at=2026-03-01T12:00:00.250Z|tenant=7|doc={"a":"b"}|raw=/w==|amount=1"2` {
			t.Errorf("headers %s", got)
		}
		if len(ev.Routed) != 2 || string(ev.Routed[0]) != "order" || string(ev.Routed[1]) != "7" {
			t.Errorf("routed by %q", ev.Routed)
		}
	}
	if ev := payloadEvent(t, payloadOptions(), outbox(source.JSON, "{}", nil)); len(ev.Headers) != 5 || ev.Unfit != "" {
		t.Errorf("NULL makes the headers %v, unfit: %s", ev.Headers, ev.Unfit)
	}
}

func TestAnEmptyMessageIsNotNull(t *testing.T) {
	rows := newTable(cell{"id", source.Int, 0, "1"}, cell{"payload", source.Text, 0, ""}, cell{"about", source.Text, 0, ""})
	rows.columns.Key = []int{2}
	o := options()
	o.Kind, o.Payload = event.Release, &event.Payload{Column: "payload"}
	if _, ev, err := bind(t, o, rows).Append(nil, rows.row(1)); err != nil || ev.Body == nil || ev.Key == nil || len(ev.Body)+len(ev.Key) > 0 {
		t.Errorf("the message is %#v with the key %#v, error %v", ev.Body, ev.Key, err)
	}
}

func TestARowThatMakesNoMessageIsUnfit(t *testing.T) {
	for _, c := range []struct {
		payload, trace any
		says           string
	}{
		{nil, nil, "column payload is NULL"},
		{"{}", "a\r\nbridge-state: 1", "column trace_id has a control character"}, {"{}", "\x7f", "control character"},
		{"{}", " a", "a blank at its beginning"}, {"{}", "a ", "a blank at its beginning or end"},
		{"{}", "\xff", "column trace_id is not valid UTF-8, so it makes no header trace-id"},
	} {
		for _, bad := range []event.BadValue{event.NullBad, event.StopOnBad} {
			o := payloadOptions()
			o.BadValue = bad
			if ev := payloadEvent(t, o, outbox(source.JSON, c.payload, c.trace)); !strings.Contains(ev.Unfit, c.says) || ev.Body == nil {
				t.Errorf("%q, %q: unfit %q, want %q", c.payload, c.trace, ev.Unfit, c.says)
			}
		}
	}
}

func TestWhatTellsTwoPayloadsApart(t *testing.T) {
	digest := func(rows *table) [16]byte { return payloadEvent(t, payloadOptions(), rows).Digest }
	one := outbox(source.JSON, "{}", "t")
	for name, other := range map[string]*table{"a payload": outbox(source.JSON, "{ }", "t"), "a header": outbox(source.JSON, "{}", "u")} {
		if digest(one) == digest(other) {
			t.Errorf("%s does not tell", name)
		}
	}
	moved := outbox(source.JSON, "{}", "t")
	moved.values[moved.index("aggregatetype")] = []byte("customer")
	if digest(one) != digest(moved) {
		t.Error("where a row goes is a part of what it says")
	}
}

func TestBindOfAPayloadNamesTheSetting(t *testing.T) {
	for want, change := range map[string]func(*event.Payload){
		`PAYLOAD names the column "body"`:         func(p *event.Payload) { p.Column = "body" },
		`PAYLOAD names the column "tenant"`:       func(p *event.Payload) { p.Column = "tenant" },
		`HEADERS names the column "span"`:         func(p *event.Payload) { p.Headers = []event.Field{{"span", "span"}} },
		`DESTINATION names the column "aggregat"`: func(p *event.Payload) { p.Routed = []string{"aggregat"} },
	} {
		o := payloadOptions()
		change(o.Payload)
		e := must.Get(event.NewEncoder(o))(t)
		if err := e.Bind(&outbox(source.JSON, "{}", "t").columns); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "FIELDS") {
			t.Errorf("error %v, want %s alone", err, want)
		}
	}
}
