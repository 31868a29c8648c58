package sink_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"example.org/bridge/client/bus"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// TestNames has what topics and subjects may be, as templates and as names.
// An empty text stands for no error.
func TestNames(t *testing.T) {
	for kind, c := range map[string]struct {
		check func(name string) error
		says  map[string]string
	}{
		"template of a topic": {func(name string) error { _, err := sink.ParseTopic(name); return err }, map[string]string{
			"{stream}":             "",
			"a.b_c-D9.{table}":     "",
			"a.{column:any thing}": "",
			"a.{column:}":          "{column:name}",
			"x-{key}":              "allowed are {stream} {source} {table} {family} {tag} {domain}",
			"eiffel {stream}":      `" "`,
			"{stream}/{table}":     `"/"`,
			"größe.{stream}":       "letters, digits",
			"{stream}}":            "without a '{'",
			"{stream}.%20.{tag}":   `"%"`,
		}},
		"topic": {bus.CheckTopic, map[string]string{
			"orders":                 "",
			"...":                    "",
			strings.Repeat("a", 249): "",
			strings.Repeat("a", 250): "at most 249",
			"":                       "empty",
			".":                      "may not be",
			"..":                     "may not be",
			"a\x00":                  "letters, digits",
		}},
		"template of a subject": {func(name string) error { _, err := sink.ParseSubject(name); return err }, map[string]string{
			"eiffel.{family}.{type}.{tag}.{domain}": "",
			"pre-{key}-post.x":                      "",
			"größe.{stream}":                        "",
			"a..b":                                  "empty token",
			".{stream}":                             "empty token",
			"{stream}.":                             "empty token",
			"a.*":                                   "wildcard",
			"a.>":                                   "wildcard",
			"{stream}\t":                            "white space",
			"$JS.{stream}":                          "keeps for itself",
			"{nothing}":                             "allowed are",
		}},
		"template": {func(name string) error { _, err := sink.ParseTemplate(name); return err }, map[string]string{
			"":             "empty",
			"{strem}":      `{strem}, allowed are {stream} {source} {table} {type} {family} {tag} {domain} {key}`,
			"{}":           "the placeholder {}",
			"a.{stream":    "not closed",
			"a}.{stream}":  "without a '{'",
			"{{stream}}":   "the placeholder {{stream}",
			"{STREAM}":     "{STREAM}",
			"{type}.{key}": "",
		}},
		"subject": {sink.CheckSubject, map[string]string{
			"a.b":    "",
			"":       "empty",
			"a. b":   "white space",
			"a.\x7f": "white space",
			"a.*.c":  "wildcard",
		}},
	} {
		for name, want := range c.says {
			if err := c.check(name); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s %.60q: error %v, want one with %q", kind, name, err, want)
			}
		}
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		pattern, other string
		want           bool
	}{
		{"a.b", "a.b", true}, {"a.b", "a.c", false}, {"a.b", "a", false}, {"a", "a.b", false}, {"a.*", "a.b", true}, {"a.*", "a.b.c", false},
		{"a.*", "a", false}, {"a.>", "a.b", true}, {"a.>", "a.b.c", true}, {"a.>", "a", false}, {">", "a", true}, {"*.b", "a.b", true},
		{"a.*", "a.*", true}, {"a.b", "a.*", false}, {"a.*.c", "a.b.*", false}, {"a.*.*", "a.b.*", true}, {"a.>", "a.*", true},
		{"a.>", "a.>", true}, {"a.>", "a.b.>", true}, {">", ">", true}, {"a.*", "a.>", false}, {"*", ">", false}, {"a.b.>", "a.>", false},
	} {
		if got := bus.Covers(c.pattern, c.other); got != c.want {
			t.Errorf("Covers(%q, %q) is %t", c.pattern, c.other, got)
		}
		if by := bus.Coverer([]string{"z.*", c.pattern, "z"})(c.other); (by == c.pattern) != c.want || !c.want && by != "" {
			t.Errorf("%q covers %q", by, c.other)
		}
	}
	// Of many patterns of one form each is looked up, and another one than the subject is told.
	const many = 100_000
	patterns := []string{"t.1.>"}
	for i := range many {
		patterns = append(patterns, fmt.Sprintf("t.%d.*", i))
	}
	by := bus.Coverer(patterns)
	for i, pattern := range patterns[1:] {
		want := pattern
		if i == 1 {
			want = "t.1.>"
		}
		if got := by(pattern); got != want || by(fmt.Sprintf("t.%d.a.b", i)) != "" && i != 1 {
			t.Fatalf("%q covers %q", got, pattern)
		}
	}
}

// TestDestinations has what templates make of values: as subjects, in which each value is one token
// but for the dots of a domain, and as topics, which know no escape.
func TestDestinations(t *testing.T) {
	vars := sink.Vars{
		Stream: "orders", Table: "db_3.orders_07", Type: "OrdersAddedEvent", Tag: "eu west", Domain: "shop",
		Key: []byte("app+cluster>*"), Columns: [][]byte{[]byte("a.b"), []byte("\r\né")},
	}
	domain := func(name string) sink.Vars { return sink.Vars{Domain: name, Tag: "x"} }
	key := func(name string) sink.Vars { return sink.Vars{Key: []byte(name)} }
	seen := make(map[string]string)
	for _, test := range []struct {
		text           string
		vars           sink.Vars
		subject, topic string
	}{
		{"{stream}", vars, "orders", "orders"},
		{"eiffel.{family}.{type}.{tag}.{domain}", vars, "eiffel._.OrdersAddedEvent.eu%20west.shop", "eiffel..OrdersAddedEvent.eu west.shop"},
		{"a-{table}-{key}", vars, "a-db_3%2Eorders_07-app%2Bcluster%3E%2A", "a-db_3.orders_07-app+cluster>*"},
		{"o.{column:type}.{column:a b}-{column:type}", vars, "o.a%2Eb.%0D%0A%C3%A9-a%2Eb", "o.a.b.\r\né-a.b"},
		{"o.{column:none}", sink.Vars{}, "o._", "o."},
		{"{domain}.{tag}", domain("hangzhou.tgf"), "hangzhou.tgf.x", "hangzhou.tgf.x"},
		{"{domain}.{tag}", domain(""), "_.x", ".x"},
		{"{domain}.{tag}", domain("a..b."), "a._.b._.x", "a..b..x"},
		{"{domain}.{tag}", domain("a b.c*.>"), "a%20b.c%2A.%3E.x", "a b.c*.>.x"},
		{"k.{key}", key(""), "k._", "k."},
		{"k.{key}", key("_"), "k.%5F", "k._"},
		{"k.{key}", key("%5F"), "k.%255F", "k.%5F"},
		{"k.{key}", key("a_"), "k.a_", "k.a_"},
		{"k.{key}", key("."), "k.%2E", "k.."},
	} {
		subject := must.Get(sink.ParseSubject(test.text))(t)
		got := string(subject.Append([]byte("> "), test.vars, sink.EscapeToken))
		if got != "> "+test.subject || sink.CheckSubject(test.subject) != nil || subject.String() != test.text {
			t.Errorf("%s makes the subject %q, want %q", test.text, got, test.subject)
		}
		if other, taken := seen[got]; taken {
			t.Errorf("%q is the subject of %q and %q", got, other, test.topic)
		}
		seen[got] = test.topic
		topic := must.Get(sink.ParseTemplate(test.text))(t)
		if got := string(topic.Append(nil, test.vars, sink.EscapeNone)); got != test.topic {
			t.Errorf("%s makes the topic %q, want %q", test.text, got, test.topic)
		}
		buf := make([]byte, 0, 256)
		if n := testing.AllocsPerRun(100, func() { buf = subject.Append(buf[:0], test.vars, sink.EscapeToken) }); n != 0 {
			t.Errorf("%s allocates %v times", test.text, n)
		}
	}
	for text, want := range map[string]struct {
		columns  string
		constant bool
	}{"{type}.{stream}": {"", true}, "{type}.{key}": {"", false}, "{column:a}.{column:b}-{column:a}": {"a|b", false}} {
		tmpl := must.Get(sink.ParseSubject(text))(t)
		if got := strings.Join(tmpl.Columns(), "|"); got != want.columns || tmpl.ConstantPerType() != want.constant || tmpl.Uses("") || tmpl.Uses("nonsense") {
			t.Errorf("%s has the columns %q, the same destination per type: %t", text, got, tmpl.ConstantPerType())
		}
	}
	tmpl := must.Get(sink.ParseSubject("{table}-{domain}"))(t)
	former := tmpl.OneTokenDomain().Append(nil, sink.Vars{Table: "db.orders", Domain: "a.b"}, sink.EscapeToken)
	if string(former) != "db%2Eorders-a%2Eb" {
		t.Errorf("former subject %q", former)
	}
}

// FuzzEscapeToken: every value makes one legal token that tells it from every other value.
func FuzzEscapeToken(f *testing.F) {
	for _, seed := range []string{"", "_", "a.b", "ä€😀", "%41", "\x00\xff *>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		token := string(sink.EscapeToken(nil, value))
		if err := sink.CheckSubject(token); err != nil || strings.Contains(token, ".") {
			t.Fatalf("%q makes %q: %v", value, token, err)
		}
		back, err := url.PathUnescape(token)
		if err != nil {
			t.Fatalf("%q makes %q: %v", value, token, err)
		}
		if back != value && (value != "" || back != "_") {
			t.Fatalf("%q makes %q, which reads back as %q", value, token, back)
		}
	})
}

// FuzzParseTemplate: what is accepted as a subject makes a legal subject for all values.
func FuzzParseTemplate(f *testing.F) {
	for _, seed := range []string{"{stream}", "a.{key}.b", "{", "}", "{{}}", "a..b", ".{type}", "$x.{tag}"} {
		f.Add(seed, []byte("k"))
	}
	f.Fuzz(func(t *testing.T, text string, key []byte) {
		tmpl, err := sink.ParseSubject(text)
		if err != nil {
			return
		}
		v := sink.Vars{Stream: string(key), Type: string(key), Tag: text, Key: key, Domain: string(key) + "." + text}
		if got := string(tmpl.Append(nil, v, sink.EscapeToken)); sink.CheckSubject(got) != nil {
			t.Fatalf("%q makes %q: %v", text, got, sink.CheckSubject(got))
		}
	})
}

func TestDedupID(t *testing.T) {
	m := sink.Message{ID: "id", Domain: "acme", Destination: "a.b", State: sink.State{Epoch: 0x19ab3c4d5e6f, Seq: 0x2a1}}
	first := m.DedupID()
	if first != "id/nqZGzjKIo4Q" {
		t.Errorf("repeats are dropped by %q", first)
	}
	m.Again = true
	if got := m.DedupID(); got != first+"/19ab3c4d5e6f.2a1" {
		t.Errorf("repeats of a message that is stored again are dropped by %q", got)
	}
	for _, other := range []sink.Message{
		{ID: "id", Domain: "acme", Destination: "a.c"}, {ID: "id", Domain: "acm", Destination: "ea.b"}, {ID: "id", Domain: "acme2", Destination: "a.b"},
	} {
		if got := other.DedupID(); got == first {
			t.Errorf("%s in %s has the same id", other.Destination, other.Domain)
		}
	}
}
