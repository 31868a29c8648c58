package jetstream_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/internal/testenv"
	"bridge/sink"
	"bridge/sink/jetstream"

	"github.com/nats-io/nats-server/v2/server"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// told returns the ids of what lies behind a mark.
func told(t testing.TB, s *jetstream.Sink, mark sink.Offset) (ids []string, err error) {
	t.Helper()
	_, err = s.Recall(deadline(t, time.Minute), []sink.Offset{mark}, func(m *sink.Message) error {
		ids = append(ids, m.ID)
		return nil
	})
	return ids, err
}

// ours returns a series of messages about one entity.
func ours(subject, series string, n int) []sink.Message { return messages(subject, series, n, 1) }

func TestRecall(t *testing.T) {
	t.Parallel()
	broker := testenv.InProcessNATS(t)
	t.Run("passes over the subjects of others", func(t *testing.T) {
		stream := broker.CreateStream(t, natsjs.StreamConfig{})
		name := stream.CachedInfo().Config.Name
		s := open(t, jetstream.Options{URLs: []string{broker.URL()}, Stream: name, Published: []string{name + ".a.*", name + ".b"}})
		out := mustPublish(t, s, ours(name+".b", "before", 10))
		mustPublish(t, s, ours(name+".c", "others", 300))
		if got, err := told(t, s, out.Offsets[0]); err != nil || len(got) != 0 {
			t.Errorf("got %v, %v, want nothing", got, err)
		}
		mustPublish(t, s, ours(name+".a.x", "mine", 3))
		mustPublish(t, s, ours(name+".c", "more", 300))
		want := []string{"mine-0", "mine-1", "mine-2"}
		if got, err := told(t, s, out.Offsets[0]); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	})
	t.Run("tells nothing of another making of the stream, nor of one that is gone", func(t *testing.T) {
		stream := broker.CreateStream(t, natsjs.StreamConfig{})
		name := stream.CachedInfo().Config.Name
		s := open(t, jetstream.Options{URLs: []string{broker.URL()}, Stream: name})
		mark := mustPublish(t, s, ours(name+".b", "x", 10)).Offsets[0]
		mark.Last = 3
		if got, err := told(t, s, mark); err != nil || len(got) != 7 {
			t.Errorf("got %v, %v, want 7", got, err)
		}
		other, gone := mark, mark
		other.Incarnation, gone.TP = "2020-01-01T00:00:00Z", "GONE"
		for _, mark := range []sink.Offset{other, gone} {
			if got, err := told(t, s, mark); err != nil || len(got) != 0 {
				t.Errorf("%v: got %v, %v", mark, got, err)
			}
		}
	})
}

func TestRecallNamesTheRightThatLacks(t *testing.T) {
	t.Parallel()
	broker := testenv.InProcessNATS(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin", Password: "admin"}, {Username: "limited", Password: "secret", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"T.>", "$JS.API.STREAM.INFO.T", "$JS.API.STREAM.MSG.GET.T"}},
		}}}
	})
	broker.As("admin", "admin").CreateStream(t, natsjs.StreamConfig{Name: "T"})
	s := open(t, jetstream.Options{
		URLs: []string{broker.URL()}, Stream: "T", Password: func() (string, string, error) { return "limited", "secret", nil },
	})
	mark := mustPublish(t, s, ours("T.a", "x", 10)).Offsets[0]
	if got, err := told(t, s, mark); err != nil || len(got) != 0 {
		t.Errorf("with nothing behind the mark no right is needed: got %v, %v", got, err)
	}
	mark.Last = 5
	_, err := told(t, s, mark)
	if !errors.Is(err, sink.ErrUnreadable) || !strings.Contains(fmt.Sprint(err), "$JS.API.CONSUMER.>") {
		t.Errorf("got %v", err)
	}
	mustPublish(t, s, ours("T.a", "after", 10))
}
