package jetstream_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/internal/inspect"
	sinkjs "example.org/bridge/sink/jetstream"
	"example.org/bridge/tests/testenv"
)

// inspected opens a sink, inspects its bus and closes it.
func inspected(t *testing.T, options sinkjs.Options) inspect.Report {
	t.Helper()
	s, err := sinkjs.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return s.Inspect(ctx)
}

func TestInspect(t *testing.T) {
	t.Parallel()
	nats := testenv.OwnNATS(t)
	subjects := []string{"in.a.AddedEvent", "in.a.DeletedEvent"}
	healthy := jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"in.a.*"}, Duplicates: 2 * time.Minute}
	for _, c := range []struct {
		name string
		// stream is nil for none.
		stream *jetstream.StreamConfig
		change func(*jetstream.StreamConfig)
		// published is what is published, subjects by default.
		published []string
		want      []inspect.Code
	}{
		{name: "nothing in a healthy stream", stream: &healthy},
		{name: "no stream", want: []inspect.Code{inspect.NoStream, inspect.NoStream}},
		{name: "a subject that is not taken", stream: &healthy, published: []string{"in.a.AddedEvent", "in.b.AddedEvent"}, want: []inspect.Code{inspect.NoStream}},
		{name: "a stream that acknowledges nothing", stream: &healthy, change: func(c *jetstream.StreamConfig) { c.NoAck = true }, want: []inspect.Code{inspect.StreamUnusable}},
		{name: "a stream that stores under other subjects", stream: &healthy, change: func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "in.*.AddedEvent", Destination: "in.other.{{wildcard(1)}}"}
		}, want: []inspect.Code{inspect.StreamUnusable}},
		{name: "a stream that stores others under other subjects", stream: &healthy, change: func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "in.*.OtherEvent", Destination: "in.other.{{wildcard(1)}}"}
		}},
		{name: "a stream in memory", stream: &healthy, change: func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, want: []inspect.Code{inspect.StreamStorage}},
		{name: "a stream that is written later", stream: &healthy, change: func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode }, want: []inspect.Code{inspect.StreamPersistence}},
		{name: "a stream that removes what is consumed", stream: &healthy, change: func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, want: []inspect.Code{inspect.StreamUnreadable}},
		{name: "a short memory of ids", stream: &healthy, change: func(c *jetstream.StreamConfig) { c.Duplicates = time.Minute }, want: []inspect.Code{inspect.StreamDuplicates}},
		{name: "a stream that forgets by age", stream: &healthy, change: func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, want: []inspect.Code{inspect.StreamDiscards}},
		{name: "a stream that refuses once it is full", stream: &healthy, change: func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 5, jetstream.DiscardNew }, want: []inspect.Code{inspect.StreamFull}},
		{name: "a stream of small messages", stream: &healthy, change: func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 }, want: []inspect.Code{inspect.StreamMessageSize}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.stream != nil {
				config := *c.stream
				if c.change != nil {
					c.change(&config)
				}
				nats.CreateStream(t, config)
			}
			published := subjects
			if c.published != nil {
				published = c.published
			}
			r := inspected(t, sinkjs.Options{Connection: at(nats.URL(), ""), Subjects: []string{"in.>"}, Published: published})
			var got []inspect.Code
			for _, f := range r.Findings {
				got = append(got, f.Code)
				if f.Do == "" || f.Statement == "" {
					t.Errorf("an incomplete finding: %+v", f)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("found %v, want %q", r.Findings, c.want)
			}
			if !strings.Contains(r.Summary, nats.Addr()) {
				t.Errorf("summed up as %q", r.Summary)
			}
		})
	}
}

func TestInspectTellsWhatALoginMayNot(t *testing.T) {
	t.Parallel()
	nats := testenv.InProcessNATS(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "all", Password: "secret"},
			{Username: "writer", Password: "secret", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"in.>", "$JS.API.STREAM.INFO.EVENTS"}}}},
			{Username: "looker", Password: "secret", Permissions: &server.Permissions{Publish: &server.SubjectPermission{
				Allow: []string{"in.>", "$JS.API.STREAM.INFO.EVENTS", "$JS.API.STREAM.MSG.GET.EVENTS"}}}},
			{Username: "reader", Password: "secret", Permissions: &server.Permissions{Publish: &server.SubjectPermission{
				Allow: []string{"in.>", "$JS.API.STREAM.INFO.EVENTS", "$JS.API.STREAM.MSG.GET.EVENTS", "$JS.API.CONSUMER.>"}}}},
			{Username: "few", Password: "secret", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"in.>"}}}},
		}
	})
	as := func(user, password string) sinkjs.Options {
		return sinkjs.Options{
			Connection: sinkjs.Connection{URLs: []string{nats.URL()}, Stream: "EVENTS", Password: func() (string, string, error) { return user, password, nil }},
			Subjects:   []string{"in.>"},
		}
	}
	nats.As("all", "secret").CreateStream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"in.>"}, Duplicates: 2 * time.Minute})
	for _, c := range []struct {
		user, password string
		want           []inspect.Code
	}{
		{"all", "secret", nil}, {"all", "wrong", []inspect.Code{inspect.SinkLogin}}, {"few", "secret", []inspect.Code{inspect.StreamGrant}},
		{"writer", "secret", []inspect.Code{inspect.StreamUnreadable, inspect.StreamUnreadable}},
		{"looker", "secret", []inspect.Code{inspect.StreamUnreadable}}, {"reader", "secret", nil},
	} {
		r := inspected(t, as(c.user, c.password))
		var got []inspect.Code
		for _, f := range r.Findings {
			if got = append(got, f.Code); f.Severity != inspect.Unsafe {
				t.Errorf("%s: %v is %v", c.user, f, f.Severity)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s with %s: found %v, want %q", c.user, c.password, r.Findings, c.want)
		}
	}
}

func TestInspectWithoutJetStream(t *testing.T) {
	nats := testenv.InProcessNATS(t, func(o *server.Options) { o.JetStream = false })
	r := inspected(t, sinkjs.Options{Connection: at(nats.URL(), "EVENTS"), Subjects: []string{"in.>"}})
	if len(r.Findings) != 1 || r.Findings[0].Code != inspect.NoJetStream {
		t.Errorf("found %v", r.Findings)
	}
}
