package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Subscriber reads the stream of a NATS server like any program that knows the events' format and
// nothing else.
type Subscriber struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	stream string
}

// answerWithin is how long a request may take on a machine that is busy with other things.
const answerWithin = 30 * time.Second

// Subscribe connects to the server at url.
func Subscribe(url, stream string) (*Subscriber, error) {
	nc, err := nats.Connect(url, nats.Name("bridge demo"))
	if err != nil {
		return nil, fmt.Errorf("subscribe at %s: %w", url, err)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(answerWithin))
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("subscribe at %s: %w", url, err)
	}
	return &Subscriber{nc, js, stream}, nil
}

// Close ends the connection.
func (s *Subscriber) Close() { s.nc.Close() }

// Follow calls each for every event from the beginning of the stream on, until ctx ends, and
// returns nil then. It waits for the stream to be created.
func (s *Subscriber) Follow(ctx context.Context, each func(Event) error) error {
	created, err := s.wait(ctx)
	if err != nil || !created {
		return err
	}
	return s.read(ctx, each, func(jetstream.Msg) bool { return false })
}

// wait returns when the stream is there; it reports false when ctx ends first.
func (s *Subscriber) wait(ctx context.Context) (bool, error) {
	for {
		_, err := s.js.Stream(ctx, s.stream)
		switch {
		case err == nil:
			return true, nil
		case ctx.Err() != nil:
			return false, nil
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return false, fmt.Errorf("look for the stream %s: %w", s.stream, err)
		}
		if sleep(ctx) != nil {
			return false, nil
		}
	}
}

// All returns every event that the stream holds now, from its beginning.
func (s *Subscriber) All(ctx context.Context) ([]Event, error) {
	stream, err := s.js.Stream(ctx, s.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at the stream %s: %w", s.stream, err)
	}
	last := stream.CachedInfo().State.LastSeq
	if stream.CachedInfo().State.Msgs == 0 {
		return nil, nil
	}
	var all []Event
	err = s.read(ctx, func(e Event) error { all = append(all, e); return nil }, func(m jetstream.Msg) bool {
		meta, err := m.Metadata()
		return err == nil && meta.Sequence.Stream >= last
	})
	if err == nil {
		err = ctx.Err()
	}
	return all, err
}

// read calls each for every event from the beginning, until one is the last or ctx ends.
func (s *Subscriber) read(ctx context.Context, each func(Event) error, last func(jetstream.Msg) bool) error {
	consumer, err := s.js.OrderedConsumer(ctx, s.stream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return ended(ctx, fmt.Errorf("read the stream %s: %w", s.stream, err))
	}
	messages, err := consumer.Messages()
	if err != nil {
		return ended(ctx, fmt.Errorf("read the stream %s: %w", s.stream, err))
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return ended(ctx, fmt.Errorf("read the stream %s: %w", s.stream, err))
		}
		e, err := parse(m)
		if err != nil {
			return err
		}
		if err := each(e); err != nil || last(m) {
			return err
		}
	}
}

// ended drops an error that the end of ctx brought about.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
