package jetstream_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/sink"
	"example.org/bridge/sink/jetstream"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// storedIDs returns the ids of what a stream holds from an offset to its end.
func storedIDs(t testing.TB, s *jetstream.Sink, stream string, from uint64) (ids []string, err error) {
	t.Helper()
	tps, err := s.TPs(sinktest.Deadline(t), []string{stream + ".>"})
	if err != nil || len(tps) != 1 {
		t.Fatalf("TPs %+v, %v", tps, err)
	}
	next, err := s.Read(sinktest.Deadline(t), sink.Span{TP: stream, Incarnation: tps[0].Incarnation, From: from, To: tps[0].End}, func(m *sink.Stored) error {
		ids = append(ids, string(m.Header(sink.HeaderID)))
		return nil
	})
	if err == nil && next != tps[0].End {
		t.Errorf("Read of %+v ends at %d", tps[0], next)
	}
	return ids, err
}

// ours returns a series of messages about one entity.
func ours(subject, series string, n int) []sink.Message { return messages(subject, series, n, 1) }

func TestRead(t *testing.T) {
	t.Parallel()
	broker := testenv.AnyNATS(t)
	t.Run("ends behind the subjects of others", func(t *testing.T) {
		name := broker.CreateStream(t, natsjs.StreamConfig{}).CachedInfo().Config.Name
		tables := []string{name + ".a.x"}
		for i := range 10_000 {
			tables = append(tables, fmt.Sprint(name, ".b.", i))
		}
		for i, published := range [][]string{
			// The server would compare each of them with all others.
			tables,
			{name + ".a.*", name + ".b"},
			// The server refuses filters that overlap, and those that the stream does not cover.
			{name + ".a.*", name + ".a.x", name + ".b"}, {name + ".a.*", name + ".b", "elsewhere.x"},
		} {
			s := open(t, jetstream.Options{Connection: at(broker.URL(), name), Published: published})
			from := sinktest.MustPublish(t, s, ours(name+".c", fmt.Sprint("first", i), 1)).At[0].Offset + 1
			sinktest.MustPublish(t, s, ours(name+".c", fmt.Sprint("others", i), 300))
			if got, err := storedIDs(t, s, name, from); err != nil || len(got) != 0 {
				t.Errorf("%q: got %v, %v, want nothing", published, got, err)
			}
			mine := fmt.Sprint("mine", from)
			sinktest.MustPublish(t, s, ours(name+".a.x", mine, 3))
			sinktest.MustPublish(t, s, ours(name+".c", fmt.Sprint("more", i), 300))
			want := []string{mine + "-0", mine + "-1", mine + "-2"}
			if got, err := storedIDs(t, s, name, from); err != nil || !slices.Equal(got, want) {
				t.Errorf("%q: got %v, %v, want %v", published, got, err, want)
			}
		}
	})
	t.Run("finds the streams that wildcards overlap with", func(t *testing.T) {
		one := broker.CreateStream(t, natsjs.StreamConfig{Name: "OVER1", Subjects: []string{"over.one.>", "over.x.y"}})
		broker.CreateStream(t, natsjs.StreamConfig{Name: "OVER2", Subjects: []string{"over.two.z"}})
		broker.CreateStream(t, natsjs.StreamConfig{Name: "OVER3", Subjects: []string{"other.two.z"}})
		s := open(t, jetstream.Options{Connection: at(broker.URL(), "")})
		tps, err := s.TPs(sinktest.Deadline(t), []string{"over.*.z", "over.one.a", "nobody"})
		if err != nil || len(tps) != 2 || tps[0].Name != "OVER1" || tps[1].Name != "OVER2" || tps[0].First != 1 || tps[0].End != 1 {
			t.Errorf("%+v, %v", tps, err)
		}
		requests := must.Get(broker.JetStream(t).Conn().SubscribeSync("$JS.API.STREAM.NAMES"))(t)
		tables := []string{"over.two.z"}
		for i := range 3000 {
			tables = append(tables, fmt.Sprint("over.one.", i))
		}
		if tps, err := s.TPs(sinktest.Deadline(t), tables); err != nil || len(tps) != 2 {
			t.Errorf("%+v, %v", tps, err)
		}
		if n, _, err := requests.Pending(); err != nil || n > 100 {
			t.Errorf("%d requests for %d subjects of two streams, %v", n, len(tables), err)
		}
		if created := one.CachedInfo().Created.UTC().Format(time.RFC3339Nano); tps[0].Incarnation != created {
			t.Errorf("incarnation %s, want %s", tps[0].Incarnation, created)
		}
	})
	t.Run("reads messages that are larger than a pull", func(t *testing.T) {
		s, _, name := onStream(t, testenv.StartNATS(t, testenv.NATSLines("max_payload: 8388608")), natsjs.StreamConfig{})
		batch := ours(name+".a", "big", 5)
		for _, i := range []int{0, 2, 3} {
			batch[i].Value = []byte(strings.Repeat("x", 5<<20))
		}
		sinktest.MustPublish(t, s, batch)
		if got, err := storedIDs(t, s, name, 1); err != nil || len(got) != 5 {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("refuses a stream that keeps nothing for readers", func(t *testing.T) {
		for name, retention := range map[string]natsjs.RetentionPolicy{"INTEREST": natsjs.InterestPolicy, "WORK": natsjs.WorkQueuePolicy} {
			broker.CreateStream(t, natsjs.StreamConfig{Name: name, Retention: retention})
			s := open(t, jetstream.Options{Connection: at(broker.URL(), name)})
			must.Fail(t, must.Err(s.Read(sinktest.Deadline(t), sink.Span{TP: name, To: sink.NoEnd}, func(*sink.Stored) error { return nil })), sink.ErrUnreadable, name)
		}
	})
	t.Run("knows whether the stream removes messages by its own rules", func(t *testing.T) {
		for _, c := range []struct {
			config                   natsjs.StreamConfig
			remove, expired, thinned bool
		}{
			{natsjs.StreamConfig{}, true, false, false}, {natsjs.StreamConfig{MaxMsgs: 3}, false, true, false},
			{natsjs.StreamConfig{MaxAge: time.Hour}, true, true, false}, {natsjs.StreamConfig{MaxMsgsPerSubject: 1}, false, false, true},
		} {
			s, stream, name := onStream(t, broker, c.config)
			sinktest.MustPublish(t, s, slices.Concat(ours(name+".b", "first", 1), ours(name+".a", "others", 1), ours(name+".b", "more", 3)))
			if c.remove {
				must.OK(t, stream.DeleteMsg(t.Context(), 1))
			}
			if tps, err := s.TPs(sinktest.Deadline(t), []string{name + ".>"}); err != nil || len(tps) != 1 || tps[0].Expired != c.expired || tps[0].Thinned != c.thinned {
				t.Errorf("%+v: %+v, %v", c, tps, err)
			}
		}
	})
	t.Run("meets no fault in many messages, and notices what expires meanwhile", func(t *testing.T) {
		// More than two pulls, each of which the server ends when its messages have all come.
		const n = 9000
		stream := broker.CreateStream(t, natsjs.StreamConfig{AllowDirect: true})
		name := stream.CachedInfo().Config.Name
		js := broker.JetStream(t)
		for i := range n {
			must.Get(js.PublishAsync(name+".a", []byte("hello")))(t)
			if i%1000 == 999 {
				<-js.PublishAsyncComplete()
			}
		}
		s := open(t, jetstream.Options{
			Connection: at(broker.URL(), name), Published: []string{name + ".a"},
			Fault: func(tp string, err error) { t.Errorf("a fault of %s: %v", tp, err) },
		})
		if got, err := storedIDs(t, s, name, 1); err != nil || len(got) != n {
			t.Errorf("%d messages are read: %v", len(got), err)
		}
		read := 0
		next, err := s.Read(sinktest.Deadline(t), sink.Span{TP: name, From: 1, To: n + 1}, func(*sink.Stored) error {
			if read++; read == 10 {
				return stream.Purge(t.Context(), natsjs.WithPurgeSequence(n-10))
			}
			return nil
		})
		expired, ok := errors.AsType[*sink.ExpiredError](err)
		if !ok || expired.First != n-10 || expired.From > n-10 || next < expired.From || read >= n-10 {
			t.Errorf("%d messages, then %v at %d", read, err, next)
		}
	})
	t.Run("gives up when that is wanted", func(t *testing.T) {
		name := broker.CreateStream(t, natsjs.StreamConfig{}).CachedInfo().Config.Name
		s := open(t, jetstream.Options{
			Connection: jetstream.Connection{URLs: []string{"nats://127.0.0.1:1"}, Stream: name, GiveUpAfter: 300 * time.Millisecond},
		})
		must.Fail(t, must.Err(s.TPs(sinktest.Deadline(t), nil)), "connect to nats://127.0.0.1:1")
		must.Fail(t, s.Ready(sinktest.Deadline(t)), "no connection to NATS")
		s = open(t, jetstream.Options{
			Connection: jetstream.Connection{URLs: []string{broker.URL()}, Stream: name, GiveUpAfter: 300 * time.Millisecond},
		})
		sinktest.MustPublish(t, s, ours(name+".a", "x", 3))
		next, err := s.Read(sinktest.Deadline(t), sink.Span{TP: name, To: 6}, func(*sink.Stored) error { return nil })
		if next != 4 || err == nil || !strings.Contains(err.Error(), "nothing more came within 300ms, and the stream ends before 6") {
			t.Error(next, err)
		}
	})
}

// TestStreamsThatCannotCarryBatches: check names what is wrong and how to fix it, and a start
// waits with the same words until it is fixed.
func TestStreamsThatCannotCarryBatches(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	for _, c := range []struct {
		name  string
		wrong func(*natsjs.StreamConfig)
		want  inspect.Code
		says  string
		// types is a part of the command, "" for none; a stream that can be fixed is.
		types string
	}{
		{"no atomic batches", func(c *natsjs.StreamConfig) { c.AllowAtomicPublish = false }, inspect.NoAtomicBatches, "allow_atomic", "--allow-batch"},
		{"no claim subject", func(c *natsjs.StreamConfig) { c.Subjects = []string{c.Name + ".a"} }, inspect.StreamSubject, ".claim", ".a,"},
		{"neither that nor those of events", func(c *natsjs.StreamConfig) { c.Subjects = []string{c.Name + ".b"} }, inspect.StreamSubject, ".claim", ".a,"},
		{"one message a subject", func(c *natsjs.StreamConfig) {
			c.MaxMsgsPerSubject, c.DiscardNewPerSubject, c.Discard, c.MaxMsgs = 1, true, natsjs.DiscardNew, 1000
		}, inspect.StreamUnusable, "discard_new_per_subject", ""},
		{"other subjects", func(c *natsjs.StreamConfig) {
			c.SubjectTransform = &natsjs.SubjectTransformConfig{Source: c.Name + ".claim", Destination: c.Name + ".other"}
		}, inspect.StreamUnusable, "subject_transform", ""},
		{"a queue", func(c *natsjs.StreamConfig) { c.Retention = natsjs.WorkQueuePolicy }, inspect.StreamUnreadable, "retention", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name := testenv.NewStreamName()
			good := natsjs.StreamConfig{Name: name, Subjects: []string{name + ".>"}, AllowAtomicPublish: true, Duplicates: 2 * time.Minute}
			config := good
			c.wrong(&config)
			server.CreateStream(t, config)
			options := jetstream.Options{Connection: at(server.URL(), name), Claim: name + ".claim", Published: []string{name + ".a"}, Subjects: []string{name + ".a"}}
			found := inspected(t, options).Findings
			i := slices.IndexFunc(found, func(f inspect.Finding) bool { return f.Code == c.want })
			if i < 0 || !strings.Contains(found[i].What, c.says) || !strings.Contains(found[i].Statement, c.types) || found[i].Severity != inspect.Unsafe {
				t.Fatalf("found %+v", found)
			}
			for _, f := range found {
				if f.Code == inspect.StreamSubject && f.Statement != found[i].Statement {
					t.Errorf("one of these undoes the other: %s; %s", f.Statement, found[i].Statement)
				}
			}
			s := open(t, options)
			done := make(chan error, 1)
			go func() { done <- s.Fence(sinktest.Deadline(t)) }()
			sinktest.Until(t, "readiness says why", func() bool {
				err := s.Ready(t.Context())
				return err != nil && strings.Contains(err.Error(), c.says)
			})
			if c.types == "" {
				return
			}
			must.Get(server.JetStream(t).UpdateStream(t.Context(), good))(t)
			must.OK(t, <-done)
			sinktest.MustPublish(t, s, messages(name+".a", "fixed", 10, 3))
			must.OK(t, s.Ready(t.Context()))
		})
	}
}

func TestServersWithoutBatches(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"2.11.9": true, "2.9.0": true, "1.4.1": true, "2.12.0": true, "2.14.9": true, "2.15.0-RC.1": false, "2.15.2": false, "3.0.0": false, "": false} {
		if jetstream.TooOld(version) != want {
			t.Errorf("%q: want %v", version, want)
		}
	}
}
