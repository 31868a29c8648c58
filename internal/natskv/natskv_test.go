package natskv_test

import (
	"reflect"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/internal/natskv"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestABucketIsOneOfTheLibrary: clients of NATS know it, and make the same.
func TestABucketIsOneOfTheLibrary(t *testing.T) {
	js := testenv.OwnNATS(t).JetStream(t)
	ours := must.Get(natskv.Create(t.Context(), js, natskv.Bucket{Name: "ours", Description: "of a test"}))(t)
	must.Get(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{
		Bucket: "theirs", Description: "of a test", History: 1, Storage: jetstream.FileStorage, Replicas: 1,
	}))(t)
	theirs := must.Get(js.Stream(t.Context(), natskv.Stream("theirs")))(t)
	a, b := ours.CachedInfo().Config, theirs.CachedInfo().Config
	b.Name, b.Subjects, b.Metadata = a.Name, a.Subjects, a.Metadata
	if a.Name != "KV_ours" || a.Subjects[0] != "$KV.ours.>" {
		t.Errorf("the stream is %s with %q", a.Name, a.Subjects)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("ours is\n%+v\nthat of the library\n%+v", a, b)
	}
	kv := must.Get(js.KeyValue(t.Context(), "ours"))(t)
	if _, err := kv.PutString(t.Context(), "key", "value"); err != nil {
		t.Error(err)
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
