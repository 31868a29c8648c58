package natskv_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/internal/natskv"
	"example.org/bridge/tests/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestABucketIsOneOfTheLibrary: clients of NATS know it, and make the same.
func TestABucketIsOneOfTheLibrary(t *testing.T) {
	js := testenv.OwnNATS(t).JetStream(t)
	ours, err := natskv.Create(t.Context(), js, natskv.Bucket{Name: "ours", Description: "of a test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{
		Bucket: "theirs", Description: "of a test", History: 1, Storage: jetstream.FileStorage, Replicas: 1,
	}); err != nil {
		t.Fatal(err)
	}
	theirs, err := js.Stream(t.Context(), natskv.Stream("theirs"))
	if err != nil {
		t.Fatal(err)
	}
	a, b := ours.CachedInfo().Config, theirs.CachedInfo().Config
	b.Name, b.Subjects = a.Name, a.Subjects
	if a.Name != "KV_ours" || a.Subjects[0] != "$KV.ours.>" {
		t.Errorf("the stream is %s with %q", a.Name, a.Subjects)
	}
	compare(t, a, b)
	kv, err := js.KeyValue(t.Context(), "ours")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.PutString(t.Context(), "key", "value"); err != nil {
		t.Error(err)
	}
}

// compare fails the test where two streams keep messages in different ways.
func compare(t *testing.T, a, b jetstream.StreamConfig) {
	t.Helper()
	type kept struct {
		Description                                string
		Storage                                    jetstream.StorageType
		Discard                                    jetstream.DiscardPolicy
		Replicas                                   int
		Messages, Bytes, Each, Consumers           int64
		Size                                       int32
		Age, Duplicates                            time.Duration
		Rollup, DenyDelete, DenyPurge, Direct, Ack bool
	}
	of := func(c jetstream.StreamConfig) kept {
		return kept{
			c.Description, c.Storage, c.Discard, c.Replicas, c.MaxMsgs, c.MaxBytes, c.MaxMsgsPerSubject, int64(c.MaxConsumers), c.MaxMsgSize,
			c.MaxAge, c.Duplicates, c.AllowRollup, c.DenyDelete, c.DenyPurge, c.AllowDirect, c.NoAck,
		}
	}
	if of(a) != of(b) {
		t.Errorf("ours is\n%+v\nthat of the library\n%+v", of(a), of(b))
	}
}

func TestReplicas(t *testing.T) {
	alone := testenv.OwnNATS(t).JetStream(t)
	for _, c := range []struct{ asked, want int }{{0, 1}, {1, 1}, {3, 0}} {
		stream, err := natskv.Create(t.Context(), alone, natskv.Bucket{Name: testenv.NewStreamName(), Replicas: c.asked})
		if c.want == 0 {
			if err == nil {
				t.Errorf("one server makes %d replicas", c.asked)
			}
			continue
		}
		if err != nil || stream.CachedInfo().Config.Replicas != c.want {
			t.Errorf("%d replicas are asked for: %v", c.asked, err)
		}
	}
}
