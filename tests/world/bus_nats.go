package world

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func streamConfig(name string) jetstream.StreamConfig {
	return jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Storage: jetstream.FileStorage, Duplicates: 2 * time.Minute}
}

// envOfNATS returns the variables that point the program to servers, and with once to the stream of
// that name, to which it publishes each event once.
func envOfNATS(url, once string) Env {
	e := Env{"BRIDGE_SINK_URL": url}
	if once != "" {
		e["BRIDGE_DELIVERY"], e["BRIDGE_NATS_STREAM"], e["BRIDGE_NATS_CLAIM_SUBJECT"] = "exactly-once", once, once+".claim"
	}
	return e
}

// stream returns the stream of a destination, and prefix what its subjects begin with.
func (b *Bus) stream(name string) string { return cmp.Or(b.once, name) }

func (b *Bus) prefix(name string) string {
	if b.once != "" {
		return b.once + "." + name
	}
	return name
}

// openOnNATS makes the stream of a destination, once where all share it, and returns what subjects
// begin with.
func (b *Bus) openOnNATS(t testing.TB, name string) string {
	t.Helper()
	config := streamConfig(b.stream(name))
	config.Replicas, config.AllowAtomicPublish = len(b.Members), b.once != ""
	if b.once != "" {
		if _, err := b.NATS.JetStream(t).Stream(t.Context(), b.once); err == nil {
			return b.prefix(name)
		}
	}
	b.NATS.CreateStream(t, config)
	return b.prefix(name)
}

func (b *Bus) countOnNATS(t testing.TB, name string) (n int64) {
	t.Helper()
	stream, err := b.NATS.JetStream(t).Stream(t.Context(), b.stream(name))
	if err != nil {
		t.Fatal(err)
	}
	if b.once == "" {
		return int64(stream.CachedInfo().State.Msgs)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(b.prefix(name)+".>"))
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range info.State.Subjects {
		n += int64(of)
	}
	return n
}

// readNATS reads the messages of a destination with an ordered consumer, up to the last sequence of
// its stream.
func (b *Bus) readNATS(ctx context.Context, js jetstream.JetStream, name string, from Offsets, each func(Message)) (Offsets, error) {
	stream, err := js.Stream(ctx, b.stream(name))
	if err != nil {
		return nil, err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return nil, err
	}
	ends := Offsets{0: int64(info.State.LastSeq)}
	if info.State.Msgs == 0 || ends[0] == from[0] {
		return ends, nil
	}
	consumer, err := b.consumer(ctx, stream, name, from)
	if err != nil {
		return nil, err
	}
	if pending, err := consumer.Info(ctx); err != nil || pending.NumPending == 0 {
		return ends, err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		each(natsMessage(name, m, meta.Timestamp))
		if meta.Sequence.Stream >= info.State.LastSeq || b.once != "" && meta.NumPending == 0 {
			return ends, nil
		}
	}
}

// consumer returns an ordered consumer of the messages of a destination behind some offsets.
func (b *Bus) consumer(ctx context.Context, stream jetstream.Stream, name string, from Offsets) (jetstream.Consumer, error) {
	config := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}
	if from[0] > 0 {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, uint64(from[0])+1
	}
	if b.once != "" {
		config.FilterSubjects = []string{b.prefix(name) + ".>"}
	}
	return stream.OrderedConsumer(ctx, config)
}

func natsMessage(stream string, m jetstream.Msg, at time.Time) Message {
	r := Message{Partition: stream, Value: m.Data(), Headers: make(map[string]string), At: at}
	for k, v := range m.Headers() {
		r.Headers[k] = v[0]
	}
	return r
}

func (b *Bus) followNATS(t testing.TB, name string) *Tape {
	t.Helper()
	stream, err := b.NATS.JetStream(t).Stream(t.Context(), b.stream(name))
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := b.consumer(t.Context(), stream, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	return newTape(t, func(ctx context.Context, p *Tape) error {
		defer messages.Stop()
		for {
			m, err := messages.Next(jetstream.NextContext(ctx))
			if errors.Is(err, jetstream.ErrNoHeartbeat) {
				continue
			}
			if err != nil {
				return err
			}
			p.Add(natsMessage(name, m, time.Time{}))
		}
	})
}

func (b *Bus) replayOnNATS(t testing.TB, name string, messages []Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	js := b.NATS.JetStream(t)
	for _, m := range messages {
		// The headers of JetStream itself would have it drop what is there already.
		msg := &nats.Msg{Subject: b.prefix(name) + "." + TypeOf(m), Data: m.Value, Header: nats.Header{}}
		for name, value := range m.Headers {
			if !strings.HasPrefix(name, "Nats-") {
				msg.Header.Set(name, value)
			}
		}
		if _, err := js.PublishMsg(ctx, msg); err != nil {
			t.Fatal(err)
		}
	}
}

// Configure changes a stream of JetStream, given how it stands.
func (b *Bus) Configure(t testing.TB, name string, change func(*jetstream.StreamConfig, jetstream.StreamState)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	js := b.NATS.JetStream(t)
	stream, err := js.Stream(ctx, b.stream(name))
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	change(&config, stream.CachedInfo().State)
	if _, err := js.UpdateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
}
