package world

import (
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

// readNATS reads a stream with an ordered consumer, up to its last sequence.
func readNATS(ctx context.Context, js jetstream.JetStream, name string, each func(Message)) error {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx)
	if err != nil || info.State.Msgs == 0 {
		return err
	}
	messages, err := consume(ctx, stream)
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		each(natsMessage(name, m, meta.Timestamp))
		if meta.Sequence.Stream >= info.State.LastSeq {
			return nil
		}
	}
}

func consume(ctx context.Context, stream jetstream.Stream) (jetstream.MessagesContext, error) {
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return nil, err
	}
	return consumer.Messages()
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
	stream, err := b.NATS.JetStream(t).Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consume(t.Context(), stream)
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

func (b *Bus) replayOnNATS(t testing.TB, stream string, messages []Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	js := b.NATS.JetStream(t)
	for _, m := range messages {
		// The headers of JetStream itself would have it drop what is there already.
		msg := &nats.Msg{Subject: stream + "." + m.Headers["eiffel-type"], Data: m.Value, Header: nats.Header{}}
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
	stream, err := js.Stream(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	change(&config, stream.CachedInfo().State)
	if _, err := js.UpdateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
}
