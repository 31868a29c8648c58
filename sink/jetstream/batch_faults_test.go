package jetstream_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/sink"
	"example.org/bridge/sink/jetstream"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

// TestABatchOverItsTime: the server drops a batch that stands still, and the sink sends it again.
func TestABatchOverItsTime(t *testing.T) {
	t.Parallel()
	const limit = 200 * time.Millisecond
	server := testenv.InProcessNATS(t, func(o *server.Options) { o.JetStreamLimits.MaxBatchTimeout = limit })
	stream, options := claimed(t, server, natsjs.StreamConfig{})
	abandoned := make(chan struct{}, 1)
	must.Get(server.Connect(t).Subscribe("$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.>", func(*nats.Msg) {
		select {
		case abandoned <- struct{}{}:
		default:
		}
	}))(t)
	s := open(t, options)
	sinktest.MustFence(t, s)
	batch := messages(options.Stream+".a", "slow", 100, 7)
	reached, resume := hangAt(s, failpoint.TransactionSent)
	defer resume()
	done := sinktest.Publishing(sinktest.Deadline(t), s, batch)
	<-reached
	select {
	case <-abandoned:
	case <-time.After(time.Minute):
		t.Fatal("the server keeps the batch")
	}
	resume()
	must.OK(t, <-done)
	wantOnce(t, stream, options.Stream+".a", batch)
}

// TestTooManyBatches: a server that has too many batches in flight is waited for.
func TestTooManyBatches(t *testing.T) {
	t.Parallel()
	server := testenv.InProcessNATS(t, func(o *server.Options) {
		o.JetStreamLimits.MaxBatchTimeout, o.JetStreamLimits.MaxBatchInflightPerStream = time.Minute, 1
	})
	stream, options := claimed(t, server, natsjs.StreamConfig{})
	nc := server.Connect(t)
	other := nats.NewMsg(options.Stream + ".b")
	other.Header.Set("Nats-Batch-Id", "other")
	other.Header.Set("Nats-Batch-Sequence", "1")
	must.Get(nc.RequestMsg(other, time.Minute))(t)
	var mu sync.Mutex
	var faults []string
	options.Fault = func(_ string, err error) {
		mu.Lock()
		defer mu.Unlock()
		faults = append(faults, err.Error())
	}
	s := open(t, options)
	batch := messages(options.Stream+".a", "busy", 100, 7)
	done := make(chan int, 1)
	go func() { done <- sinktest.Deliver(t, s, nil, batch) }()
	sinktest.Until(t, "the fault is reported", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(strings.Join(faults, "\n"), "too many inflight")
	})
	other.Header.Set("Nats-Batch-Sequence", "2")
	other.Header.Set("Nats-Batch-Commit", "1")
	must.Get(nc.RequestMsg(other, time.Minute))(t)
	<-done
	wantOnce(t, stream, options.Stream+".a", batch)
}

func TestRefusedRowsOfABatch(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	stream, options := claimed(t, server, natsjs.StreamConfig{MaxMsgSize: 8 << 10})
	subject := options.Stream + ".a"
	large := func(m *sink.Message) { m.Value = fmt.Appendf(nil, `{"pad":"%09000d"}`, 1) }

	t.Run("all of them are told, and nothing is stored", func(t *testing.T) {
		s := open(t, options)
		batch := messages(subject, "refused", 100, 7)
		large(&batch[3])
		large(&batch[50])
		out, err := s.Publish(sinktest.Deadline(t), batch)
		if err != nil || len(out.Rejected) != 2 || out.Rejected[0].Index != 3 || out.Rejected[1].Index != 50 || out.Acked() != 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		if n := len(testenv.Consume(t, stream, subject)); n != 0 {
			t.Errorf("%d messages are stored", n)
		}
	})

	t.Run("a limit that is lowered while a batch goes in parts is an unknown outcome", func(t *testing.T) {
		s := open(t, options)
		sinktest.MustFence(t, s)
		batch := messages(subject, "lowered", 1500, 7)
		batch[1200].Value = fmt.Appendf(nil, `{"pad":"%05000d"}`, 1)
		parts := 0
		jetstream.OnStep(s, func(at failpoint.Point) {
			if parts++; at == failpoint.TransactionEnded && parts == len(sinktest.Steps) {
				update(t, server, options.Stream, func(c *natsjs.StreamConfig) { c.MaxMsgSize = 4 << 10 })
			}
		})
		out, err := s.Publish(sinktest.Deadline(t), batch)
		if !errors.Is(err, sink.ErrUnknownOutcome) || out.Acked() != 0 {
			t.Fatalf("%d acknowledged, %v", out.Acked(), err)
		}
		sinktest.MustFence(t, s)
		left := sinktest.Without(batch, readBack(t, s))
		if len(left) != 500 {
			t.Fatalf("%d messages are left", len(left))
		}
		out, err = s.Publish(sinktest.Deadline(t), left)
		if err != nil || len(out.Rejected) != 1 || out.Rejected[0].Index != 200 {
			t.Fatalf("%+v, %v", out.Rejected, err)
		}
		rest := append(append([]sink.Message(nil), left[:200]...), left[201:]...)
		sinktest.MustPublish(t, s, rest)
		wantOnce(t, stream, subject, append(append([]sink.Message(nil), batch[:1200]...), batch[1201:]...))
	})
}

// TestASubjectThatTheStreamLacks holds up its batch and no other.
func TestASubjectThatTheStreamLacks(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	stream, options := claimed(t, server, natsjs.StreamConfig{})
	s := open(t, options)
	lost, kept := messages(options.Stream+"_other.a", "lost", 10, 3), messages(options.Stream+".a", "kept", 10, 3)
	done := sinktest.Publishing(sinktest.Deadline(t), s, lost)
	sinktest.Until(t, "readiness names the subject", func() bool {
		err := s.Ready(t.Context())
		return err != nil && strings.Contains(err.Error(), options.Stream+"_other.a")
	})
	sinktest.MustPublish(t, s, kept)
	update(t, server, options.Stream, func(c *natsjs.StreamConfig) { c.Subjects = append(c.Subjects, options.Stream+"_other.a") })
	must.OK(t, <-done)
	wantOnce(t, stream, options.Stream+"_other.a", lost)
	wantOnce(t, stream, options.Stream+".a", kept)
	must.OK(t, s.Ready(t.Context()))
}

// TestASubjectThatIsNotGranted: the error names the grant, and nothing is stored.
func TestASubjectThatIsNotGranted(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	nats := testenv.InProcessNATS(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "all", Password: "secret"},
			{Username: "few", Password: "secret", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"$JS.API.>", "*.a", "*.claim"}}}},
			{Username: "unclaimed", Password: "secret", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"$JS.API.>", "*.a"}}}},
		}
	})
	stream, options := claimed(t, nats.As("all", "secret"), natsjs.StreamConfig{})
	options.Password = func() (string, string, error) { return "few", "secret", nil }
	s := open(t, options)
	batch := append(messages(options.Stream+".a", "granted", 10, 3), messages(options.Stream+".b", "denied", 1, 1)...)
	_, err := s.Publish(sinktest.Deadline(t), batch)
	must.Fail(t, err, sink.ErrUnknownOutcome, "grant the user the right to publish")
	sinktest.MustFence(t, s)
	if found := readBack(t, s); len(found) != 0 {
		t.Errorf("%d messages are stored", len(found))
	}
	granted := messages(options.Stream+".a", "granted", 10, 3)
	sinktest.MustPublish(t, s, granted)
	wantOnce(t, stream, options.Stream+".a", granted)

	options.Password = func() (string, string, error) { return "unclaimed", "secret", nil }
	s = open(t, options)
	done := make(chan error, 1)
	go func() { done <- s.Fence(t.Context()) }()
	sinktest.Until(t, "readiness names the grant for the claim", func() bool {
		err := s.Ready(t.Context())
		return err != nil && strings.Contains(err.Error(), options.Claim+": grant the user the right")
	})
}
