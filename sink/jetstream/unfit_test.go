package jetstream_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"bridge/internal/inspect"
	"bridge/sink"
	"bridge/sink/jetstream"
	"bridge/sink/sinktest"
	"bridge/tests/testenv"
)

// TestStreamsThatCannotCarryBatches: check names what is wrong and how to mend it, and a start
// waits with the same words until it is mended.
func TestStreamsThatCannotCarryBatches(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	for _, c := range []struct {
		name  string
		wrong func(*natsjs.StreamConfig)
		want  inspect.Code
		says  string
		// types is a part of the command, "" for none; a stream that can be mended is.
		types string
	}{
		{"no atomic batches", func(c *natsjs.StreamConfig) { c.AllowAtomicPublish = false }, inspect.NoAtomicBatches, "allow_atomic", "--allow-batch"},
		{"no claim subject", func(c *natsjs.StreamConfig) { c.Subjects = []string{c.Name + ".a"} }, inspect.StreamSubject, ".claim", ".a,"},
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
			options := jetstream.Options{URLs: []string{server.URL()}, Stream: name, Claim: name + ".claim", Published: []string{name + ".a"}}
			found := inspected(t, options).Findings
			i := slices.IndexFunc(found, func(f inspect.Finding) bool { return f.Code == c.want })
			if i < 0 || !strings.Contains(found[i].What, c.says) || !strings.Contains(found[i].Statement, c.types) || found[i].Severity != inspect.Unsafe {
				t.Fatalf("found %+v", found)
			}
			s := open(t, options)
			done := make(chan error, 1)
			go func() { done <- s.Fence(deadline(t, 4*time.Minute)) }()
			eventually(t, time.Minute, "readiness says why", func() bool {
				err := s.Ready(t.Context())
				return err != nil && strings.Contains(err.Error(), c.says)
			})
			if c.types == "" {
				return
			}
			if _, err := server.JetStream(t).UpdateStream(t.Context(), good); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			mustPublish(t, s, messages(name+".a", "mended", 10, 3))
			if err := s.Ready(t.Context()); err != nil {
				t.Errorf("it is not ready: %v", err)
			}
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

// TestAStreamThatStoresUnderOtherSubjects: what bridge would not find again is not published, and
// readiness says why until the transform is gone.
func TestAStreamThatStoresUnderOtherSubjects(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	config := natsjs.StreamConfig{
		Name: "EVENTS", Subjects: []string{"in.>"}, SubjectTransform: &natsjs.SubjectTransformConfig{Source: "in.>", Destination: "out.>"},
	}
	stream := server.CreateStream(t, config)
	s := open(t, jetstream.Options{URLs: []string{server.URL()}, Published: []string{"in.a"}})
	done := sinktest.Publishing(deadline(t, time.Minute), s, []sink.Message{{Destination: "in.a", ID: "1"}})
	eventually(t, time.Minute, "readiness says why", func() bool {
		err := s.Ready(t.Context())
		return err != nil && strings.Contains(err.Error(), "subject_transform")
	})
	if info, err := stream.Info(t.Context()); err != nil || info.State.Msgs != 0 {
		t.Fatalf("%+v, %v", info, err)
	}
	update(t, server, "EVENTS", func(c *natsjs.StreamConfig) { c.SubjectTransform = nil })
	if err := <-done; err != nil {
		t.Error(err)
	}
}
