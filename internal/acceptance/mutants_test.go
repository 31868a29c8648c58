package acceptance

import "testing"

// mutant is the program with a deliberate defect, to show that the tests notice.
type mutant struct {
	name string
	// breaks says which invariant is broken, and by what.
	breaks string
	edits  []edit
}

// build builds the program with the defect and returns its path.
func (m mutant) build(t testing.TB, tags ...string) string {
	t.Helper()
	return program{name: "mutant " + m.name, tags: tags, edits: m.edits}.build(t)
}

// The files that most defects are in.
const (
	batchFile     = "internal/pipeline/batch.go"
	publisherFile = "internal/pipeline/publisher.go"
	saverFile     = "internal/pipeline/saver.go"
	nominateFile  = "internal/pipeline/nominate.go"
)

// mutants are the defects. Those of a moment show only when it is hit: a kill, a cut connection, an error of the bus.
var mutants = []mutant{
	{"drop-one", "2: one event of a thousand is taken for published and is not sent", []edit{
		{batchFile, "const (\n\tmessageBytes", "var dropped atomic.Uint64\n\nconst (\n\tmessageBytes"},
		{batchFile, "\t\"sync\"\n", "\t\"sync\"\n\t\"sync/atomic\"\n"},
		{batchFile, "\tb.messages = append(b.messages, sink.Message{\n",
			"\tif dropped.Add(1)%1000 == 500 {\n\t\treturn\n\t}\n\tb.messages = append(b.messages, sink.Message{\n"},
	}},
	{"a-batch-late", "3: the last message of a batch is sent behind the next batch", []edit{
		{publisherFile, "\tstarted := time.Now()\n", "\tb.messages = postpone(p, b.messages)\n\tstarted := time.Now()\n"},
		{publisherFile, "// pending returns", `var postponed sync.Map

func postpone(p *publisher, messages []sink.Message) []sink.Message {
	before, waited := postponed.LoadAndDelete(p)
	n := len(messages) - 1
	if n > 0 {
		last := messages[n]
		last.Key, last.Value = bytes.Clone(last.Key), bytes.Clone(last.Value)
		postponed.Store(p, last)
		messages = messages[:n]
	}
	if waited {
		messages = append(messages, before.(sink.Message))
	}
	return messages
}

// pending returns`},
		{publisherFile, "\t\"context\"\n", "\t\"bytes\"\n\t\"context\"\n"},
	}},
	{"save-before-publish", "1: the position is saved before the bus has the batch", []edit{
		{publisherFile, "\tstarted := time.Now()\n",
			"\tp.acknowledge(b)\n\tif err := p.flush(); err != nil {\n\t\treturn err\n\t}\n\tstarted := time.Now()\n"},
		{publisherFile, "\tfailpoint.Pass(failpoint.BeforeAck)\n\tp.acknowledge(b)\n", "\tfailpoint.Pass(failpoint.BeforeAck)\n"},
	}},
	{"no-resend", "6: the journal of a batch that was on its way is not sent again at the start", []edit{
		{"internal/pipeline/journal.go", "\tif len(state.Journals) == 0 {\n", "\tif len(state.Journals) >= 0 {\n"},
	}},
	{"trust-the-scan", "5: what a scan did not find is deleted, although nobody has read by key", []edit{
		{"reconcile/absent.go", "\tmissing, err := p.missing(ctx, p.candidates)\n", "\tmissing, err := p.candidates, error(nil)\n"},
		{nominateFile, "\t\tif err := s.encodeAgain(ctx, b, page, sink.FromReconcile); err != nil {\n\t\t\treturn err\n\t\t}\n", ""},
		{nominateFile, "\t\tif _, ok := there[string(entity)]; !ok {\n", "\t\tif _, ok := there[string(entity)]; ok || !ok {\n"},
		{nominateFile, "s.stillAbsent(ctx, absent)", "absent, error(nil)"},
	}},
	{"broken-read-is-whole", "2 and 5: a result that breaks off in the middle is taken for all of it", []edit{
		{"source/mysql/page.go", "\t\tcase err != nil:\n\t\t\treturn false, err\n\t\t}\n\t\tif row[0] != nil {\n",
			"\t\tcase err != nil && p.Now.IsZero():\n\t\t\treturn false, err\n\t\tcase err != nil:\n\t\t\treturn full, nil\n\t\t}\n\t\tif row[0] != nil {\n"},
		{"source/mysql/page.go", "\t\treturn errCut\n\t}\n\treturn rows.Close()\n}", "\t\treturn errCut\n\t}\n\t_ = rows.Close()\n\treturn nil\n}"},
	}},
	{"other-id-again", "4: an event that is made again in another second has another meta.id", []edit{
		{"event/body.go", "\tout, err := e.appendBody(out, &ev, f, id)\n",
			"\tid[14], id[15] = byte(time.Now().Unix()>>8), byte(time.Now().Unix())\n\tout, err := e.appendBody(out, &ev, f, id)\n"},
	}},
	{"read-uncommitted", "2: rows are read, and published, before they are committed, and those rolled back as well", []edit{
		{"source/mysql/session.go", `isolation: "READ COMMITTED"`, `isolation: "READ UNCOMMITTED"`},
	}},
	{"no-ledger", "2: an id that commits below the position is forgotten", []edit{
		{"internal/pipeline/ledger_on.go", "const ledgerOff = false", "const ledgerOff = true"},
	}},
	{"stale-state", "3: reconcile publishes a row as the scan saw it two seconds ago, not as the owner reads it then", []edit{
		{"reconcile/owner.go", "\tEntities [][]byte\n}", "\tEntities [][]byte\n\tStale    map[uint64][][]byte\n}"},
		{"reconcile/nominate.go", "\tflying        chan outcome\n}", "\tflying        chan outcome\n\tstale         map[uint64][][]byte\n}"},
		{"reconcile/nominate.go", "\tnamed := Nomination{Rows: n.ranges}\n", "\tnamed := Nomination{Rows: n.ranges, Stale: n.stale}\n\tn.stale = nil\n\t<-time.After(2 * time.Second)\n"},
		{"reconcile/scan.go", "\t\tp.rows.row(record.ID)\n", `		p.rows.row(record.ID)
		if p.rows.stale == nil {
			p.rows.stale = make(map[uint64][][]byte)
		}
		values := make([][]byte, len(record.Values))
		for i, value := range record.Values {
			values[i] = bytes.Clone(value)
		}
		p.rows.stale[record.ID] = values
`},
		{nominateFile, "\t\t\treturn s.encodeAgain(ctx, b, page, origin)\n", `			for i := range page.Records {
				if n == nil {
					break
				}
				if values := n.Stale[page.Records[i].ID]; len(values) == len(page.Records[i].Values) {
					page.Records[i].Values = values
				}
			}
			return s.encodeAgain(ctx, b, page, origin)
`},
	}},
	{"alter-one", "4: the value of a member is another in one event of a thousand", []edit{
		{batchFile, "const (\n\tmessageBytes", `var altered atomic.Uint64

func alter(body []byte) {
	data := bytes.Index(body, []byte("\"data\":{"))
	if data < 0 || altered.Add(1)%1000 != 500 {
		return
	}
	for i := data + len("\"data\":{"); i+2 < len(body); i++ {
		if body[i] != ':' || body[i-1] != '"' {
			continue
		}
		at := i + 1
		if body[at] == '"' {
			at++
		}
		if c := body[at]; c >= '1' && c < '9' || c >= 'a' && c < 'z' || c >= 'A' && c < 'Z' {
			body[at]++
		}
		return
	}
}

const (
	messageBytes`},
		{batchFile, "\t\"sync\"\n", "\t\"sync\"\n\t\"sync/atomic\"\n"},
		{batchFile, "\tb.messages = append(b.messages, sink.Message{\n", "\talter(e.Body)\n\tb.messages = append(b.messages, sink.Message{\n"},
	}},
	{"kafka-error-is-ack", "1: a batch that Kafka has refused, or not answered to, counts as acknowledged", []edit{
		{"sink/kafka/send.go", "\t\tif err == nil || remedyFor(err) == done {\n",
			"\t\tl.broken = l.broken || err != nil && f.stamped != nil\n\t\tif err == nil || remedyFor(err) == done || f.stamped != nil {\n"},
	}},
	{"nats-error-is-ack", "1: a message that JetStream has refused, or not answered to, counts as acknowledged", []edit{
		{"sink/jetstream/fly.go", "\t\tf.call.rewind(f.index, f.state == waiting && !told || f.answer.unsure)\n",
			"\t\t_ = told\n\t\tf.call.acked(f.index, f.predicted, false)\n"},
	}},
	{"end-is-ack", "1: what was not acknowledged when a publish is cancelled counts as acknowledged", []edit{
		{publisherFile, "\t\tp.note(left, &outcome)\n", "\t\tp.note(left, &outcome)\n\t\tif err != nil {\n\t\t\treturn nil, nil\n\t\t}\n"},
	}},
	{"saves-late", "6: a position is saved 3 s after its batch was acknowledged, so that a kill repeats more than was in flight", []edit{
		{saverFile, "func collect(request *save, in <-chan save) {\n\tfor {\n",
			"func collect(request *save, in <-chan save) {\n\tlater := time.After(3 * time.Second)\n\tfor len(request.state.Journals) == 0 {\n"},
		{saverFile, "\t\tdefault:\n\t\t\treturn\n", "\t\tcase <-later:\n\t\t\treturn\n"},
		{saverFile, "\t\"context\"\n", "\t\"context\"\n\t\"time\"\n"},
	}},
	{"no-look-back", "2: a change that is committed behind the second cursor is not looked for", []edit{
		{"internal/pipeline/modified.go", "\tc := s.second\n\tif !c.looking {\n",
			"\tc := s.second\n\tif c != nil {\n\t\treturn nil\n\t}\n\tif !c.looking {\n"},
	}},
}

// TestMutantsFitTheSources holds the edits against the sources, so that a change of one that a mutant is made of is seen at once.
func TestMutantsFitTheSources(t *testing.T) {
	names := make(map[string]bool)
	for _, m := range mutants {
		if names[m.name] || m.breaks == "" || len(m.edits) == 0 {
			t.Errorf("%s: named twice, or says nothing", m.name)
		}
		names[m.name] = true
		if _, err := applyEdits(m.edits); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// TestMutantsBuild is part of the long forms: it builds the program once for each.
func TestMutantsBuild(t *testing.T) {
	if !soak {
		t.Skip("builds every mutant: BRIDGE_TEST_SOAK=1")
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) { m.build(t) })
	}
}
