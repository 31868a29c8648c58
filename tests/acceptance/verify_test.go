package acceptance

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
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
	p.Ends()
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

// TestVerify has bridge verify read copies of what bridge published, with a fault of each kind that
// depends on how a bus is read. internal/verify has all faults.
func TestVerify(t *testing.T) {
	testall.Beside(t)
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		p, recorded := history(t, b)
		t.Run("passes what bridge published", func(t *testing.T) { mustVerify(t, p.Env, "not judged purged 6") })
		plant := func(stream, name string, messages []world.Message, want ...string) {
			if stream == release {
				// Rows that REPLACE has removed.
				want = append(want, "not judged purged 6")
			}
			t.Run(stream+": "+name, func(t *testing.T) {
				t.Parallel()
				mustVerify(t, replay(t, p, stream, messages), want...)
			})
		}
		for stream, clean := range recorded {
			at := of(clean, `"entity":"a"`)
			if len(at) != 5 {
				t.Fatalf("%s has %d events of a, want 5", stream, len(at))
			}
			first, middle, last := at[0], at[2], at[4]
			cut := func(i int) []world.Message { return slices.Delete(slices.Clone(clean), i, i+1) }
			plant(stream, "a faithful copy is good", clean)
			plant(stream, "a message in the middle is altered", altered(t, clean, middle, `"body":"version-`, `"body":"Version-`), "altered 1")
			hello := slices.Clone(clean[0:1])
			hello[0].Value, hello[0].Headers = []byte("hello"), map[string]string{"eiffel-type": world.TypeOf(clean[0])}
			plant(stream, "something else is added", append(slices.Clone(clean), hello...), "foreign 1")
			if stream == release {
				plant(stream, "the last message is removed", cut(last), "missing 1")
				plant(stream, "a message of a row that is there is removed", cut(0), "lost 1", "missing 1")
				continue
			}
			plant(stream, "the first message is removed", cut(first), "lost 1", "brokenLink 1")
			plant(stream, "the last message is removed", cut(last), "stale 1")
			if b.Kafka != nil {
				moved := slices.Clone(clean)
				moved[0].Partition = map[bool]string{true: "1", false: "0"}[moved[0].Partition == "0"]
				plant(stream, "an event lies in another partition than that of its key", moved, "otherPartition 1")
			}
			t.Run("a run is repeated", func(t *testing.T) {
				t.Parallel()
				r := mustVerify(t, replay(t, p, stream, append(slices.Clone(clean), clean[len(clean)-20:]...)))
				found := r.Streams[0].Repeated
				if r.Streams[0].Repeats != 20 || len(found) != 1 || found[0].Repeat != "copy" || found[0].Count != 20 || found[0].Examples[0]["at"] == nil {
					t.Errorf("%d repeats, %+v", r.Streams[0].Repeats, found)
				}
			})
		}
	})
}
