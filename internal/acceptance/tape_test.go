package acceptance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"
)

// tape is what a consumer receives while it happens, each message with the time.
type tape struct {
	mu       sync.Mutex
	messages []received
}

func (p *tape) add(m received) {
	m.at = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages = append(p.messages, m)
}

// all returns the messages so far.
func (p *tape) all() []received {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.messages)
}

func (p *tape) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.messages)
}

// record fills a tape by consume until the test ends. consume returns when its context ends.
func record(t testing.TB, consume func(ctx context.Context, p *tape) error) *tape {
	t.Helper()
	p := new(tape)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := consume(ctx, p); err != nil && ctx.Err() == nil {
			t.Errorf("the consumer ended: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return p
}

func (b kafkaBus) follow(t testing.TB, name string) *tape {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.server.Brokers()...), kgo.ConsumeTopics(name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return record(t, func(ctx context.Context, p *tape) error {
		defer client.Close()
		for {
			fetches := client.PollFetches(ctx)
			for _, e := range fetches.Errors() {
				return e.Err
			}
			fetches.EachRecord(func(r *kgo.Record) {
				m := received{place: fmt.Sprint(r.Partition), key: string(r.Key), value: r.Value, headers: make(map[string]string)}
				for _, h := range r.Headers {
					m.headers[h.Key] = string(h.Value)
				}
				p.add(m)
			})
		}
	})
}

func (b natsBus) follow(t testing.TB, name string) *tape {
	t.Helper()
	stream, err := b.server.JetStream(t).Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	return record(t, func(ctx context.Context, p *tape) error {
		defer messages.Stop()
		for {
			m, err := messages.Next(jetstream.NextContext(ctx))
			if errors.Is(err, jetstream.ErrNoHeartbeat) {
				continue
			}
			if err != nil {
				return err
			}
			r := received{place: name, value: m.Data(), headers: make(map[string]string)}
			for k, v := range m.Headers() {
				r.headers[k] = v[0]
			}
			p.add(r)
		}
	})
}
