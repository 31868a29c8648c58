package jetstream_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/natskv"
	sinkjs "example.org/bridge/sink/jetstream"
	"example.org/bridge/sink/sinktest"
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
		name   string
		change func(*jetstream.StreamConfig)
		want   []inspect.Code
	}{
		{name: "nothing in a healthy stream"},
		{name: "a stream that acknowledges nothing", change: func(c *jetstream.StreamConfig) { c.NoAck = true }, want: []inspect.Code{inspect.StreamUnusable}},
		{name: "a stream that stores under other subjects", change: func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "in.*.AddedEvent", Destination: "in.other.{{wildcard(1)}}"}
		}, want: []inspect.Code{inspect.StreamUnusable}},
		{name: "a stream that stores others under other subjects", change: func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "in.*.OtherEvent", Destination: "in.other.{{wildcard(1)}}"}
		}},
		{name: "a stream that is written later", change: func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode }, want: []inspect.Code{inspect.StreamPersistence}},
		{name: "a stream that removes what is consumed", change: func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, want: []inspect.Code{inspect.StreamUnreadable}},
		{name: "a stream that refuses once it is full", change: func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 5, jetstream.DiscardNew }, want: []inspect.Code{inspect.StreamFull}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := healthy
			if c.change != nil {
				c.change(&config)
			}
			nats.CreateStream(t, config)
			r := inspected(t, sinkjs.Options{Connection: at(nats.URL(), ""), Subjects: []string{"in.>"}, Published: subjects})
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

// keeping is how the streams of these tests keep messages.
var keeping = sinkjs.Keeping{Replicas: 1, Memory: true, MaxAge: 36 * time.Hour, MaxBytes: 1 << 24, Duplicates: 5 * time.Minute}

func TestAStreamIsCreatedAsItIsGiven(t *testing.T) {
	t.Parallel()
	nats := testenv.OwnNATS(t)
	for name, c := range map[string]struct {
		keeps sinkjs.Keeping
		want  sinkjs.Keeping
	}{
		"GIVEN": {keeping, keeping},
		"ELSE":  {sinkjs.Keeping{}, sinkjs.Keeping{Replicas: 1, File: true, MaxBytes: -1, Duplicates: 2 * time.Minute}},
	} {
		options := sinkjs.Options{Connection: at(nats.URL(), name), CreateStream: true, Subjects: []string{name + ".>"}, Keeps: c.keeps}
		s := open(t, options)
		js := nats.JetStream(t)
		mustPublish(t, s, messages(name+".a", "k", 3, 1))
		// It is created once more where somebody has deleted it.
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		mustPublish(t, s, messages(name+".a", "again", 3, 1))
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		is := stream.CachedInfo().Config
		got := sinkjs.Keeping{
			Replicas: is.Replicas, File: is.Storage == jetstream.FileStorage, Memory: is.Storage == jetstream.MemoryStorage,
			MaxAge: is.MaxAge, MaxBytes: is.MaxBytes, Duplicates: is.Duplicates,
		}
		if got != c.want {
			t.Errorf("%s is %+v, want %+v", name, got, c.want)
		}
		if r := inspected(t, options); slices.ContainsFunc(r.Findings, func(f inspect.Finding) bool { return f.Code == inspect.StreamDiffers }) {
			t.Errorf("a stream that is as given: %v", r.Findings)
		}
	}
}

// TestWhatServersLackIsNamed: fewer servers than replicas, or too little storage.
func TestWhatServersLackIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		url   string
		keeps sinkjs.Keeping
		want  string
	}{
		"one server": {testenv.OwnNATS(t).URL(), sinkjs.Keeping{Replicas: 3}, "fewer servers than the replicas of NATS_STREAM_REPLICAS"},
		"three servers": {
			testenv.OwnNATSCluster(t)[0].URL(), sinkjs.Keeping{Replicas: 3, MaxBytes: 1 << 60}, "or too few have the storage for NATS_STREAM_MAX_BYTES",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(sinktest.Deadline(t))
			named := errors.New("it is named")
			s := open(t, sinkjs.Options{
				Connection: at(c.url, "EVENTS"), CreateStream: true, Subjects: []string{"in.>"}, Keeps: c.keeps,
				// A cluster that has just begun says other things first.
				Fault: func(_ string, err error) {
					if t.Log(err); strings.Contains(err.Error(), c.want) {
						cancel(named)
					}
				},
			})
			if _, err := s.Publish(ctx, messages("in.a", "k", 1, 1)); err == nil || context.Cause(ctx) != named {
				t.Errorf("no fault says %q: %v", c.want, err)
			}
		})
	}
}

func TestInspectComparesWhatIsGiven(t *testing.T) {
	t.Parallel()
	nats := testenv.OwnNATS(t)
	js := nats.JetStream(t)
	was := jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"in.>"}, Storage: jetstream.FileStorage, Replicas: 1, MaxAge: 48 * time.Hour, Duplicates: 2 * time.Minute, MaxBytes: -1}
	if _, err := js.CreateStream(t.Context(), was); err != nil {
		t.Fatal(err)
	}
	given := keeping
	given.Replicas = 3
	for name, c := range map[string]struct {
		keeps sinkjs.Keeping
		want  []string
	}{
		"nothing": {},
		"all": {given, []string{
			"stream edit EVENTS --replicas 3 -f", "stream add EVENTS_2 --subjects 'in.>' --storage memory --dupe-window 5m --replicas 3 --max-age 36h --max-bytes 16777216 --defaults",
			"stream edit EVENTS --max-age 36h -f", "stream edit EVENTS --max-bytes 16777216 -f", "stream edit EVENTS --dupe-window 5m -f",
		}},
		"what holds": {sinkjs.Keeping{Replicas: 1, File: true, MaxAge: 48 * time.Hour, Duplicates: 2 * time.Minute}, nil},
	} {
		r := inspected(t, sinkjs.Options{Connection: at(nats.URL(), "EVENTS"), CreateStream: true, Subjects: []string{"in.>"}, Keeps: c.keeps})
		var got []string
		for _, f := range r.Findings {
			if f.Code != inspect.StreamDiffers {
				continue
			}
			_, statement, _ := strings.Cut(f.Statement, nats.Addr()+" ")
			if got = append(got, statement); f.Severity != inspect.Warning || !strings.Contains(f.Do, "NATS_STREAM_") {
				t.Errorf("%s: %+v", name, f)
			}
			if shrinks := strings.Contains(statement, "edit") && strings.Contains(statement, "--max-"); shrinks != strings.Contains(f.Do, "removes") {
				t.Errorf("%s: %s: %s", name, statement, f.Do)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: statements\n%q\nwant\n%q", name, got, c.want)
		}
	}
	stream, err := js.Stream(t.Context(), "EVENTS")
	if err != nil || stream.CachedInfo().Config.MaxAge != was.MaxAge {
		t.Errorf("the stream was changed: %v", err)
	}
}

// TestInspectFindsABucketOfOneReplica: one that was made while servers were away stays so.
func TestInspectFindsABucketOfOneReplica(t *testing.T) {
	t.Parallel()
	servers := testenv.OwnNATSCluster(t)
	js := servers[0].JetStream(t)
	for bucket, c := range map[string]struct{ made, given, want int }{
		"one": {made: 1, want: 1}, "three": {made: 3}, "meant": {made: 1, given: 1},
	} {
		sinktest.Until(t, "make the bucket "+bucket, func() bool {
			// A request that meets no leader gets no answer.
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := natskv.Create(ctx, js, natskv.Bucket{Name: bucket, Replicas: c.made})
			return err == nil
		})
		var got []string
		sinktest.Until(t, "what the bucket "+bucket+" lacks is found", func() bool {
			r := inspected(t, sinkjs.Options{Connection: at(servers[1].URL(), ""), Bucket: bucket, CreateStream: true, Keeps: sinkjs.Keeping{Replicas: c.given}})
			got = nil
			for _, f := range r.Findings {
				if f.Code == inspect.StreamDiffers {
					got = append(got, f.Statement)
				}
			}
			return len(got) >= c.want
		})
		if len(got) != c.want || c.want > 0 && !strings.Contains(got[0], "stream edit KV_one --replicas 3 -f") {
			t.Errorf("%s: found %q", bucket, got)
		}
	}
}
