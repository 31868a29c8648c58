package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"

	"bridge/internal/demo"
	"bridge/internal/testenv"
)

// verifyReport is what `bridge verify --json` prints.
type verifyReport struct {
	Good     bool
	Messages int
	Streams  []struct {
		Stream   string
		Events   int
		Repeats  int
		Faults   []verifyFinding
		Unjudged []verifyFinding
	}
	Foreign verifyFinding
}

type verifyFinding struct {
	Fault, Reason string
	Count         int
	Examples      []map[string]any
}

// faults returns the counts of all faults, and of what was not judged behind "not judged ".
func (r verifyReport) faults() map[string]int {
	found := make(map[string]int)
	for _, s := range r.Streams {
		for _, f := range s.Faults {
			found[f.Fault] += f.Count
		}
		for _, d := range s.Unjudged {
			found["not judged "+d.Reason] += d.Count
		}
	}
	if r.Foreign.Count > 0 {
		found["foreign"] = r.Foreign.Count
	}
	return found
}

// runVerify runs bridge verify and fails the test when its exit status does not fit what it found.
func runVerify(t testing.TB, e env) verifyReport {
	t.Helper()
	status, stdout, stderr := bridge(t, e, "verify", "--json")
	var r verifyReport
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	if want := map[bool]int{true: 0, false: 1}[r.Good]; status != want {
		t.Errorf("exit status %d for %+v: %s", status, r, stderr)
	}
	return r
}

// mustVerify fails the test unless bridge verify finds exactly the faults that want says, as in "missing 1".
func mustVerify(t testing.TB, e env, want ...string) verifyReport {
	t.Helper()
	r := runVerify(t, e)
	var found []string
	for fault, n := range r.faults() {
		found = append(found, fmt.Sprintf("%s %d", fault, n))
	}
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q: %+v", found, want, r)
	}
	return r
}

// history publishes a table in which an entity of revisions and a key of facts have several events, and returns the messages
// of both streams.
func history(t *testing.T, b bus) (s *scene, recorded map[string][]received) {
	t.Helper()
	s = newScene(t, testenv.MariaDB(t), b)
	s.table.fill(300)
	d := newDaemon(t, binary(t, false), s.env)
	d.start()
	s.drained(d)
	write := func(revision, params string, deleted int) {
		t.Helper()
		// Rows of an hour ago are stable at once.
		s.table.exec(`REPLACE INTO app_revision (data_center, revision, app_name, base_params, gmt_create, gmt_modified, deleted)
			VALUES ('h', ?, 'hist', ?, now() - interval 1 hour, now() - interval 1 hour, ?)`, revision, params, deleted)
		s.drained(d)
	}
	for version := range 5 {
		write("a", fmt.Sprintf("version-%d", version), 0)
		if version < 3 {
			write("b", fmt.Sprintf("version-%d", version), version/2)
		}
	}
	if status, _ := d.term(); status != 0 {
		t.Fatalf("exit status %d", status)
	}
	recorded = make(map[string][]received)
	for _, stream := range []string{capability, release} {
		recorded[stream] = b.read(t, s.destination(stream))
	}
	return s, recorded
}

// of returns the places in messages of those with this text in their values, in their order.
func of(messages []received, text string) (at []int) {
	for i, m := range messages {
		if strings.Contains(string(m.value), text) {
			at = append(at, i)
		}
	}
	return at
}

// replay makes a place with these messages and returns the environment of a check of it.
func replay(t *testing.T, s *scene, stream string, messages []received) env {
	t.Helper()
	name := "v_" + strings.ReplaceAll(testenv.NewStreamName(), "-", "_")
	e := s.env.with(env{
		"BRIDGE_STREAMS": stream,
		"BRIDGE_STREAM_" + strings.ToUpper(stream) + "_DESTINATION": s.bus.open(t, name),
	})
	// The variables of the other stream would be unknown ones.
	maps.DeleteFunc(e, func(variable, _ string) bool {
		return strings.HasPrefix(variable, "BRIDGE_STREAM_") && !strings.HasPrefix(variable, "BRIDGE_STREAM_"+strings.ToUpper(stream))
	})
	switch b := s.bus.(type) {
	case kafkaBus:
		b.replay(t, name, messages)
	case natsBus:
		b.replay(t, name, messages)
	}
	return e
}

func (b kafkaBus) replay(t *testing.T, topic string, messages []received) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.server.Brokers()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var records []*kgo.Record
	for _, m := range messages {
		partition, err := strconv.Atoi(m.place)
		if err != nil {
			t.Fatal(err)
		}
		r := &kgo.Record{Topic: topic, Partition: int32(partition), Key: []byte(m.key), Value: m.value}
		for name, value := range m.headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		records = append(records, r)
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func (b natsBus) replay(t *testing.T, stream string, messages []received) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	js := b.server.JetStream(t)
	for _, m := range messages {
		// The headers of JetStream itself would have it drop what is there already.
		msg := &nats.Msg{Subject: stream + "." + m.headers["eiffel-type"], Data: m.value, Header: nats.Header{}}
		for name, value := range m.headers {
			if !strings.HasPrefix(name, "Nats-") {
				msg.Header.Set(name, value)
			}
		}
		if _, err := js.PublishMsg(ctx, msg); err != nil {
			t.Fatal(err)
		}
	}
}

// altered returns messages with text replaced in one of them.
func altered(t *testing.T, messages []received, at int, was, is string) []received {
	t.Helper()
	messages = slices.Clone(messages)
	value := bytes.Replace(messages[at].value, []byte(was), []byte(is), 1)
	if bytes.Equal(value, messages[at].value) {
		t.Fatalf("no %q in %s", was, value)
	}
	messages[at].value = value
	return messages
}

// swap returns messages with two exchanged.
func swap(messages []received, i, j int) []received {
	messages = slices.Clone(messages)
	messages[i], messages[j] = messages[j], messages[i]
	return messages
}

// TestVerify plants one fault at a time in a copy of what bridge published, at the beginning, in the middle and at the end of
// what one entity or key has.
func TestVerify(t *testing.T) {
	eachBus(t, func(t *testing.T, b bus) {
		s, recorded := history(t, b)
		t.Run("passes what bridge published", func(t *testing.T) { mustVerify(t, s.env, "not judged purged 6") })
		for stream, text := range map[string]string{capability: `"revision":"a"`, release: `"appName":"hist"`} {
			clean := recorded[stream]
			at := of(clean, text)
			if want := map[string]int{capability: 5, release: 8}[stream]; len(at) != want {
				t.Fatalf("%s has %d events of %s, want %d", stream, len(at), text, want)
			}
			plantFaults(t, s, stream, clean, at)
		}
	})
}

// plantFaults tries all faults on the messages of a stream; those at are about one thing.
func plantFaults(t *testing.T, s *scene, stream string, clean []received, at []int) {
	plant := func(name string, messages []received, want ...string) {
		t.Run(stream+": "+name, func(t *testing.T) {
			t.Parallel()
			if stream == release {
				// Rows that REPLACE has removed.
				want = append(want, "not judged purged 6")
			}
			mustVerify(t, replay(t, s, stream, messages), want...)
		})
	}
	first, middle, last := at[0], at[2], at[len(at)-1]
	beforeLast := at[len(at)-2]
	plant("a faithful copy is good", clean)
	cut := func(i int) []received { return slices.Delete(slices.Clone(clean), i, i+1) }
	if stream == capability {
		plant("the first message is removed", cut(first), "brokenLink 1")
		plant("one in the middle is removed", cut(middle), "brokenLink 1")
		plant("the last message is removed", cut(last), "stale 1")
		plant("the last two are swapped", swap(clean, beforeLast, last), "outOfOrder 1", "stale 1")
	} else {
		plant("the last message is removed", cut(last), "missing 1")
		plant("the last two are swapped", swap(clean, beforeLast, last), "outOfOrder 1")
		plant("a message of a row that is there is removed", cut(0), "missing 1")
	}
	for where, i := range map[string]int{"first": first, "middle": middle, "last": last} {
		plant("the "+where+" message is altered", altered(t, clean, i, `"baseParams":"version-`, `"baseParams":"Version-`), "altered 1")
	}
	plant("the first two are swapped", swap(clean, first, at[1]), "outOfOrder 1")
	plant("two in the middle are swapped", swap(clean, at[1], middle), "outOfOrder 1")
	if stream == capability {
		added := altered(t, append(slices.Clone(clean), clean[last]), len(clean), `"revision":"a"`, `"revision":"z"`)
		plant("an entity is added", added, "altered 1", "brokenLink 1", "extra 1")
		plant("an older event is added at the end", append(slices.Clone(clean), clean[middle]), "stale 1")
	} else {
		added := append(slices.Clone(clean), clean[last])
		added = altered(t, added, len(clean), `"id":`+added[len(clean)].headers["bridge-row-id"]+"}", `"id":999999}`)
		plant("a row is added", added, "altered 1")
	}
	hello := slices.Clone(clean[0:1])
	hello[0].value, hello[0].headers = []byte("hello"), map[string]string{"eiffel-type": clean[0].headers["eiffel-type"]}
	plant("something else is added", append(slices.Clone(clean), hello...), "foreign 1")
	plant("a run is repeated", append(slices.Clone(clean), clean[len(clean)-20:]...))
}

// TestVerifySeesDeletedMessages deletes messages of a stream by their sequences.
func TestVerifySeesDeletedMessages(t *testing.T) {
	b := natsBus{testenv.NATS(t)}
	s, recorded := history(t, b)
	clean := recorded[capability]
	at := of(clean, `"revision":"a"`)
	for name, want := range map[int]string{at[0]: "brokenLink 1", at[2]: "brokenLink 1", at[4]: "stale 1", 0: "missing 1"} {
		t.Run(fmt.Sprintf("%s when message %d is deleted", want, name+1), func(t *testing.T) {
			e := replay(t, s, capability, clean)
			stream := strings.TrimSuffix(e["BRIDGE_STREAM_REVISIONS_DESTINATION"], ".{type}")
			handle, err := b.server.JetStream(t).Stream(t.Context(), stream)
			if err != nil {
				t.Fatal(err)
			}
			if err := handle.DeleteMsg(t.Context(), uint64(name+1)); err != nil {
				t.Fatal(err)
			}
			mustVerify(t, e, want)
		})
	}
	t.Run("and does not judge what a limit has removed", func(t *testing.T) {
		e := replay(t, s, capability, clean)
		name := strings.TrimSuffix(e["BRIDGE_STREAM_REVISIONS_DESTINATION"], ".{type}")
		_, err := b.server.JetStream(t).UpdateStream(t.Context(), jetstream.StreamConfig{
			Name: name, Subjects: []string{name + ".>"}, Storage: jetstream.FileStorage, Duplicates: 2 * time.Minute, MaxMsgs: int64(len(clean) - 10),
		})
		if err != nil {
			t.Fatal(err)
		}
		mustVerify(t, e, "not judged expired 10")
	})
}

// TestVerifyBesideARunningBridge compares while rows are written and published.
func TestVerifyBesideARunningBridge(t *testing.T) {
	eachBus(t, func(t *testing.T, b bus) {
		s := newScene(t, testenv.MariaDB(t), b)
		s.table.fill(5_000)
		d := newDaemon(t, binary(t, false), s.env)
		d.start()
		s.drained(d)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.table.write(ctx, 1_000_000, 300) }()
		for range 3 {
			for fault, n := range runVerify(t, s.env).faults() {
				if !strings.HasPrefix(fault, "not judged") {
					t.Errorf("%s %d", fault, n)
				}
			}
		}
		cancel()
		<-done
	})
}

// TestVerifyTheServerInside reads the server of embedded:, while bridge runs and after it has ended.
func TestVerifyTheServerInside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := demo.OpenDatabase(t.Context(), filepath.Join(dir, "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for range 20 {
		if _, err := db.Exec("INSERT INTO release_message (app_id, cluster, namespace, comment, gmt_create) VALUES ('a', 'b', 'c', 'd', datetime())"); err != nil {
			t.Fatal(err)
		}
	}
	e := env{
		"BRIDGE_SOURCE_URL": "sqlite://" + filepath.Join(dir, "shop.db"), "BRIDGE_STREAMS": "releases",
		"BRIDGE_STREAM_RELEASES_TABLE": demo.Releases, "BRIDGE_STREAM_RELEASES_KIND": "release",
		"BRIDGE_SINK_URL": "embedded:" + filepath.Join(dir, "nats"),
	}
	if status, _, stderr := bridge(t, e, "verify"); status != 1 || !strings.Contains(stderr, "has published nothing") {
		t.Errorf("before the first start: %d %s", status, stderr)
	}
	if status, _, stderr := bridge(t, e.with(env{"BRIDGE_SINK_URL": "stdout:"}), "verify"); status != 1 || !strings.Contains(stderr, "cannot be read back") {
		t.Errorf("stdout: %d %s", status, stderr)
	}
	d := newDaemon(t, binary(t, false), e)
	d.start()
	eventually(t, 20*time.Second, "bridge has published", func() bool { return d.position("releases") == 20 })
	if status, _, stderr := bridge(t, e, "verify"); status != 1 || !strings.Contains(stderr, "stop it, or") {
		t.Errorf("while bridge runs without a listener: %d %s", status, stderr)
	}
	if status, _ := d.term(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if r := mustVerify(t, e); r.Messages != 20 {
		t.Errorf("%+v", r)
	}
	listening := e.with(env{"BRIDGE_SINK_URL": e["BRIDGE_SINK_URL"] + fmt.Sprintf("?listen=127.0.0.1:%d", testenv.FreePort(t))})
	d.env = d.env.with(listening)
	d.start()
	eventually(t, 20*time.Second, "bridge runs", func() bool { return d.position("releases") == 20 })
	mustVerify(t, listening)
	if status, _ := d.term(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}
