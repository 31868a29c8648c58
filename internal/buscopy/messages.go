package buscopy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"bridge/internal/backoff"
	"bridge/sink"
)

// Bus is a sink that can be read back.
type Bus interface {
	sink.Sink
	sink.Reader
}

// MessagesOptions describe a bus to Messages.
type MessagesOptions struct {
	// Bus is of this bucket alone, and is closed with it.
	Bus Bus
	// Read is what to look for in TPs; Destination returns where a key is published, and Key the
	// key of a message.
	Read        string
	Destination func(key string) string
	Key         func(*sink.Stored) string
	// Usable returns an error unless these TPs can hold the bucket. Nil takes any, and none means
	// that nothing was put yet.
	Usable func([]sink.TP) error
	// Delete removes keys. Nil publishes an empty value, which Kafka compacts away.
	Delete func(ctx context.Context, keys []string) error
}

// Messages is a Bucket of a bus that keeps the last message of each key. Make one with NewMessages.
type Messages struct{ opts MessagesOptions }

var _ Bucket = (*Messages)(nil)

// NewMessages returns a Bucket.
func NewMessages(o MessagesOptions) *Messages {
	if o.Usable == nil {
		o.Usable = func([]sink.TP) error { return nil }
	}
	return &Messages{o}
}

// Entries implements Bucket. It reads all of the bucket.
func (m *Messages) Entries(ctx context.Context, prefix string) (map[string][]byte, error) {
	var pause backoff.Backoff
	for {
		entries, err := m.read(ctx, prefix)
		if !errors.Is(err, sink.ErrExpired) && !errors.Is(err, sink.ErrGone) {
			return entries, err
		}
		// It was compacted, or made again, meanwhile.
		if err := pause.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

func (m *Messages) read(ctx context.Context, prefix string) (map[string][]byte, error) {
	tps, err := m.opts.Bus.TPs(ctx, []string{m.opts.Read})
	if err == nil {
		err = m.opts.Usable(tps)
	}
	if err != nil {
		return nil, err
	}
	entries := make(map[string][]byte)
	for i := range tps {
		tp := &tps[i]
		if tp.First >= tp.End {
			continue
		}
		span := sink.Span{TP: tp.Name, Incarnation: tp.Incarnation, From: tp.First, To: tp.End}
		_, err := m.opts.Bus.Read(ctx, span, func(s *sink.Stored) error {
			switch key := m.opts.Key(s); {
			case !strings.HasPrefix(key, prefix):
			case len(s.Value) == 0:
				delete(entries, key)
			default:
				entries[key] = append([]byte(nil), s.Value...)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", tp.Name, err)
		}
	}
	return entries, nil
}

// Put implements Bucket.
func (m *Messages) Put(ctx context.Context, key string, value []byte) error {
	return m.publish(ctx, []string{key}, value)
}

// Delete implements Bucket.
func (m *Messages) Delete(ctx context.Context, keys []string) error {
	switch {
	case len(keys) == 0:
		return nil
	case m.opts.Delete != nil:
		return m.opts.Delete(ctx, keys)
	}
	return m.publish(ctx, keys, nil)
}

func (m *Messages) publish(ctx context.Context, keys []string, value []byte) error {
	batch := make([]sink.Message, len(keys))
	for i, key := range keys {
		batch[i] = sink.Message{
			Destination: m.opts.Destination(key), Key: []byte(key), Value: value, ID: uuid.NewString(),
			Type: "bridge-progress", Time: time.Now(),
		}
	}
	out, err := m.opts.Bus.Publish(ctx, batch)
	if len(out.Rejected) > 0 {
		r := out.Rejected[0]
		return fmt.Errorf("%s refuses %d bytes under %s: %s", batch[r.Index].Destination, len(value), keys[r.Index], r.Reason)
	}
	if err == nil && !out.AllAcked() {
		err = fmt.Errorf("%s was not acknowledged", keys[0])
	}
	return err
}

// Ready returns nil if the bus can be reached and nothing is held up.
func (m *Messages) Ready(ctx context.Context) error { return m.opts.Bus.Ready(ctx) }

// Close implements Bucket.
func (m *Messages) Close() error { return m.opts.Bus.Close() }
