package sink_test

import (
	"net/url"
	"strings"
	"testing"

	"example.org/bridge/client/bus"
	"example.org/bridge/sink"
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
	}
}

var vars = sink.Vars{
	Stream: "orders", Table: "db_3.orders_07", Type: "OrdersAddedEvent", Family: "", Tag: "eu west", Domain: "shop",
	Key: []byte("app+cluster>*"),
}

func TestTemplateAppend(t *testing.T) {
	for _, test := range []struct {
		text, token, plain string
	}{
		{"{stream}", "orders", "orders"},
		{"fixed", "fixed", "fixed"},
		{"eiffel.{family}.{type}.{tag}.{domain}", "eiffel._.OrdersAddedEvent.eu%20west.shop", "eiffel..OrdersAddedEvent.eu west.shop"},
		{"a-{table}-{key}", "a-db_3%2Eorders_07-app%2Bcluster%3E%2A", "a-db_3.orders_07-app+cluster>*"},
		{"{stream}{stream}", "ordersorders", "ordersorders"},
		{"{domain}", "shop", "shop"},
	} {
		tmpl, err := sink.ParseTemplate(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if got := string(tmpl.Append([]byte("> "), vars, sink.EscapeToken)); got != "> "+test.token {
			t.Errorf("%s makes token text %q, want %q", test.text, got, test.token)
		}
		if got := string(tmpl.Append(nil, vars, sink.EscapeNone)); got != test.plain {
			t.Errorf("%s makes plain text %q, want %q", test.text, got, test.plain)
		}
		if tmpl.String() != test.text {
			t.Errorf("%s has String %q", test.text, tmpl)
		}
	}
}

func TestAColumnMakesOneToken(t *testing.T) {
	tmpl, err := sink.ParseSubject("o.{column:type}.{column:a b}-{column:type}")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(tmpl.Columns(), "|"); got != "type|a b" || tmpl.ConstantPerType() {
		t.Errorf("columns %s", got)
	}
	for values, want := range map[[2]string]string{
		{"order", "x"}: "o.order.x-order", {"*", ">"}: "o.%2A.%3E-%2A", {"a.b c", "\r\n"}: "o.a%2Eb%20c.%0D%0A-a%2Eb%20c", {"", "é"}: "o._.%C3%A9-_",
	} {
		got := string(tmpl.Append(nil, sink.Vars{Columns: [][]byte{[]byte(values[0]), []byte(values[1])}}, sink.EscapeToken))
		if err := sink.CheckSubject(got); got != want || err != nil {
			t.Errorf("%q makes %q (%v), want %q", values, got, err, want)
		}
	}
}

func TestTheDotsOfADomainSeparateTokens(t *testing.T) {
	for domain, want := range map[string]string{
		"hangzhou.tgf": "hangzhou.tgf.x", "shop": "shop.x", "": "_.x", "a..b.": "a._.b._.x", "a b.c*.>": "a%20b.c%2A.%3E.x", ".": "_._.x",
	} {
		tmpl, err := sink.ParseSubject("{domain}.{tag}")
		if err != nil {
			t.Fatal(err)
		}
		got := string(tmpl.Append(nil, sink.Vars{Domain: domain, Tag: "x"}, sink.EscapeToken))
		if err := sink.CheckSubject(got); got != want || err != nil {
			t.Errorf("domain %q makes %q (%v), want %q", domain, got, err, want)
		}
	}
	tmpl, err := sink.ParseSubject("{table}-{domain}-{tag}")
	if err != nil {
		t.Fatal(err)
	}
	v := sink.Vars{Table: "db.orders", Domain: "a.b", Tag: "v1.2"}
	if got := string(tmpl.Append(nil, v, sink.EscapeToken)); got != "db%2Eorders-a.b-v1%2E2" {
		t.Errorf("subject %q", got)
	}
	if got := string(tmpl.OneTokenDomain().Append(nil, v, sink.EscapeToken)); got != "db%2Eorders-a%2Eb-v1%2E2" {
		t.Errorf("former subject %q", got)
	}
	topic, err := sink.ParseTopic("{domain}.{stream}")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(topic.Append(nil, sink.Vars{Domain: "a..b", Stream: "s"}, sink.EscapeNone)); got != "a..b.s" {
		t.Errorf("topic %q", got)
	}
}

func TestParseTemplateRefuses(t *testing.T) {
	for _, test := range []struct {
		text    string
		allowed []string
		want    string
	}{
		{"", nil, "empty"},
		{"{strem}", nil, `{strem}, allowed are {stream} {source} {table} {type} {family} {tag} {domain} {key}`},
		{"{}", nil, "the placeholder {}"},
		{"a.{stream", nil, "not closed"},
		{"a}.{stream}", nil, "without a '{'"},
		{"{stream}}", nil, "without a '{'"},
		{"{{stream}}", nil, "the placeholder {{stream}"},
		{"{STREAM}", nil, "{STREAM}"},
		{"{key}", []string{"stream", "table"}, "{key}, allowed are {stream} {table}"},
	} {
		_, err := sink.ParseTemplate(test.text, test.allowed...)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %v, want one with %q", test.text, err, test.want)
		}
	}
}

func TestTemplateUses(t *testing.T) {
	tmpl, err := sink.ParseTemplate("{type}.{key}")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"type": true, "key": true, "stream": false, "": false, "nonsense": false} {
		if got := tmpl.Uses(name); got != want {
			t.Errorf("Uses(%q) = %v", name, got)
		}
	}
	if tmpl.ConstantPerType() {
		t.Error("a template with {key} is constant per type")
	}
	if tmpl, err = sink.ParseTemplate("{type}.{stream}"); err != nil || !tmpl.ConstantPerType() {
		t.Errorf("a template without {key} is not constant per type (%v)", err)
	}
}

func TestTemplateAppendDoesNotAllocate(t *testing.T) {
	tmpl, err := sink.ParseTemplate("eiffel.{family}.{type}.{tag}.{domain}.{key}")
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() { buf = tmpl.Append(buf[:0], vars, sink.EscapeToken) }); n != 0 {
		t.Errorf("Append allocates %v times", n)
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

// TestKeysHaveSubjectsOfTheirOwn: no two keys make one NATS subject.
func TestKeysHaveSubjectsOfTheirOwn(t *testing.T) {
	tmpl, err := sink.ParseSubject("s.{tag}.{key}")
	if err != nil {
		t.Fatal(err)
	}
	keys := make(map[string]string)
	for key, want := range map[string]string{"": "_", "_": "%5F", "__": "__", "%5F": "%255F", "a_": "a_", "%": "%25", ".": "%2E", "*": "%2A"} {
		got := string(tmpl.Append(nil, sink.Vars{Tag: "_", Key: []byte(key)}, sink.EscapeToken))
		if other, taken := keys[got]; taken || got != "s._."+want || sink.CheckSubject(got) != nil {
			t.Errorf("the key %q makes %q, want s._.%s; %q makes it, too: %t", key, got, want, other, taken)
		}
		keys[got] = key
	}
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
