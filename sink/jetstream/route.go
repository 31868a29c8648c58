package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/bus"
	"example.org/bridge/client/jetstream/server"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
)

// publishRouted sends each message to the stream that takes its subject, and again to another when
// that changes.
func (s *Sink) publishRouted(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	out := sink.Outcome{Status: make([]sink.Status, len(batch)), At: make([]sink.At, len(batch))}
	left := make([]int, len(batch))
	for i := range left {
		left[i] = i
	}
	var pause backoff.Backoff
	for {
		moved, err := s.publishParts(ctx, batch, left, &out)
		if err == nil && len(moved) > 0 {
			err = pause.Wait(ctx)
		}
		if err != nil || len(moved) == 0 {
			return out, err
		}
		left = moved
	}
}

// publishParts sends the messages with the indexes left, in parts by stream, and returns those that
// turn out to belong to other streams. It waits for a subject that no stream takes.
func (s *Sink) publishParts(ctx context.Context, batch []sink.Message, left []int, out *sink.Outcome) (moved []int, err error) {
	parts := make(map[string][]int)
	subject, stream := "", ""
	for _, i := range left {
		if d := batch[i].Destination; d != subject || stream == "" {
			if stream, err = s.resolve(ctx, d); err != nil {
				return nil, err
			}
			subject = d
		}
		parts[stream] = append(parts[stream], i)
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for stream, index := range parts {
		group.Go(func() error {
			some := make([]sink.Message, len(index))
			for i, at := range index {
				some[i] = batch[at]
			}
			got, err := s.publish(ctx, stream, some)
			if got.At == nil {
				// No worker had them: the sink is closed.
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			mergeOutcome(out, got, index)
			if !errors.Is(err, errMoved) {
				return err
			}
			s.mu.Lock()
			delete(s.routes, stream)
			s.mu.Unlock()
			for i, status := range got.Status {
				if status == sink.Pending {
					moved = append(moved, index[i])
				}
			}
			return nil
		})
	}
	err = group.Wait()
	return moved, err
}

func mergeOutcome(out *sink.Outcome, got sink.Outcome, index []int) {
	for i, status := range got.Status {
		out.Status[index[i]] = status
		if at := got.At[i]; at.Known {
			ref := got.TPs[at.TP]
			tp := slices.Index(out.TPs, ref)
			if tp < 0 {
				tp, out.TPs = len(out.TPs), append(out.TPs, ref)
			}
			at.TP = int32(tp)
			out.At[index[i]] = at
		}
	}
	for _, r := range got.Rejected {
		r.Index = index[r.Index]
		out.Rejected = append(out.Rejected, r)
	}
	out.Duplicates += got.Duplicates
}

// route returns the stream that is known to take subject, empty for none.
func (s *Sink) route(subject string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for stream, covers := range s.routes {
		if covers(subject) != "" {
			return stream
		}
	}
	return ""
}

// resolve returns the stream that takes subject; it asks until there is one.
func (s *Sink) resolve(ctx context.Context, subject string) (string, error) {
	if stream := s.route(subject); stream != "" {
		return stream, nil
	}
	what := "subject " + subject
	defer func() { s.faults.gone(what, ctx.Err() != nil) }()
	var pause backoff.Backoff
	for {
		stream, err := s.request(ctx, subject)
		if err == nil {
			return stream, nil
		}
		if err := s.Over(ctx); err != nil {
			return "", err
		}
		s.faults.Fail(what, server.Everywhere, err)
		if err := pause.Wait(ctx); err != nil {
			return "", err
		}
	}
}

// request has the server say which stream takes subject.
func (s *Sink) request(ctx context.Context, subject string) (string, error) {
	session, err := s.conns.Get(ctx)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, server.RequestTimeout, server.ErrNoReply)
	defer cancel()
	name, err := session.JS.StreamNameBySubject(ctx, subject)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return "", option.Errorf("no stream takes the subject %s: create one, or set %s", subject, option.NATSStream)
	}
	if ctx.Err() != nil {
		err = session.Explained(context.Cause(ctx), "STREAM.NAMES")
	}
	if err != nil {
		return "", fmt.Errorf("ask for the stream of %s: %w", subject, err)
	}
	stream, err := session.JS.Stream(ctx, name)
	if err != nil {
		return "", fmt.Errorf("ask for the stream %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes[name] = bus.Coverer(stream.CachedInfo().Config.Subjects)
	return name, nil
}

// Purge removes the messages of subjects from a stream. It needs $JS.API.STREAM.PURGE. An error of
// the server is returned as it is; a lost connection is waited for.
func (s *Sink) Purge(ctx context.Context, name string, subjects []string) error {
	ctx, end := bus.Within(ctx, s.life)
	defer end()
	session, err := s.conns.Get(ctx)
	if err != nil {
		return err
	}
	for _, subject := range subjects {
		ctx, cancel := context.WithTimeoutCause(ctx, server.RequestTimeout, server.ErrNoReply)
		stream, err := session.JS.Stream(ctx, name)
		if err == nil {
			err = stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			err = nil // it has none
		}
		if ctx.Err() != nil && !errors.Is(err, nats.ErrPermissionViolation) {
			err = context.Cause(ctx)
		}
		if cancel(); err != nil {
			return fmt.Errorf("purge %s of the stream %s: %w", subject, name, err)
		}
	}
	return nil
}
