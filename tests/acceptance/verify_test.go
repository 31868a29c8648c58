package acceptance

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"bridge/internal/demo"
	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/workload"
	"bridge/tests/world"
)

// mustVerify fails the test unless bridge verify finds exactly the faults that want says, as in
// "missing 1".
func mustVerify(t testing.TB, e world.Env, want ...string) world.VerifyReport {
	t.Helper()
	r := world.Verify(t, e)
	var found []string
	for fault, n := range r.Faults() {
		found = append(found, fmt.Sprintf("%s %d", fault, n))
	}
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q: %+v", found, want, r)
	}
	return r
}

// history publishes a table in which an entity has several events, and returns the messages of both
// streams.
func history(t *testing.T, b *world.Bus) (p *world.Publisher, recorded map[string][]world.Message) {
	t.Helper()
	w := newRows(t, testenv.MariaDB(t), workload.Options{})
	w.Exec("ALTER TABLE orders ADD COLUMN deleted tinyint NOT NULL DEFAULT 0")
	w.Fill("old", 300, 1)
	p = w.Publish(b, world.Publishing{Streams: twoStreams, Env: world.Env{"BRIDGE_STREAM_STATES_DELETED": "deleted"}})
	p.Start()
	p.Drained()
	write := func(entity, body string, deleted int) {
		t.Helper()
		// Rows of an hour ago are stable at once.
		w.Exec("REPLACE INTO orders (entity, token, body, created, deleted) VALUES (?, uuid(), ?, now() - interval 1 hour, ?)", entity, body, deleted)
		p.Drained()
	}
	for version := range 5 {
		write("a", fmt.Sprintf("version-%d", version), 0)
		if version < 3 {
			write("b", fmt.Sprintf("version-%d", version), version/2)
		}
	}
	if status, _ := p.Term(); status != 0 {
		t.Fatalf("exit status %d", status)
	}
	recorded = make(map[string][]world.Message)
	for _, stream := range []string{capability, release} {
		recorded[stream] = p.Received(stream)
	}
	return p, recorded
}

// of returns the indices of the messages with this text in their values, in their order.
func of(messages []world.Message, text string) (at []int) {
	for i, m := range messages {
		if strings.Contains(string(m.Value), text) {
			at = append(at, i)
		}
	}
	return at
}

// replay makes a topic or stream with these messages and returns the environment of a check of it.
func replay(t *testing.T, p *world.Publisher, stream string, messages []world.Message) world.Env {
	t.Helper()
	name := "v_" + strings.ReplaceAll(testenv.NewStreamName(), "-", "_")
	e := p.Env.With(world.Env{
		"BRIDGE_STREAMS": stream,
		"BRIDGE_STREAM_" + strings.ToUpper(stream) + "_DESTINATION": p.Bus.Open(t, name),
	})
	// The variables of the other stream would be unknown ones.
	maps.DeleteFunc(e, func(variable, _ string) bool {
		return strings.HasPrefix(variable, "BRIDGE_STREAM_") && !strings.HasPrefix(variable, "BRIDGE_STREAM_"+strings.ToUpper(stream))
	})
	p.Bus.Replay(t, name, messages)
	return e
}

// altered returns messages with text replaced in one of them.
func altered(t *testing.T, messages []world.Message, at int, was, is string) []world.Message {
	t.Helper()
	messages = slices.Clone(messages)
	value := bytes.Replace(messages[at].Value, []byte(was), []byte(is), 1)
	if bytes.Equal(value, messages[at].Value) {
		t.Fatalf("no %q in %s", was, value)
	}
	messages[at].Value = value
	return messages
}

// falsified returns messages with another digest in the header bridge-state of one of them.
func falsified(messages []world.Message, at int) []world.Message {
	messages = slices.Clone(messages)
	headers := maps.Clone(messages[at].Headers)
	fields := strings.Fields(headers["bridge-state"])
	fields[4] = strings.Repeat("A", len(fields[4]))
	headers["bridge-state"] = strings.Join(fields, " ")
	messages[at].Headers = headers
	return messages
}

// TestVerifyAfterMigrations alters a table whose rows were published as facts.
func TestVerifyAfterMigrations(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	testenv.EachProduct(t, func(t *testing.T, product testenv.Product) {
		w := newRows(t, product.Shared(t), workload.Options{})
		w.Exec("ALTER TABLE orders ADD COLUMN code int NOT NULL DEFAULT 7, ADD COLUMN at datetime NOT NULL DEFAULT '2026-02-01 00:00:01', ADD COLUMN app_note varchar(10) NULL")
		w.Fill("old", 20, 1)
		facts := world.Stream{Name: release, Table: world.Orders, Kind: "release", Env: world.Env{"KEY": "entity", "CREATED": "created"}}
		p := w.Publish(world.NATSBus(testenv.NATS(t)), world.Publishing{Streams: []world.Stream{facts}})
		publish := func() {
			t.Helper()
			p.Start()
			p.Drained()
			if status, _ := p.Term(); status != 0 {
				t.Fatalf("exit status %d", status)
			}
		}
		publish()
		mustVerify(t, p.Env)
		for _, migration := range []string{
			"ADD COLUMN more int NULL", "ADD COLUMN five int NOT NULL DEFAULT 5 AFTER entity", "MODIFY code bigint NOT NULL DEFAULT 7", "MODIFY app_note varchar(20) NULL",
			"MODIFY at datetime(3) NOT NULL DEFAULT '2026-02-01 00:00:01'", "MODIFY code varchar(20) NOT NULL DEFAULT '7'", "DROP COLUMN app_note",
		} {
			w.Exec("ALTER TABLE orders " + migration)
			t.Run("after "+migration, func(t *testing.T) { mustVerify(t, p.Env) })
		}
		w.Exec("INSERT INTO orders (entity, token, body, created) VALUES ('new', uuid(), 'x', now() - interval 1 hour)")
		publish()
		mustVerify(t, p.Env)
	})
}

// TestVerifyExactlyOnce has a message there twice that was published with exactly-once.
func TestVerifyExactlyOnce(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		w := newRows(t, testenv.MariaDB(t), workload.Options{})
		w.Fill("old", 20, 1)
		p := w.Publish(b.ExactlyOnce(t.Name()), world.Publishing{Streams: twoStreams[:1]})
		p.Start()
		p.Drained()
		if status, _ := p.Term(); status != 0 {
			t.Fatalf("exit status %d", status)
		}
		mustVerify(t, p.Env)
		stream := twoStreams[0].Name
		p.Bus.Replay(t, p.Destination(stream), p.Received(stream)[7:8])
		mustVerify(t, p.Env, "repeated 1")
	})
}

// swap returns messages with two exchanged.
func swap(messages []world.Message, i, j int) []world.Message {
	messages = slices.Clone(messages)
	messages[i], messages[j] = messages[j], messages[i]
	return messages
}

// TestVerify plants one fault at a time in a copy of what bridge published, at the beginning, in
// the middle and at the end of what one entity or key has.
func TestVerify(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		p, recorded := history(t, b)
		t.Run("passes what bridge published", func(t *testing.T) { mustVerify(t, p.Env, "not judged purged 6") })
		for stream, text := range map[string]string{capability: `"entity":"a"`, release: `"entity":"a"`} {
			clean := recorded[stream]
			at := of(clean, text)
			if len(at) != 5 {
				t.Fatalf("%s has %d events of %s, want 5", stream, len(at), text)
			}
			plantFaults(t, p, stream, clean, at)
		}
	})
}

// plantFaults tries all faults on the messages of a stream; those at are about one thing.
func plantFaults(t *testing.T, p *world.Publisher, stream string, clean []world.Message, at []int) {
	var purged []string
	if stream == release {
		// Rows that REPLACE has removed.
		purged = []string{"not judged purged 6"}
	}
	plant := func(name string, messages []world.Message, want ...string) {
		t.Run(stream+": "+name, func(t *testing.T) {
			t.Parallel()
			mustVerify(t, replay(t, p, stream, messages), append(want, purged...)...)
		})
	}
	first, middle, last := at[0], at[2], at[len(at)-1]
	beforeLast := at[len(at)-2]
	plant("a faithful copy is good", clean)
	cut := func(i int) []world.Message { return slices.Delete(slices.Clone(clean), i, i+1) }
	if stream == capability {
		plant("the first message is removed", cut(first), "lost 1", "brokenLink 1")
		plant("one in the middle is removed", cut(middle), "lost 1", "brokenLink 1")
		plant("the last message is removed", cut(last), "stale 1")
		plant("the last two are swapped", swap(clean, beforeLast, last), "outOfOrder 1", "stale 1")
	} else {
		plant("the last message is removed", cut(last), "missing 1")
		plant("the last two are swapped", swap(clean, beforeLast, last), "outOfOrder 1")
		plant("a message of a row that is there is removed", cut(0), "lost 1", "missing 1")
	}
	for where, i := range map[string]int{"first": first, "middle": middle, "last": last} {
		plant("the "+where+" message is altered", altered(t, clean, i, `"body":"version-`, `"body":"Version-`), "altered 1")
	}
	plant("the first two are swapped", swap(clean, first, at[1]), "outOfOrder 1")
	plant("two in the middle are swapped", swap(clean, at[1], middle), "outOfOrder 1")
	if stream == capability {
		added := altered(t, append(slices.Clone(clean), clean[last]), len(clean), `"entity":"a"`, `"entity":"z"`)
		plant("an entity is added", added, "altered 1", "brokenLink 1", "extra 1")
		plant("an older event is added at the end", append(slices.Clone(clean), clean[middle]), "stale 1")
	} else {
		added := append(slices.Clone(clean), clean[last])
		added = altered(t, added, len(clean), `"id":`+added[len(clean)].Headers["bridge-row-id"]+"}", `"id":999999}`)
		plant("a row is added", added, "altered 1")
	}
	plant("the digest in a header is another one", falsified(clean, middle), "altered 1")
	if p.Bus.Kafka != nil {
		moved := slices.Clone(clean)
		moved[0].Partition = map[bool]string{true: "1", false: "0"}[moved[0].Partition == "0"]
		plant("an event lies in another partition than that of its key", moved, "otherPartition 1")
	}
	hello := slices.Clone(clean[0:1])
	hello[0].Value, hello[0].Headers = []byte("hello"), map[string]string{"eiffel-type": world.TypeOf(clean[0])}
	plant("something else is added", append(slices.Clone(clean), hello...), "foreign 1")
	t.Run(stream+": a run is repeated", func(t *testing.T) {
		t.Parallel()
		e := replay(t, p, stream, append(slices.Clone(clean), clean[len(clean)-20:]...))
		r := mustVerify(t, e, purged...)
		found := r.Streams[0].Repeated
		if r.Streams[0].Repeats != 20 || len(found) != 1 || found[0].Repeat != "copy" || found[0].Count != 20 || found[0].Examples[0]["at"] == nil {
			t.Errorf("%d repeats, %+v", r.Streams[0].Repeats, found)
		}
	})
}

// TestVerifySeesDeletedMessages deletes messages of a stream by their sequences.
func TestVerifySeesDeletedMessages(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	b := world.NATSBus(testenv.NATS(t))
	p, recorded := history(t, b)
	clean := recorded[capability]
	at := of(clean, `"entity":"a"`)
	for name, want := range map[int]string{at[0]: "brokenLink 1", at[2]: "brokenLink 1", at[4]: "stale 1", 0: "missing 1"} {
		wants := []string{want}
		if name != at[4] {
			// No later message says that the last one was acknowledged.
			wants = append(wants, "lost 1")
		}
		t.Run(fmt.Sprintf("%s when message %d is deleted", want, name+1), func(t *testing.T) {
			e := replay(t, p, capability, clean)
			stream := strings.TrimSuffix(e["BRIDGE_STREAM_STATES_DESTINATION"], ".{type}")
			handle, err := b.NATS.JetStream(t).Stream(t.Context(), stream)
			if err != nil {
				t.Fatal(err)
			}
			if err := handle.DeleteMsg(t.Context(), uint64(name+1)); err != nil {
				t.Fatal(err)
			}
			mustVerify(t, e, wants...)
		})
	}
	t.Run("and does not judge what a limit has removed", func(t *testing.T) {
		e := replay(t, p, capability, clean)
		name := strings.TrimSuffix(e["BRIDGE_STREAM_STATES_DESTINATION"], ".{type}")
		_, err := b.NATS.JetStream(t).UpdateStream(t.Context(), jetstream.StreamConfig{
			Name: name, Subjects: []string{name + ".>"}, Storage: jetstream.FileStorage, Duplicates: 2 * time.Minute, MaxMsgs: int64(len(clean) - 10),
		})
		if err != nil {
			t.Fatal(err)
		}
		mustVerify(t, e, "not judged expired 10", "not judged removed 10")
	})
}

// TestVerifyBesideARunningBridge compares while rows are written and published.
func TestVerifyBesideARunningBridge(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		rows := workload.Options{Writers: 1, Rate: 300, Mix: workload.Mix{Replace: 0.1}}
		w := newRows(t, testenv.MariaDB(t), rows)
		w.Fill("old", 5000, 1)
		p := w.Publish(b, world.Publishing{Streams: twoStreams})
		p.Start()
		p.Drained()
		_, stop := w.Write()
		for judged, runs := 0, 0; judged < 3; runs++ {
			if runs == 20 {
				t.Fatalf("bridge kept up with the writers in %d of %d runs", judged, runs)
			}
			most := mostLag(p)
			var wrong []string
			for fault, n := range world.Verify(t, p.Env).Faults() {
				if !strings.HasPrefix(fault, "not judged") {
					wrong = append(wrong, fmt.Sprintf("%s %d", fault, n))
				}
			}
			switch lag := most(); {
			case len(wrong) == 0:
				judged++
			case lag > 1500*time.Millisecond:
				// What is missing for three seconds is missing to verify.
				t.Logf("%s while bridge lagged by %s", wrong, lag)
			default:
				t.Fatal(wrong)
			}
		}
		stop()
	})
}

// mostLag scrapes the lag of a bridge again and again; the function that it returns ends that, and
// returns the highest one.
func mostLag(p *world.Publisher) (end func() time.Duration) {
	stop, done := make(chan struct{}), make(chan float64)
	go func() {
		highest := 0.0
		for {
			select {
			case <-stop:
				done <- highest
				return
			case <-time.After(200 * time.Millisecond):
				highest = max(highest, p.HighestLag())
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		return time.Duration(<-done * float64(time.Second))
	}
}

// TestVerifyTheServerInside reads the server of embedded:, while bridge runs and after it has
// ended.
func TestVerifyTheServerInside(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	dir := t.TempDir()
	db, err := demo.OpenDatabase(t.Context(), filepath.Join(dir, "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for range 20 {
		if _, err := db.Exec("INSERT INTO orders (customer, total_cents, created) VALUES ('ada', 100, datetime())"); err != nil {
			t.Fatal(err)
		}
	}
	e := world.Env{
		"BRIDGE_SOURCE_URL": "sqlite://" + filepath.Join(dir, "shop.db"), "BRIDGE_STREAMS": "orders",
		"BRIDGE_STREAM_ORDERS_TABLE": demo.Orders, "BRIDGE_STREAM_ORDERS_KIND": "release",
		"BRIDGE_SINK_URL": "embedded:" + filepath.Join(dir, "nats"),
	}
	if status, _, stderr := world.Command(t, e, "verify"); status != 1 || !strings.Contains(stderr, "has published nothing") {
		t.Errorf("before the first start: %d %s", status, stderr)
	}
	if status, _, stderr := world.Command(t, e.With(world.Env{"BRIDGE_SINK_URL": "stdout:"}), "verify"); status != 1 || !strings.Contains(stderr, "cannot be read back") {
		t.Errorf("stdout: %d %s", status, stderr)
	}
	d := world.NewDaemon(t, world.Binary(t, false), e)
	d.Start()
	world.Eventually(t, time.Minute, "bridge has published", func() bool { return d.Position("orders") == 20 })
	if status, _, stderr := world.Command(t, e, "verify"); status != 1 || !strings.Contains(stderr, "stop it, or") {
		t.Errorf("while bridge runs without a listener: %d %s", status, stderr)
	}
	if status, _ := d.Term(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if r := mustVerify(t, e); r.Messages != 20 {
		t.Errorf("%+v", r)
	}
	listening := e.With(world.Env{"BRIDGE_SINK_URL": e["BRIDGE_SINK_URL"] + fmt.Sprintf("?listen=127.0.0.1:%d", testenv.FreePort(t))})
	d.Env = d.Env.With(listening)
	d.Start()
	world.Eventually(t, time.Minute, "bridge runs", func() bool { return d.Position("orders") == 20 })
	mustVerify(t, listening)
	if status, _ := d.Term(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}
