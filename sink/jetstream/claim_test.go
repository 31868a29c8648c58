package jetstream_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/sink"
	"example.org/bridge/sink/jetstream"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// TestAClaimThatIsGone: where a purge has removed the claim nobody can tell who has published
// since.
func TestAClaimThatIsGone(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	stream, options := claimed(t, server, natsjs.StreamConfig{})
	s := open(t, options)
	sinktest.Deliver(t, s, nil, messages(options.Stream+".a", "before", 10, 3))
	must.OK(t, stream.Purge(t.Context()))
	must.Fail(t, must.Err(s.Publish(sinktest.Deadline(t), messages(options.Stream+".a", "after", 10, 3))), sink.ErrUnknownOutcome)
	must.Fail(t, s.Fence(sinktest.Deadline(t)), sink.ErrFenced, "start bridge again")
	again := messages(options.Stream+".a", "again", 10, 3)
	sinktest.Deliver(t, open(t, options), nil, again)
	wantOnce(t, stream, options.Stream+".a", again)
}

func TestWhatAnotherClaimsIsQuotedAndCut(t *testing.T) {
	for body, want := range map[string]string{`{"host":"a"}`: "claim of `{\"host\":\"a\"}`", "a\n\x1b": `claim of "a\n\x1b"`} {
		if got := jetstream.Loss(body + strings.Repeat(" ", 200)).Error(); !strings.Contains(got, want[:len(want)-1]) || strings.Contains(got, "\n") || len(got) > 400 {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestAClaimOnAFormerStream is worth nothing, though another process has one with the same sequence
// on the stream of now: that it is another one is found out by a look at its subjects.
func TestAClaimOnAFormerStream(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	stream, options := claimed(t, server, natsjs.StreamConfig{})
	name := options.Stream
	update(t, server, name, func(c *natsjs.StreamConfig) { c.Subjects = []string{name + ".a", options.Claim} })
	s := open(t, options)
	sinktest.MustFence(t, s)
	config := stream.CachedInfo().Config
	config.Subjects = []string{name + ".>"}
	stream = remake(t, server.JetStream(t), config)
	sinktest.MustFence(t, open(t, options))
	must.Fail(t, must.Err(s.Publish(sinktest.Deadline(t), messages(name+".b", "late", 1, 1))), sink.ErrFenced)
	if info, err := stream.Info(t.Context()); err != nil || info.State.LastSeq != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestClaimsAreRenewed has retention remove the first claim, and some that came later.
func TestClaimsAreRenewed(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	for _, c := range []struct {
		name   string
		config natsjs.StreamConfig
		// foreign messages come in so many rounds, each more than half of what the stream keeps.
		rounds, foreign int
	}{
		{"age", natsjs.StreamConfig{MaxAge: 6 * time.Second, Duplicates: 100 * time.Millisecond}, 2, 1},
		{"messages", natsjs.StreamConfig{MaxMsgs: 200}, 5, 120},
		{"bytes", natsjs.StreamConfig{MaxBytes: 64 << 10}, 5, 160},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			stream, options := claimed(t, server, c.config)
			jetstream.RenewEvery(&options, 5*time.Millisecond)
			s := open(t, options)
			sinktest.MustFence(t, s)
			first := claimOf(t, stream, options.Claim)
			js := server.JetStream(t)
			for last, round := first, 0; round < c.rounds; round++ {
				for range c.foreign {
					must.Get(js.Publish(t.Context(), options.Stream+".foreign", make([]byte, 200)))(t)
				}
				sinktest.Until(t, "the claim is renewed", func() bool { return claimOf(t, stream, options.Claim) > last })
				last = claimOf(t, stream, options.Claim)
			}
			sinktest.Until(t, "retention has removed the first claim", func() bool {
				info, err := stream.Info(t.Context())
				return err == nil && info.State.FirstSeq > first
			})
			sinktest.Deliver(t, s, nil, messages(options.Stream+".a", "after", 10, 3))
		})
	}
}

// TestABusyProcessKeepsItsClaim publishes many times what the stream keeps, between two looks at
// the claim by time.
func TestABusyProcessKeepsItsClaim(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	for name, c := range map[string]struct {
		config natsjs.StreamConfig
		size   int
	}{
		"messages": {natsjs.StreamConfig{MaxMsgs: 600}, 300}, "bytes": {natsjs.StreamConfig{MaxBytes: 128 << 10}, 250},
		"few messages": {natsjs.StreamConfig{MaxMsgs: 10}, 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const batches = 8
			stream, options := claimed(t, server, c.config)
			jetstream.RenewEvery(&options, time.Hour)
			s := open(t, options)
			sinktest.MustFence(t, s)
			for n := range batches {
				sinktest.Deliver(t, s, nil, messages(options.Stream+".a", fmt.Sprint("batch-", n), c.size, 4))
			}
			info, err := stream.Info(t.Context())
			if err != nil || info.State.FirstSeq < uint64(batches*c.size/2) {
				t.Errorf("retention has removed little: %+v, %v", info, err)
			}
		})
	}
}

// TestAServerThatTakesSmallerBatches has batches of 100 messages at most.
func TestAServerThatTakesSmallerBatches(t *testing.T) {
	t.Parallel()
	server := testenv.InProcessNATS(t, func(o *server.Options) { o.JetStreamLimits.MaxBatchSize, o.JetStreamDomain = 100, "hub" })
	// With a domain a refusal leaves in doubt what is stored.
	for _, domain := range []string{"", "hub"} {
		stream, options := claimed(t, server, natsjs.StreamConfig{})
		options.JetStreamDomain = domain
		s := open(t, options)
		sinktest.MustFence(t, s)
		batch := messages(options.Stream+".a", "large", 500, 4)
		sinktest.Deliver(t, s, []string{options.Stream + ".a"}, batch)
		wantOnce(t, stream, options.Stream+".a", batch)
	}
}

// TestAFullStreamWithAClaim has room for few messages at a time, and stores each of them once: the
// claims of what is in doubt do not take the room.
func TestAFullStreamWithAClaim(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	stream, options := claimed(t, server, natsjs.StreamConfig{MaxMsgs: 400, Discard: natsjs.DiscardNew})
	s := open(t, options)
	sinktest.MustFence(t, s)
	batch := messages(options.Stream+".a", "much", 600, 4)
	done := make(chan int, 1)
	go func() { done <- sinktest.Deliver(t, s, nil, batch) }()
	sinktest.Until(t, "the stream is full", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Msgs >= 399
	})
	update(t, server, options.Stream, func(c *natsjs.StreamConfig) { c.MaxMsgs = 1000 })
	t.Logf("%d outcomes were unknown", <-done)
	wantOnce(t, stream, options.Stream+".a", batch)
}

func claimOf(t *testing.T, stream natsjs.Stream, subject string) uint64 {
	t.Helper()
	m := must.Get(stream.GetLastMsgForSubject(t.Context(), subject))(t)
	return m.Sequence
}
