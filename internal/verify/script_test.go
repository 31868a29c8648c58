package verify_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"example.org/bridge/event"
	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
)

// escapes are of values that no text has.
var escapes = strings.NewReplacer("NULL", memory.Null, `\xff`, "\xff", `\xfe`, "\xfe", `\xfd`, "\xfd")

// known are steps that stand for others.
var known = map[string]string{
	// An entity with four events, one with three of which the last says it is gone, and one with
	// one: the messages 0 to 7, of the rows 1 to 5, 5, and 6 to 7.
	"histories": "insert a first; insert b first; replace a second; insert c first; replace b second; replace a third; remove b; replace a fourth",
	// Eight rows of two keys in turn.
	"log": "insert a x; insert b x; insert a x; insert b x; insert a x; insert b x; insert a x; insert b x",
	// A stamped bus that has lost the middle one of three events, in another term.
	"restarted":   "stamped; insert a first; replace a second; replace a third; cut 1; stamp term=1 acked=0",
	"exactlyOnce": "stamped; rows 5; once",
	"ended":       "stamped; stamp epoch=7; insert b on; insert a on; remove a",
	"twoRows":     "tables; in 1; silent a y; in 0",
	"ownTopics":   "tables own; in 0; insert a first; insert b first; in 1; insert c first; insert d first; cut 0",
	"document":    `columns value:json; row a|{ "b": 1 }`,
	"moved":       moved,
	// Three rows, as they were before a migration, and the values that an event of them tells.
	"published": "columns code:int app_name:text at:datetime created:datetime; stamp epoch=7 seq=1; row a|7|x|2026-02-01 00:00:01|2026-03-01 10:20:30; " +
		"row b|7|x|2026-02-01 00:00:01|2026-03-01 10:20:30; row c|7|x|2026-02-01 00:00:01|2026-03-01 10:20:30",
	"told": `detects 1 "code":7>"code":8; detects 1 03-01>03-02; detects 1 "time":1>"time":2`,
}

// player plays a script: steps between semicolons, each with words behind its name. I is the index
// of a message on the bus, an ID that of a row.
type player struct {
	*world
	// tables are two in place of the one of the world, where a script has them.
	tables *tables
	// rows are the ids of the rows last written, by their key; kept are messages that are put
	// aside, later are steps for the beginning of a read of the bus.
	rows    map[string]uint64
	kept    []*message
	later   map[int]string
	options func(*verify.Options)
	report  *verify.Report
}

// playFile plays the scripts of a file: a block of lines each, behind "#" and the kind of the
// stream, or both. They end in what is found: faults, and behind a bar what cannot be judged.
func playFile(t *testing.T, path string) {
	text := must.Get(os.ReadFile(path))(t)
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		title, script, _ := strings.Cut(strings.TrimPrefix(block, "# "), "\n")
		kind, name, _ := strings.Cut(title, ": ")
		kinds := []event.Kind{event.Kind(kind)}
		if kind == "both" {
			kinds = []event.Kind{event.Capability, event.Release}
		}
		for _, kind := range kinds {
			t.Run(string(kind)+": "+name, func(t *testing.T) { play(t, kind, strings.ReplaceAll(script, "\n", ";")) })
		}
	}
}

// play plays a script on an empty table and bus, and returns what was found last.
func play(t *testing.T, kind event.Kind, script string) *verify.Report {
	t.Helper()
	p := &player{world: newWorld(t, kind), rows: make(map[string]uint64), later: make(map[int]string), options: func(*verify.Options) {}}
	p.play(script)
	return p.report
}

func (p *player) play(script string) {
	p.t.Helper()
	for step := range strings.SplitSeq(script, ";") {
		name, rest, _ := strings.Cut(strings.TrimSpace(step), " ")
		if steps := known[name]; steps != "" {
			p.play(steps)
			continue
		}
		rest = escapes.Replace(rest)
		if name != "//" && !p.write(name, rest) && !p.tamper(name, rest) && !p.compare(name, rest) {
			p.t.Fatalf("unknown step %q", step)
		}
	}
}

// write plays a step of tables and the bridge that publishes them, and reports whether it is one.
func (p *player) write(name, rest string) bool {
	words := strings.Fields(rest)
	switch name {
	case "tables": // own where each event follows on the last one of its table
		p.tables = newTables(p.t, rest == "own")
		p.world = p.tables.world
	case "in": // 0 or 1, the table of what follows
		p.tables.use(int(p.number(rest)))
	case "topics": // one for each of the tables, and the one that has expired
		p.tables.apart()
		var tps []sink.TP
		for _, topic := range []string{"d_0", "d_1", "dead"} {
			tps = append(tps, sink.TP{Name: topic + "/0", Destination: topic, Expired: topic == rest})
		}
		p.bus.partition, p.bus.others = tps[0], tps[1:]
		p.options = func(o *verify.Options) {
			for i := range o.Shards {
				o.Shards[i].Destinations = []string{o.Shards[i].Name}
			}
		}
	case "apart": // a partition for each of the tables
		p.tables.apart()
	case "at": // READ STEP, STEP
		read, steps, _ := strings.Cut(rest, " ")
		p.later[int(p.number(read))] = strings.ReplaceAll(steps, ",", ";")
	case "silent": // NAME STATE, which is not published
		p.table.Insert(words[0], words[1], "1.50", "2026-03-01 10:20:30.123")
	case "removed": // ID NAME
		p.remove(p.number(words[0]), words[1])
	case "insert": // NAME STATE
		p.rows[words[0]] = p.insert(words[0], words[1])
	case "replace":
		p.rows[words[0]] = p.replace(p.rows[words[0]], words[0], words[1])
	case "remove":
		p.remove(p.rows[rest], rest)
	case "rows": // N, each with a name of its own
		for range p.number(rest) {
			p.play(fmt.Sprintf("insert name-%d first", len(p.bus.messages)))
		}
	case "for": // KIND STEP
		if kind, step, _ := strings.Cut(rest, " "); kind == string(p.world.options.Kind) {
			p.play(step)
		}
	case "times": // N STEP, STEP
		n, steps, _ := strings.Cut(rest, " ")
		p.play(strings.Repeat(strings.ReplaceAll(steps, ",", ";")+";", int(p.number(n))) + "//")
	case "columns": // NAME:KIND, beside id and key
		p.table = withColumns(p.t, p.world.options.Kind, p.columns(words)...).table
	case "addcolumn":
		p.table.AddColumn(p.columns(words)[0])
	case "dropcolumn":
		p.table.DropColumn(rest)
	case "row": // VALUE|VALUE
		values := strings.Split(rest, "|")
		p.rows[values[0]] = p.table.Insert(values...)
		p.publish(p.rows[values[0]])
	case "unsent": // VALUE|VALUE, which is not published
		p.table.Insert(strings.Split(rest, "|")...)
	case "migrated": // VALUE|VALUE, of the three rows, and of one that is published
		p.play(fmt.Sprintf("unsent a|%[1]s; unsent b|%[1]s; unsent c|%[1]s; row d|%[1]s", rest))
	case "zone": // of DATETIME
		zone := time.FixedZone("", 8*3600)
		p.world.options.Zone, p.options = zone, func(o *verify.Options) { o.Shards[0].Zone = zone }
		p.encoder = p.newEncoder()
	case "fields": // COLUMN:MEMBER, of what is published from now on
		for _, word := range words {
			column, member, _ := strings.Cut(word, ":")
			p.world.options.Fields = append(p.world.options.Fields, event.Field{Column: column, Member: member})
		}
		p.encoder = p.newEncoder()
	case "exclude": // COLUMN
		p.world.options.Exclude = words
		p.encoder = p.newEncoder()
	case "publish": // ID
		p.publish(p.number(rest))
	case "update": // ID VALUE|VALUE, which is not published
		id, values, _ := strings.Cut(rest, " ")
		p.table.Update(p.number(id), strings.Split(values, "|")...)
	case "put": // ID NAME STATE SECOND, which is not published
		p.table.InsertAt(p.number(words[0]), words[1], words[2], "1.50", "2026-03-01 10:20:"+words[3]+".123")
	case "delete": // ID ID
		for _, id := range words {
			p.table.Delete(p.number(id))
		}
	case "truncate": // up to ID
		p.table.Truncate()
		p.table.Skip(p.number(rest))
	case "lose": // ID, the last one that is left
		p.table.Lose(p.number(rest))
	case "follows": // NAME I: its next event follows that message; without one it has none
		if clear(p.gone); len(words) == 2 {
			p.last[words[0]] = p.bus.messages[p.number(words[1])].Header[sink.HeaderID]
		} else {
			delete(p.last, rest)
		}
	case "gone": // NAME: its next event is an added one
		p.gone[rest] = true
	case "form": // FORMAT
		p.world.options.Format = event.Format(rest)
		p.encoder = p.newEncoder()
	case "rename": // SHARD
		w := p.world
		w.options.Shard, w.options.Table = rest, rest
		w.encoder = w.newEncoder()
	case "stamped":
		p.stamp, p.counts = sink.State{Epoch: 0x1f, Seq: 1, Hash: 7}, true
	case "stamp":
		p.change(&p.stamp, words)
	case "tombstone":
		p.tombstone()
	default:
		return false
	}
	return true
}

// tamper plays a step that changes what is on the bus, and reports whether it is one.
func (p *player) tamper(name, rest string) bool {
	words := strings.Fields(rest)
	all := &p.bus.messages
	// Of the steps that begin with a message: it, and what follows.
	var i uint64
	_, text, _ := strings.Cut(rest, " ")
	if slices.Contains(strings.Fields("cut swap edit detects short key header value state refuse partition copy again keep"), name) && rest != "all" {
		i = p.number(words[0])
	}
	was, is, _ := strings.Cut(text, ">")
	switch name {
	case "cut":
		for _, one := range words {
			p.bus.cut(int(p.number(one)))
		}
	case "swap":
		p.bus.swap(int(i), int(p.number(text)))
	case "edit":
		p.bus.edit(p.t, int(i), was, is)
	case "detects": // I WAS>IS: that message is altered, and no other one
		p.bus.edit(p.t, int(i), was, is)
		report := p.check(p.options)
		if altered := examplesOf(report, "altered"); len(altered) != 1 || altered[0].At != i {
			p.t.Errorf("%s for %s: found %q", is, was, summary(report))
		}
		p.bus.edit(p.t, int(i), is, was)
	case "header":
		(*all)[i].Header[was] = is
	case "key":
		(*all)[i].Key = []byte(text)
	case "value":
		(*all)[i].Value = []byte(text)
	case "short":
		(*all)[i].Value = (*all)[i].Value[:len((*all)[i].Value)-4]
	case "state":
		p.setState(int(i), func(s *sink.State) { p.change(s, words[1:]) })
	case "keyless": // as on a bus without keys
		for i, m := range *all {
			key := string(m.Key)
			m.Key = nil
			p.setState(i, func(s *sink.State) { s.Key = key })
		}
	case "refuse": // I ROW
		p.refuse(int(i), p.number(words[1]))
	case "copy":
		if rest == "all" {
			for i := range *all {
				*all = append(*all, p.copyOf(i))
			}
			break
		}
		*all = append(*all, p.copyOf(int(i)))
	case "keep":
		p.kept = append(p.kept, p.copyOf(int(i)))
		p.bus.cut(int(i))
	case "kept":
		*all = append(*all, p.kept...)
	case "again": // I EPOCH, or with "once" behind it: a repeat with a stamp of its own
		last := len(*all)
		*all = append(*all, p.copyOf(int(i)))
		acked := ""
		if words[1] == "1f" {
			acked = " acked=5"
		}
		p.play(fmt.Sprintf("state %d epoch=%s seq=%x acked=0 index=0%s", last, words[1], last, acked))
		(*all)[last].Once = len(words) == 3
	case "once":
		for _, m := range *all {
			m.Once = true
		}
	case "spread": // over two partitions, by the hash of the key
		p.bus.partition = sink.TP{Name: "T/0", Destination: "T"}
		p.bus.others = []sink.TP{{Name: "T/1", Destination: "T"}}
		for _, m := range *all {
			m.Partition = kafkago.Murmur2Balancer{Consistent: true}.Balance(kafkago.Message{Key: m.Key}, 0, 1)
		}
	case "partition":
		(*all)[i].Partition = int(p.number(words[1]))
	case "expired":
		p.bus.partition.Expired = true
	case "thinned":
		p.bus.partition.Thinned = true
	default:
		return false
	}
	return true
}

// compare plays a step that compares table and bus or looks at the report, and reports whether
// it is one.
func (p *player) compare(name, rest string) bool {
	switch name {
	case "options":
		option, value, _ := strings.Cut(rest, "=")
		p.options = func(o *verify.Options) {
			one := &o.Shards[0]
			switch option {
			case "latest":
				one.Latest = true
			case "first": // the other table is not configured
				o.Shards = o.Shards[:1]
			case "after":
				one.After = p.number(value)
			case "rounds":
				o.Rounds = int(p.number(value))
			case "hash":
				one.Hash = uint32(p.number(value))
			case "numbers":
				o.Numbers = int(p.number(value))
			case "destinations":
				one.Destinations = strings.Fields(value)
			}
		}
	case "finds":
		reads, check := 0, p.check
		p.bus.before = func() {
			if reads++; p.later[reads] != "" {
				p.play(p.later[reads])
			}
		}
		if p.tables != nil {
			check = p.tables.compare
		}
		p.report = check(p.options)
		want(p.t, p.report, strings.TrimPrefix(rest, "nothing"))
	case "heals":
		p.same("healed", rest, healed(p.report))
	case "repeats":
		p.same("repeats", rest, repeats(p.report))
	case "counts":
		s := p.report.Streams[0]
		p.same("counts", rest, fmt.Sprintf("tombstones=%d events=%d repeats=%d live=%d rejected=%d", s.Tombstones, s.Events, s.Repeats, s.Live, s.Rejected))
	case "says": // CODE TEXT, or TEXT / TEXT, of any example
		code, text, _ := strings.Cut(rest, " ")
		var said []string
		for _, e := range examplesOf(p.report, code) {
			said = append(said, fmt.Sprintf("%s row %d %s at %s %d stamp %s: %s", e.Shard, e.Row, e.Key, e.Partition, e.At, e.Stamp, e.What))
		}
		if !slices.ContainsFunc(strings.Split(text, " / "), func(text string) bool { return strings.Contains(strings.Join(said, "\n"), text) }) {
			p.t.Errorf("no example of %s says %q: %q", code, text, said)
		}
	default:
		return false
	}
	return true
}

func (p *player) same(what, want, got string) {
	p.t.Helper()
	if got != want {
		p.t.Errorf("%s %q, want %q", what, got, want)
	}
}

func (p *player) number(text string) uint64 {
	p.t.Helper()
	n := must.Get(strconv.ParseUint(text, 10, 64))(p.t)
	return n
}

// change sets fields of a state, each "name=value"; epoch and seq are hexadecimal.
func (p *player) change(s *sink.State, fields []string) {
	p.t.Helper()
	for _, field := range fields {
		name, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseUint(value, 16, 64)
		if err != nil && name != "kind" && name != "key" && name != "digest" {
			p.t.Fatal(err)
		}
		switch name {
		case "epoch":
			s.Epoch = n
		case "seq":
			s.Seq = n
		case "term":
			s.Term = uint32(n)
		case "acked":
			s.Acked = uint32(n)
		case "index":
			s.Index = uint32(n)
		case "hash":
			s.Hash = uint32(n)
		case "since":
			s.Since = n
		case "key":
			s.Key = value
		case "digest":
			s.Digest[3]++
		case "kind":
			s.Kind = map[string]sink.StateKind{"absent": sink.StateAbsent, "tombstone": sink.StateTombstone}[value]
			s.Digest = [16]byte{}
		default:
			p.t.Fatalf("unknown field %q", field)
		}
	}
}

func (p *player) columns(words []string) (list []source.Column) {
	for _, word := range words {
		name, kind, _ := strings.Cut(word, ":")
		c := map[string]source.Column{
			"int": {Kind: source.Int}, "text": {Kind: source.Text}, "json": {Kind: source.JSON}, "masked": {Kind: source.Text, Mask: "redact"},
			"datetime": {Kind: source.DateTime}, "timestamp": {Kind: source.Timestamp}, "decimal": {Kind: source.Decimal}, "binary": {Kind: source.Binary},
		}[kind]
		if length, found := strings.CutPrefix(kind, "datetime."); found {
			c = source.Column{Kind: source.DateTime, Precision: int(p.number(length))}
		}
		c.Name = name
		list = append(list, c)
	}
	return list
}

// withColumns is a world whose table has these columns besides the id and the key; the column gone
// deletes.
func withColumns(t *testing.T, kind event.Kind, columns ...source.Column) *world {
	t.Helper()
	w := newWorld(t, kind)
	all := append([]source.Column{{Name: "id", Kind: source.Int}, {Name: "name", Kind: source.Text}}, columns...)
	spec := source.Spec{ID: "id", Key: []string{"name"}}
	if slices.ContainsFunc(columns, func(c source.Column) bool { return c.Name == "gone" }) {
		spec.Deleted = "gone"
	}
	if slices.ContainsFunc(columns, func(c source.Column) bool { return c.Name == "created" }) {
		spec.Created = "created"
	}
	w.table = memory.NewTable(spec, all...)
	return w
}

// stamped is a world whose messages are of epoch 0x1f, and counted.
func stamped(t *testing.T, kind event.Kind) *world {
	t.Helper()
	w := newWorld(t, kind)
	w.stamp, w.counts = sink.State{Epoch: 0x1f, Seq: 1, Hash: 7}, true
	return w
}

func (w *world) setState(i int, change func(*sink.State)) {
	w.t.Helper()
	m := w.copyOf(i)
	state := must.Get(sink.ParseState(m.Header[sink.HeaderState]))(w.t)
	change(&state)
	m.Header[sink.HeaderState] = string(sink.AppendState(nil, &state))
	w.bus.messages[i] = m
}

func (w *world) refuse(i int, row uint64) {
	m := w.bus.messages[i]
	dead := sink.DeadLetter(sink.Refused{Reason: "too large", Message: sink.Message{
		Stream: "things", Shard: "thing", RowID: row, Key: m.Key, Value: m.Value, ID: m.Header[sink.HeaderID], Type: m.Header[sink.HeaderType],
	}}, "dead", 4096)
	w.bus.messages[i] = &message{Value: dead.Value, Header: headers(&dead)}
	w.bus.messages[i].Header[sink.HeaderState] = m.Header[sink.HeaderState]
}

func (w *world) tombstone() {
	last := w.copyOf(len(w.bus.messages) - 1)
	last.Value = nil
	w.add(last, w.stamp)
}

func (w *world) copyOf(i int) *message { return clone(w.bus.messages[i]) }

// examplesOf returns the examples of a fault, reason or kind of repeat.
func examplesOf(r *verify.Report, of string) (list []verify.Example) {
	for _, s := range r.Streams {
		for _, f := range slices.Concat(s.Faults, s.Unjudged, s.Repeated) {
			if of == string(f.Fault) || of == string(f.Reason) || of == string(f.Repeat) {
				list = append(list, f.Examples...)
			}
		}
	}
	return list
}

// healed lists what is healed: "lost 2, brokenLink 1".
func healed(r *verify.Report) string {
	var list []string
	for _, s := range r.Streams {
		for _, f := range s.Healed {
			list = append(list, fmt.Sprintf("%s %d", f.Fault, f.Count))
		}
	}
	return strings.Join(list, ", ")
}

// repeats lists the repeats of a report: "copy 1, again 2".
func repeats(r *verify.Report) string {
	var list []string
	for _, s := range r.Streams {
		for _, x := range s.Repeated {
			list = append(list, fmt.Sprintf("%s %d", x.Repeat, x.Count))
		}
	}
	return strings.Join(list, ", ")
}
