package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"bridge/internal/backoff"
	"bridge/internal/option"
	"bridge/sink"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// routes knows which subjects streams take. Streams never share a subject.
type routes struct {
	mu      sync.Mutex
	streams map[string][]string
}

// find returns the stream that is known to take subject, or "".
func (r *routes) find(subject string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for stream, patterns := range r.streams {
		if covered(patterns, subject) {
			return stream
		}
	}
	return ""
}

func (r *routes) add(stream string, patterns []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams == nil {
		r.streams = make(map[string][]string)
	}
	r.streams[stream] = patterns
}

func (r *routes) forget(stream string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.streams, stream)
}

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
		if err != nil || len(moved) == 0 {
			return out, err
		}
		left = moved
		if err := s.pause(ctx, pause.Next()); err != nil {
			return out, err
		}
	}
}

// part is what of a batch goes to one stream.
type part struct {
	stream string
	index  []int
}

// publishParts sends the messages with the indexes left and returns those that turn out to belong
// to other streams.
func (s *Sink) publishParts(ctx context.Context, batch []sink.Message, left []int, out *sink.Outcome) ([]int, error) {
	parts, err := s.split(ctx, batch, left)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var moved []int
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range parts {
		group.Go(func() error {
			some := make([]sink.Message, len(p.index))
			for i, at := range p.index {
				some[i] = batch[at]
			}
			w, err := s.worker(p.stream)
			if err != nil {
				return err
			}
			got, err := s.publish(ctx, w, some)
			mu.Lock()
			defer mu.Unlock()
			mergeOutcome(out, got, p.index)
			if errors.Is(err, errMoved) {
				s.routes.forget(p.stream)
				moved = append(moved, pending(got, p.index)...)
				return nil
			}
			return err
		})
	}
	return moved, group.Wait()
}

// mergeOutcome adds the outcome of a part.
func mergeOutcome(out *sink.Outcome, got sink.Outcome, index []int) {
	for i, status := range got.Status {
		out.Status[index[i]] = status
	}
	tps := make([]int, len(got.TPs))
	for i, ref := range got.TPs {
		if tps[i] = slices.Index(out.TPs, ref); tps[i] < 0 {
			tps[i], out.TPs = len(out.TPs), append(out.TPs, ref)
		}
	}
	for i, at := range got.At {
		if at.Known {
			at.TP = int32(tps[at.TP])
			out.At[index[i]] = at
		}
	}
	for _, r := range got.Rejected {
		r.Index = index[r.Index]
		out.Rejected = append(out.Rejected, r)
	}
	out.Duplicates += got.Duplicates
}

func pending(got sink.Outcome, index []int) []int {
	var left []int
	for i, status := range got.Status {
		if status == sink.Pending {
			left = append(left, index[i])
		}
	}
	return left
}

// split finds the stream of each message. It waits for a subject that no stream takes.
func (s *Sink) split(ctx context.Context, batch []sink.Message, left []int) ([]*part, error) {
	var parts []*part
	byStream := make(map[string]*part)
	subject, stream := "", ""
	for _, i := range left {
		if d := batch[i].Destination; d != subject || stream == "" {
			var err error
			if stream, err = s.resolve(ctx, d); err != nil {
				return nil, err
			}
			subject = d
		}
		p := byStream[stream]
		if p == nil {
			p = &part{stream: stream}
			byStream[stream], parts = p, append(parts, p)
		}
		p.index = append(p.index, i)
	}
	return parts, nil
}

// resolve returns the stream that takes subject; it asks until there is one.
func (s *Sink) resolve(ctx context.Context, subject string) (string, error) {
	if stream := s.routes.find(subject); stream != "" {
		return stream, nil
	}
	what := "subject " + subject
	defer s.faults.leave(ctx, what)
	var pause backoff.Backoff
	for {
		stream, err := s.request(ctx, subject)
		if err == nil {
			return stream, nil
		}
		if err := s.over(ctx); err != nil {
			return "", err
		}
		s.faults.fail(natsTP, what, err)
		if err := s.pause(ctx, pause.Next()); err != nil {
			return "", err
		}
	}
}

// request has the server say which stream takes subject.
func (s *Sink) request(ctx context.Context, subject string) (string, error) {
	session, err := s.session(ctx)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
	defer cancel()
	name, err := session.js.StreamNameBySubject(ctx, subject)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return "", option.Errorf("no stream takes the subject %s: create one, or set %s", subject, option.NATSStream)
	}
	if ctx.Err() != nil {
		err = session.explained(context.Cause(ctx))
	}
	if err != nil {
		return "", fmt.Errorf("ask for the stream of %s: %w", subject, err)
	}
	stream, err := session.js.Stream(ctx, name)
	if err != nil {
		return "", fmt.Errorf("ask for the stream %s: %w", name, err)
	}
	s.routes.add(name, stream.CachedInfo().Config.Subjects)
	return name, nil
}
