package jetstream_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/outage"
	"example.org/bridge/sink"
	"example.org/bridge/sink/jetstream"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// TestWaitsNameFaultAndRemedy: what JetStream refuses is waited for, with the fault and what to do
// in readiness and in the outages, and check finds it before. What goes elsewhere is published
// meanwhile.
func TestWaitsNameFaultAndRemedy(t *testing.T) {
	t.Parallel()
	server := testenv.StartNATS(t, testenv.NATSLines(
		"no_auth_user: admin",
		"accounts {",
		`  A { jetstream: enabled, users: [`,
		`    { user: admin, password: a },`,
		`    { user: mute, password: a, permissions: { publish: { deny: ["mute.>", "$JS.API.STREAM.CREATE.>"] } } },`,
		`    { user: blind, password: a, permissions: { publish: { deny: ["$JS.API.STREAM.INFO.>"] } } },`,
		`  ] }`,
		`  B { jetstream: { max_streams: 1, max_bytes_required: true }, users: [ { user: few, password: a } ] }`,
		"}",
	))
	create := func(c natsjs.StreamConfig, full bool) {
		c.Subjects, c.Duplicates = []string{strings.ToLower(c.Name) + ".>"}, 2*time.Minute
		server.CreateStream(t, c)
		if full {
			must.Get(server.JetStream(t).Publish(t.Context(), strings.ToLower(c.Name)+".a", make([]byte, 2000)))(t)
		}
	}
	create(natsjs.StreamConfig{Name: "COUNT", MaxMsgs: 1, Discard: natsjs.DiscardNew}, true)
	create(natsjs.StreamConfig{Name: "BYTES", MaxBytes: 2500, Discard: natsjs.DiscardNew}, true)
	create(natsjs.StreamConfig{Name: "SUBJECT", MaxMsgs: 100, MaxMsgsPerSubject: 1, DiscardNewPerSubject: true, Discard: natsjs.DiscardNew}, true)
	create(natsjs.StreamConfig{Name: "MOVED", SubjectTransform: &natsjs.SubjectTransformConfig{Source: "moved.>", Destination: "out.>"}}, false)
	create(natsjs.StreamConfig{Name: "READ", MaxConsumers: 1}, true)
	create(natsjs.StreamConfig{Name: "MUTE"}, false)
	create(natsjs.StreamConfig{Name: "FREE"}, false)
	must.Get(server.JetStream(t).CreateConsumer(t.Context(), "READ", natsjs.ConsumerConfig{Durable: "other"}))(t)
	for _, c := range []struct {
		name, user, subject, stream string
		create, read                bool
		code                        inspect.Code
		says                        string
	}{
		{"full of messages", "admin", "count.a", "", false, false, inspect.StreamFull, "discard old"},
		{"full of bytes", "admin", "bytes.a", "", false, false, inspect.StreamFull, "discard old"},
		{"full of a subject", "admin", "subject.a", "", false, false, inspect.StreamUnusable, "discard_new_per_subject"},
		{"other subjects", "admin", "moved.a", "", false, false, inspect.StreamUnusable, "subject_transform"},
		{"no consumer more", "admin", "read.a", "", false, true, inspect.StreamConsumers, "max_consumers"},
		{"no stream", "admin", "nobody.a", "", false, false, inspect.NoStream, "create one"},
		{"no named stream", "admin", "nobody.a", "NOBODY", false, false, inspect.NoStream, "create it"},
		{"no limit of bytes", "few", "few.a", "FEW", true, false, inspect.StreamCreation, "STREAM_MAX_BYTES"},
		{"no right to publish", "mute", "mute.a", "", false, false, "", "grant the user the right"},
		{"no right to create", "mute", "made.a", "MADE", true, false, "", "grant the user the right"},
		{"no right to ask", "blind", "count.b", "COUNT", false, false, inspect.StreamGrant, "grant the user the right"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var faults atomic.Int64
			o := jetstream.Options{
				Connection: at("nats://"+c.user+":a@"+server.Addr(), c.stream), CreateStream: c.create, Subjects: []string{c.subject}, Published: []string{c.subject},
				Fault: func(tp string, err error) {
					faults.Add(1)
					t.Logf("%v %s: %v", time.Now().Format("05.000"), tp, err)
				},
			}
			found := inspected(t, o).Findings
			if c.code != "" && !slices.ContainsFunc(found, func(f inspect.Finding) bool { return f.Code == c.code && f.Severity == inspect.Unsafe }) {
				t.Errorf("found %+v", found)
			}
			s := open(t, o)
			go func() {
				// It ends with the test.
				if c.read {
					_, _ = s.Read(t.Context(), sink.Span{TP: strings.ToUpper(strings.TrimSuffix(c.subject, ".a")), To: sink.NoEnd}, func(*sink.Stored) error { return nil })
				} else {
					_, _ = s.Publish(t.Context(), []sink.Message{{Destination: c.subject, ID: "1", Value: make([]byte, 1000)}})
				}
			}()
			begun := time.Now()
			defer func() { t.Logf("%v: %v", time.Since(begun).Round(time.Millisecond), s.Outages()) }()
			sinktest.Until(t, "an outage says why", func() bool {
				outages := s.Outages()
				return slices.ContainsFunc(outages, func(o outage.Outage) bool { return strings.Contains(o.Error(), c.says) })
			})
			if err := s.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) || faults.Load() == 0 {
				t.Errorf("readiness: %v, %d faults", err, faults.Load())
			}
			if c.stream == "" {
				sinktest.MustPublish(t, s, messages("free."+strings.ReplaceAll(c.name, " ", "_"), c.name, 20, 3))
			}
		})
	}
}

// TestANewConnectionCountsWithoutAMessage: a server that was restarted may have other messages also
// where nothing is sent to it.
func TestANewConnectionCountsWithoutAMessage(t *testing.T) {
	t.Parallel()
	server := testenv.StartNATS(t)
	server.CreateStream(t, natsjs.StreamConfig{Name: "EVENTS", Subjects: []string{"in.>"}})
	sessions := make(chan string, 10)
	s := open(t, jetstream.Options{Connection: at(server.URL(), ""), Session: func(stream string) { sessions <- stream }})
	must.Get(s.TPs(sinktest.Deadline(t), []string{"in.a"}))(t)
	server.Kill()
	server.Start(t)
	select {
	case stream := <-sessions:
		if stream != "EVENTS" {
			t.Errorf("a session of %q", stream)
		}
	case <-time.After(time.Minute):
		t.Error("no session begins")
	}
}

// readBack returns the ids that catch-up would find: up to the end that the leader has now.
func readBack(t testing.TB, s *jetstream.Sink) map[string]bool {
	t.Helper()
	return sinktest.ReadBack(sinktest.Deadline(t), t, s, nil)
}

// wantOnce fails the test unless a consumer sees each message once and in order.
func wantOnce(t testing.TB, stream natsjs.Stream, subject string, sent ...[]sink.Message) {
	t.Helper()
	n := 0
	for _, batch := range sent {
		n += len(batch)
	}
	var got []sinktest.Record
	// The server that serves the reader may lag behind the others.
	sinktest.Until(t, "all is there", func() bool { got = testenv.Consume(t, stream, subject); return len(got) >= n })
	wantWhole(t, got, sent...)
}

// hangAt has a sink hang at a step of its next batch until resume is called.
func hangAt(s *jetstream.Sink, step failpoint.Point) (reached <-chan struct{}, resume func()) {
	return sinktest.HangAt(step, func(hook func(failpoint.Point)) { jetstream.OnStep(s, hook) })
}
