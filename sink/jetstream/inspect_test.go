package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/natskv"
	"example.org/bridge/sink"
	sinkjs "example.org/bridge/sink/jetstream"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

func inspected(t *testing.T, options sinkjs.Options) inspect.Report {
	t.Helper()
	s := must.Get(sinkjs.Open(options))(t)
	defer func() { must.OK(t, s.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return s.Inspect(ctx)
}

// TestInspect has what nobody waits for; the rest is that of TestWaitsNameFaultAndRemedy and
// TestStreamsThatCannotCarryBatches.
func TestInspect(t *testing.T) {
	t.Parallel()
	nats := testenv.OwnNATS(t)
	for name, c := range map[string]struct {
		change func(*jetstream.StreamConfig)
		want   []inspect.Code
	}{
		"healthy":               {func(*jetstream.StreamConfig) {}, nil},
		"acknowledges nothing":  {func(c *jetstream.StreamConfig) { c.NoAck = true }, []inspect.Code{inspect.StreamUnusable}},
		"is written later":      {func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode }, []inspect.Code{inspect.StreamPersistence}},
		"others are renamed":    {func(c *jetstream.StreamConfig) { c.SubjectTransform = renamed("in.*.OtherEvent") }, nil},
		"some are renamed":      {func(c *jetstream.StreamConfig) { c.SubjectTransform = renamed("in.*.AddedEvent") }, []inspect.Code{inspect.StreamUnusable}},
		"removes what was read": {func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, []inspect.Code{inspect.StreamUnreadable}},
		"counts":                {func(c *jetstream.StreamConfig) { c.AllowMsgCounter = true }, []inspect.Code{inspect.StreamUnusable}},
		"lacks two subjects":    {func(c *jetstream.StreamConfig) { c.Subjects = []string{"in.b"} }, []inspect.Code{inspect.StreamSubject, inspect.StreamSubject}},
		"is never full":         {func(c *jetstream.StreamConfig) { c.Discard, c.MaxAge = jetstream.DiscardNew, time.Hour }, []inspect.Code{inspect.StreamDiscards}},
		"keeps one an entity":   {func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }, []inspect.Code{inspect.StreamDiscards}},
		"keeps one for many": {func(c *jetstream.StreamConfig) {
			c.Subjects, c.MaxMsgsPerSubject = []string{"in.a.*", "in.shared"}, 1
		}, []inspect.Code{inspect.StreamDiscards}},
	} {
		t.Run(name, func(t *testing.T) {
			config := jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"in.a.*"}, Duplicates: 2 * time.Minute}
			c.change(&config)
			nats.CreateStream(t, config)
			r := inspected(t, sinkjs.Options{
				Connection: at(nats.URL(), "EVENTS"), Subjects: []string{"in.>"}, Published: []string{"in.a.AddedEvent", "in.a.DeletedEvent"},
				Uncompactable: map[string]string{"in.shared": "many share it"},
			})
			if got := codesOf(&r); !slices.Equal(got, c.want) || !strings.Contains(r.Summary, nats.Addr()) {
				t.Errorf("found %v, summed up as %q, want %q", r.Findings, r.Summary, c.want)
			}
			for _, f := range r.Findings {
				if f.Code == inspect.StreamSubject && !strings.Contains(f.Statement, "'in.b,in.a.AddedEvent,in.a.DeletedEvent'") {
					t.Errorf("the command of %+v lacks a subject", f)
				}
				if f.Code == inspect.StreamDiscards && (f.Severity == inspect.Warning) != strings.Contains(name, "for many") {
					t.Errorf("%+v", f)
				}
			}
			if slices.ContainsFunc(r.Findings, func(f inspect.Finding) bool { return f.Do == "" || f.Statement == "" }) {
				t.Errorf("an incomplete finding: %+v", r.Findings)
			}
		})
	}
}

func renamed(from string) *jetstream.SubjectTransformConfig {
	return &jetstream.SubjectTransformConfig{Source: from, Destination: "in.other.{{wildcard(1)}}"}
}

func codesOf(r *inspect.Report) (codes []inspect.Code) {
	for _, f := range r.Findings {
		codes = append(codes, f.Code)
	}
	return codes
}

// TestWhatALoginMayNot is found by a check, and named by a read.
func TestWhatALoginMayNot(t *testing.T) {
	t.Parallel()
	const info, consume, get = "$JS.API.STREAM.INFO.*", "$JS.API.CONSUMER.>", "$JS.API.STREAM.MSG.GET.EVENTS"
	may := func(user string, subjects ...string) *server.User {
		publish := &server.SubjectPermission{Allow: append(subjects, "in.>", "LOST.>")}
		return &server.User{Username: user, Password: "secret", Permissions: &server.Permissions{Publish: publish}}
	}
	nats := testenv.InProcessNATS(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "all", Password: "secret"}, may("few"), may("writer", info), may("looker", info, get), may("consumer", info, consume), may("reader", info, get, consume),
		}
	})
	nats.As("all", "secret").CreateStream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"in.>"}, Duplicates: 2 * time.Minute})
	for _, c := range []struct {
		user, password string
		want           []inspect.Code
		// lacks is the right that a read needs.
		lacks string
	}{
		{"all", "secret", nil, ""}, {"all", "wrong", []inspect.Code{inspect.SinkLogin}, ""}, {"few", "secret", []inspect.Code{inspect.StreamGrant}, ""},
		{"writer", "secret", []inspect.Code{inspect.StreamUnreadable, inspect.StreamUnreadable}, ""}, {"reader", "secret", nil, ""},
		{"looker", "secret", []inspect.Code{inspect.StreamUnreadable}, consume}, {"consumer", "secret", []inspect.Code{inspect.StreamUnreadable}, get},
	} {
		t.Run(c.user+" with "+c.password, func(t *testing.T) {
			t.Parallel()
			options := sinkjs.Options{
				Connection: sinkjs.Connection{URLs: []string{nats.URL()}, Stream: "EVENTS", Password: func() (string, string, error) { return c.user, c.password, nil }},
				Subjects:   []string{"in.>"},
			}
			r := inspected(t, options)
			if got := codesOf(&r); !slices.Equal(got, c.want) || slices.ContainsFunc(r.Findings, func(f inspect.Finding) bool { return f.Severity != inspect.Unsafe }) {
				t.Errorf("found %v, want %q", r.Findings, c.want)
			}
			if c.lacks == "" {
				return
			}
			options.Published = []string{"in.a"}
			s := open(t, options)
			sinktest.MustPublish(t, s, ours("in.b", c.user, 10))
			must.Fail(t, must.Err(storedIDs(t, s, "EVENTS", 1)), sink.ErrUnreadable, c.lacks)
			// That says nothing about another stream.
			must.Fail(t, must.Err(storedIDs(t, s, "NOBODY", 1)), sink.ErrGone)
		})
	}
	t.Run("what has no answer is sent again, and its ids drop what is stored", func(t *testing.T) {
		t.Parallel()
		stream, p := nats.As("all", "secret").CreateStream(t, jetstream.StreamConfig{Name: "LOST"}), testenv.StartProxy(t, nats.Addr())
		s := open(t, sinkjs.Options{Connection: at("nats://writer:secret@"+p.Addr(), "LOST")})
		first, again := messages("LOST.a", "first", 3, 1), messages("LOST.a", "again", 3, 1)
		sinktest.MustPublish(t, s, first)
		p.DropAnswers()
		done := make(chan error, 1)
		go func() { done <- must.Err(s.Publish(sinktest.Deadline(t), again)) }()
		sinktest.Until(t, "one is stored", func() bool { return must.Get(stream.Info(t.Context()))(t).State.Msgs > uint64(len(first)) })
		p.Heal()
		must.OK(t, <-done)
		wantOnce(t, stream, "LOST.a", first, again)
	})
}

// TestRightsThatComeBack: messages wait for a right that is taken away, which readiness names. They
// go on when the server gives it back, or the login is another one.
func TestRightsThatComeBack(t *testing.T) {
	t.Parallel()
	but := func(lacks *server.Permissions) func(*server.Options) {
		return func(o *server.Options) {
			o.Users = []*server.User{{Username: "all", Password: "secret"}, {Username: "few", Password: "secret", Permissions: lacks}}
		}
	}
	nats := testenv.InProcessNATS(t, but(nil))
	stream := nats.As("all", "secret").CreateStream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"in.>"}})
	var user atomic.Value
	user.Store("few")
	s := open(t, sinkjs.Options{Connection: sinkjs.Connection{
		URLs: []string{nats.URL()}, Stream: "EVENTS", Password: func() (string, string, error) { return user.Load().(string), "secret", nil },
	}})
	deny := func(subject string) *server.SubjectPermission {
		return &server.SubjectPermission{Deny: []string{subject}}
	}
	back := func() { nats.Reload(t, but(nil)) }
	sent := [][]sink.Message{messages("in.a", "first", 3, 1)}
	sinktest.MustPublish(t, s, sent[0])
	for i, c := range []struct {
		lacks server.Permissions
		says  string
		ends  func()
	}{
		{server.Permissions{Subscribe: deny("_INBOX.>")}, "right to subscribe to it", back},
		{server.Permissions{Publish: deny("$JS.API.STREAM.INFO.>")}, "right to publish on it", back},
		{server.Permissions{Publish: deny("in.>")}, "right to publish on it", back},
		{server.Permissions{Publish: deny("in.>")}, "right to publish on it", func() { user.Store("all") }},
	} {
		nats.Reload(t, but(&c.lacks))
		batch, done := messages("in.a", fmt.Sprint(i), 3, 1), make(chan error, 1)
		go func() { done <- must.Err(s.Publish(sinktest.Deadline(t), batch)) }()
		sinktest.Until(t, "readiness names the "+c.says, func() bool {
			err := s.Ready(t.Context())
			return err != nil && strings.Contains(err.Error(), c.says)
		})
		c.ends()
		must.OK(t, <-done)
		sent = append(sent, batch)
	}
	wantOnce(t, stream, "in.a", sent...)
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
		sinktest.MustPublish(t, s, messages(name+".a", "k", 3, 1))
		// It is created once more where somebody has deleted it.
		must.OK(t, js.DeleteStream(t.Context(), name))
		sinktest.MustPublish(t, s, messages(name+".a", "again", 3, 1))
		stream := must.Get(js.Stream(t.Context(), name))(t)
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
	must.Get(js.CreateStream(t.Context(), was))(t)
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

// TestInspectFindsABucketThatExpires: nobody writes progress again that stays the same.
func TestInspectFindsABucketThatExpires(t *testing.T) {
	t.Parallel()
	server := testenv.AnyNATS(t)
	bucket := testenv.NewStreamName()
	must.Get(server.JetStream(t).CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: bucket, TTL: time.Hour}))(t)
	r := inspected(t, sinkjs.Options{Connection: at(server.URL(), ""), Bucket: bucket, CreateStream: true})
	if f := r.Findings; len(f) != 1 || f[0].Severity != inspect.Unsafe || f[0].Code != inspect.TopicUncompacted || f[0].Blocks() ||
		strings.Contains(f[0].Statement, "per-subject") {
		t.Errorf("found %+v", f)
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
