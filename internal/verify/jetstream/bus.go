package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"bridge/internal/option"
	"bridge/internal/verify"
)

const (
	// answerWithin bounds one request, silentFor how long no message may come though some are left.
	answerWithin = 10 * time.Second
	silentFor    = 30 * time.Second
	// progressEvery is a number of messages.
	progressEvery = 1000
)

// Bus reads streams.
type Bus struct {
	options Options
	nc      *nats.Conn
	js      jetstream.JetStream
	streams []*stream
}

var _ verify.Bus = (*Bus)(nil)

// stream is one partition of the bus.
type stream struct {
	verify.Partition
	handle jetstream.Stream
	// end is the last sequence to be read.
	end uint64
}

// Open connects and finds the streams. That there is none is an error.
func Open(ctx context.Context, o Options) (_ *Bus, err error) {
	b := &Bus{options: o}
	if b.nc, err = o.connect(ctx); err != nil {
		return nil, err
	}
	if b.js, err = jetstream.New(b.nc); err == nil {
		err = b.find(ctx)
	}
	if err != nil {
		b.nc.Close()
		return nil, err
	}
	return b, nil
}

// Close closes the connection.
func (b *Bus) Close() error {
	b.nc.Close()
	return nil
}

// Partitions returns the streams.
func (b *Bus) Partitions() []verify.Partition {
	list := make([]verify.Partition, len(b.streams))
	for i, s := range b.streams {
		list[i] = s.Partition
	}
	return list
}

// find looks up the streams that take the subjects.
func (b *Bus) find(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, errors.New("the server does not answer"))
	defer cancel()
	names := []string{b.options.Stream}
	if b.options.Stream == "" {
		names = nil
		for _, subject := range b.options.Subjects {
			list := b.js.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
			for name := range list.Name() {
				names = append(names, name)
			}
			if err := list.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
				return fmt.Errorf("look for the stream of %s: %w", subject, cause(ctx, err))
			}
		}
		slices.Sort(names)
		names = slices.Compact(names)
	}
	if len(names) == 0 {
		return option.Errorf("no stream takes the subjects %s: create one, or name it with %s", strings.Join(b.options.Subjects, ", "), option.NATSStream)
	}
	for _, name := range names {
		handle, err := b.js.Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("look at the stream %s: %w", name, cause(ctx, err))
		}
		s := &stream{handle: handle, Partition: verify.Partition{Name: name, Next: 1}}
		s.learn(handle.CachedInfo())
		b.streams = append(b.streams, s)
	}
	return nil
}

// learn tells what the stream can still hold.
func (s *stream) learn(info *jetstream.StreamInfo) {
	c := &info.Config
	byAge := c.MaxAge > 0 || c.MaxMsgs > 0 || c.MaxBytes > 0
	oneByOne := c.MaxMsgsPerSubject > 0 || c.Retention != jetstream.LimitsPolicy || c.AllowMsgTTL
	headless := info.State.FirstSeq > 1
	s.First = info.State.FirstSeq
	s.Expired = headless && byAge
	s.Thinned = oneByOne && (headless || info.State.NumDeleted > 0)
}

// cause returns why ctx ended in place of an error that says only that it did.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
