package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"bridge/internal/verify"
)

func TestVerifyCommandLine(t *testing.T) {
	printing := settingsOf{
		"BRIDGE_SOURCE_URL": "mysql://a:b@127.0.0.1:1/shop", "BRIDGE_SINK_URL": "stdout:", "BRIDGE_STREAMS": "orders",
		"BRIDGE_STREAM_ORDERS_TABLE": "orders", "BRIDGE_STREAM_ORDERS_KIND": "release",
	}
	for _, c := range []struct {
		env    settingsOf
		line   string
		status int
		out    string
		err    string
	}{
		{nil, "verify --help", 0, "Usage: bridge verify [--examples 10] [--json]", ""},
		{nil, "verify", 2, "", "the configuration is wrong"},
		{nil, "verify now", 2, "", "takes no arguments, not 1"},
		{nil, "verify --examples", 2, "", "needs a value, as in --examples 10"},
		{nil, "verify --examples few", 2, "", "is no number of examples"},
		{nil, "verify --examples=-1", 2, "", "is no number of examples"},
		{printing, "verify", 1, "", "cannot be read back"},
	} {
		t.Run(c.line, func(t *testing.T) {
			got := outcome{}.call(c.env, strings.Fields(c.line)...)
			if got.status != c.status || !strings.Contains(got.out, c.out) || !strings.Contains(got.err, c.err) {
				t.Errorf("status %d\nout %s\nerr %s", got.status, got.out, got.err)
			}
		})
	}
}

func TestVerificationForPeople(t *testing.T) {
	report := &verify.Report{
		Messages: 1200, Others: 3, DeadLetters: 1,
		Places:  []verify.PlaceReport{{Place: "orders/0", First: 7, Next: 1207, Expired: true}},
		Foreign: verify.Finding{Fault: verify.Foreign},
		Streams: []verify.Stream{{
			Stream: "orders", Kind: "capability", Shards: 2, Rows: 1000, Events: 1190, Repeats: 1, Live: 990, Behind: 2, Rejected: 1,
			Faults: []verify.Finding{{Fault: verify.Missing, Count: 3, Examples: []verify.Example{
				{Shard: "orders_01", Row: 17, Key: "eu+\x1b[31m", What: "it has no event"},
			}}},
			Unjudged: []verify.Doubt{{Reason: verify.Young, Count: 1, Examples: []verify.Example{
				{Shard: "orders_00", Row: 18, Event: "1b9f", Place: "orders/0", At: 12, What: "it came while the check ran"},
			}}},
		}},
	}
	var out bytes.Buffer
	p := &process{stdout: &out, secrets: &redactor{}}
	if err := p.printVerification(report); err != nil {
		t.Fatal(err)
	}
	const want = `bus: 1200 messages in 1 place, 3 of other sources, 1 dead letter
    orders/0 begins at 7: what was before has expired
stream orders: capability, 2 tables with 1000 rows; 1190 events, 1 repeat, 990 entities that live
    WRONG: missing 3: rows without an event
        orders_01, row 17, key eu+ [31m: it has no event
        and 2 more
        2 of them lie above all rows that were published: is bridge running, and has it caught up?
    of 1 row above an event is a dead letter: bridge deadletter list names it, bridge deadletter resend publishes what is true
    not judged: young 1: rows that came or changed just now
        orders_00, row 18, event 1b9f, at orders/0 12: it came while the check ran
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if n := kindsOfFault(report); n != 1 {
		t.Errorf("%d kinds of fault", n)
	}
}

func TestEveryFindingHasWords(t *testing.T) {
	for _, f := range verify.Faults {
		if faultWords[f] == "" {
			t.Errorf("no words for %s", f)
		}
	}
	for _, r := range verify.Reasons {
		if doubtWords[r] == "" {
			t.Errorf("no words for %s", r)
		}
	}
}

func TestProgressBar(t *testing.T) {
	for _, c := range []struct {
		what        string
		done, total uint64
		took        time.Duration
		want        string
	}{
		{"reading the bus", 0, 0, time.Minute, "reading the bus"},
		{"reading the bus", 50, 200, 10 * time.Second, "reading the bus                [#####...............]  25 %, 30s left"},
		{"reading the bus", 300, 200, 0, "reading the bus                [####################] 100 %"},
		{"reading " + strings.Repeat("x", 60), 1, 100, 200 * time.Hour, ""},
	} {
		got := barLine(c.what, c.done, c.total, c.took)
		if c.want != "" && got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if utf8.RuneCountInString(got) > 79 {
			t.Errorf("%q is wider than a terminal", got)
		}
	}
	t.Run("is drawn on a terminal alone", func(t *testing.T) {
		var out bytes.Buffer
		p := &process{stderr: &out}
		bar := p.newProgressBar(true)
		bar.show("reading", 1, 2)
		bar.stop()
		if out.Len() > 0 {
			t.Errorf("%q in a pipe", out.String())
		}
		bar = &progressBar{w: &out}
		bar.show("reading", 1, 2)
		bar.show("reading", 2, 2)
		bar.stop()
		if got := out.String(); strings.Count(got, "reading") != 1 || !strings.HasSuffix(got, "\r\x1b[K") {
			t.Errorf("%q", got)
		}
	})
}
