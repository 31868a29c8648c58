package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"example.org/bridge/client"
	"example.org/bridge/client/backoff"
	"example.org/bridge/client/bus"
	"example.org/bridge/client/jetstream/server"
)

const (
	// ackWait is after how long a message of a process that is gone comes again. A process that
	// lives says so each aliveEvery; where no server confirms that for giveUpAfter, another process
	// may have the message soon.
	ackWait     = 10 * time.Second
	aliveEvery  = ackWait / 4
	giveUpAfter = ackWait / 2
	// streamCheck is how often streams that were made later are looked for.
	streamCheck = 10 * time.Second
	// requestTimeout bounds a request, heartbeat how long a server may be silent.
	requestTimeout = 5 * time.Second
	heartbeat      = 5 * time.Second
	// returnTimeout bounds how long a process that stops returns undelivered messages.
	returnTimeout = 2 * time.Second
	// pullAtOnce is how many messages one request asks for. They still come one by one.
	pullAtOnce = 100
)

// Consume implements client.Bus: by a durable consumer with the name of the group for each stream.
// It makes them where they are missing.
func (b *Bus) Consume(ctx context.Context, s client.Subscription, each func(context.Context, string, *bus.Stored) error) error {
	var pause backoff.Backoff
	for {
		begun := time.Now()
		err := b.session(ctx, s, each)
		if ctx.Err() != nil {
			return nil
		}
		if refused, ok := errors.AsType[*refusedError](err); ok {
			return refused.err
		}
		s.Fault.Fail("", "nats", err)
		if time.Since(begun) > time.Minute {
			pause.Reset()
		}
		if pause.Wait(ctx) != nil {
			return nil
		}
	}
}

// refusedError is an error of each, or of a group that cannot be joined: it is not retried.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }

// errLost says that a connection is gone, errAlone that a server has not said for too long that a
// message is this process's.
var (
	errLost  = errors.New("the connection is lost")
	errAlone = errors.New("no server confirms that the event is being handled")
)

type session struct {
	client.Subscription
	nc    *nats.Conn
	js    jetstream.JetStream
	each  func(context.Context, string, *bus.Stored) error
	group *errgroup.Group
	// streams are those that are consumed. They belong to refresh.
	streams []string
}

// session consumes over one connection until that is lost, or ctx ends.
func (b *Bus) session(ctx context.Context, s client.Subscription, each func(context.Context, string, *bus.Stored) error) error {
	o := b.options(nil)
	if err := errors.Join(o.Check()...); err != nil {
		return err
	}
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	nc, err := o.Dial(ctx, o.URLs,
		nats.ClosedHandler(func(nc *nats.Conn) { lost(errors.Join(errLost, nc.LastError())) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { s.Fault.Fail("", "nats", err) }))
	if err != nil {
		return err
	}
	defer func() {
		// What is on its way are acknowledgements; without one the event comes again.
		_ = nc.FlushTimeout(returnTimeout)
		nc.Close()
	}()
	js, err := b.o.New(nc, jetstream.WithDefaultTimeout(requestTimeout))
	if err != nil {
		return err
	}
	one := &session{Subscription: s, nc: nc, js: js, each: each}
	one.group, ctx = errgroup.WithContext(ctx)
	if b.o.Stream != "" {
		err = one.add(ctx, []string{b.o.Stream})
	} else if err = one.refresh(ctx); err == nil && len(one.streams) == 0 {
		err = fmt.Errorf("no stream takes the subjects %q", s.Destinations)
	}
	if err == nil {
		s.Joined()
		if b.o.Stream == "" {
			one.group.Go(func() error { return one.watch(ctx) })
		}
	}
	one.group.Go(func() error { return err })
	return one.group.Wait()
}

func (s *session) watch(ctx context.Context) error {
	for {
		if err := backoff.Pause(ctx, streamCheck); err != nil {
			return err
		}
		if err := s.refresh(ctx); err != nil && ctx.Err() == nil {
			s.Fault.Fail("", "streams", err)
		}
	}
}

// refresh consumes the streams that take the subjects and are not consumed yet.
func (s *session) refresh(ctx context.Context) error {
	found, err := server.StreamsOf(ctx, s.js, s.Destinations)
	if err != nil {
		return err
	}
	return s.add(ctx, slices.DeleteFunc(found, func(name string) bool { return slices.Contains(s.streams, name) }))
}

func (s *session) add(ctx context.Context, streams []string) error {
	for _, name := range streams {
		consumer, err := durable(ctx, s.js, name, s.Subscription)
		if err != nil {
			return err
		}
		s.streams = append(s.streams, name)
		s.group.Go(func() error { return s.consume(ctx, name, consumer) })
	}
	return nil
}

// groupOf is where a consumer keeps what its group consumes.
const groupOf = "bridge-stream"

// durable returns the consumer of a group, made where it is missing. A group is of one stream of
// bridge: of two, each process would be given events of both, and pass over those of the other.
func durable(ctx context.Context, js jetstream.JetStream, stream string, s client.Subscription) (jetstream.Consumer, error) {
	// A user that may not ask has it made unseen.
	set := js.CreateOrUpdateConsumer
	asking, cancel := context.WithTimeout(ctx, server.RequestTimeout)
	defer cancel()
	consumer, err := js.Consumer(asking, stream, s.Group)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		set = js.CreateConsumer
	case err == nil:
		set = js.UpdateConsumer
		if of := consumer.CachedInfo().Config.Metadata[groupOf]; of != "" && of != s.Of {
			return nil, &refusedError{fmt.Errorf("the group %s consumes %s already: give %s a group of its own", s.Group, of, s.Of)}
		}
	}
	if !errors.Is(err, jetstream.ErrInvalidConsumerName) {
		consumer, err = set(ctx, stream, jetstream.ConsumerConfig{
			Durable: s.Group, AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy, AckWait: ackWait,
			MaxAckPending: 1, MaxDeliver: -1, FilterSubjects: s.Destinations, Metadata: map[string]string{groupOf: s.Of},
		})
	}
	if errors.Is(err, jetstream.ErrInvalidConsumerName) {
		return nil, &refusedError{fmt.Errorf("the group %q makes no name of a consumer: leave out dots, wildcards, slashes and white space", s.Group)}
	}
	if err != nil {
		return nil, fmt.Errorf("make the durable consumer %s of the stream %s: %w", s.Group, stream, err)
	}
	return consumer, nil
}

func (s *session) consume(ctx context.Context, stream string, consumer jetstream.Consumer) error {
	messages, err := consumer.Messages(jetstream.PullMaxMessages(pullAtOnce), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return fmt.Errorf("consume the stream %s: %w", stream, err)
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if ctx.Err() != nil && err == nil {
			err = errors.Join(context.Cause(ctx), m.Nak())
		}
		if err != nil {
			returnMessages(messages)
			return fmt.Errorf("consume the stream %s: %w", stream, err)
		}
		if err := s.hand(ctx, stream, m); err != nil {
			return err
		}
	}
}

// returnMessages returns the messages that were not handed out, so that another process need not
// wait for ackWait.
func returnMessages(messages jetstream.MessagesContext) {
	messages.Drain()
	for {
		m, err := messages.Next(jetstream.NextMaxWait(returnTimeout))
		if err != nil {
			return
		}
		// Where it does not arrive the message comes again all the same.
		_ = m.Nak()
	}
}

func (s *session) hand(ctx context.Context, stream string, m jetstream.Msg) error {
	at, err := m.Metadata()
	if err != nil {
		return err
	}
	stored := bus.Stored{Offset: at.Sequence.Stream, Destination: m.Subject(), Value: m.Data(), Time: at.Timestamp.UnixMilli()}
	for name, values := range m.Headers() {
		for _, v := range values {
			stored.Headers = append(stored.Headers, bus.Header{Name: name, Value: []byte(v)})
		}
	}
	handing, end := context.WithCancelCause(ctx)
	// Also while a handler goes on that is to end.
	working, done := context.WithCancel(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	alone := false
	keeping.Go(func() { alone = s.keep(working, end, m.Reply()) })
	err = s.each(handing, stream, &stored)
	ended := handing.Err() != nil
	done()
	keeping.Wait()
	end(nil)
	switch {
	case alone:
		// Another process may have the message by now: an answer would count for that one, and the
		// next message would be handed out beside it.
		return context.Cause(handing)
	case err == nil:
		return m.Ack()
	case !ended:
		return &refusedError{err}
	}
	// Another process need not wait for ackWait.
	return errors.Join(err, m.Nak())
}

// keep tells the server from time to time that a message is being handled, until ctx ends. Where no
// server confirms it, it calls end and returns true.
func (s *session) keep(ctx context.Context, end context.CancelCauseFunc, reply string) (alone bool) {
	for confirmed := time.Now(); backoff.Pause(ctx, aliveEvery) == nil; {
		sent := time.Now()
		asking, cancel := context.WithTimeout(ctx, aliveEvery/2)
		_, err := s.nc.RequestWithContext(asking, reply, []byte("+WPI"))
		cancel()
		if err == nil {
			confirmed = sent
		} else if time.Since(confirmed) > giveUpAfter {
			alone = true
			end(fmt.Errorf("%w: %w", errAlone, err))
		}
	}
	return alone
}

// Options say how to reach NATS. URLs or InProcess is required. Name defaults to "bridge-client".
// Readable is not used: subjects are those of client.Options.
type Options = server.Options

// Bus is a NATS server or cluster with JetStream.
type Bus struct{ o Options }

var _ client.Bus = (*Bus)(nil)

// New returns a bus. It does not touch the network.
func New(o Options) (*Bus, error) {
	if len(o.URLs) == 0 && o.InProcess == nil {
		return nil, errors.New("client/jetstream: Options.URLs is empty: set it to nats://host:4222")
	}
	o.Name = cmp.Or(o.Name, "bridge-client")
	return &Bus{o}, nil
}

// Open implements client.Bus.
func (b *Bus) Open(o client.Opening) (client.Reader, error) {
	return server.Open(*b.options(o.Destinations), o.Fault)
}

func (b *Bus) options(subjects []string) *server.Options {
	o := b.o
	o.Readable = subjects
	return &o
}
