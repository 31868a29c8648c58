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

	"example.org/bridge/internal/backoff"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
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

// Purge removes the messages of subjects from a stream. It needs $JS.API.STREAM.PURGE. An error of
// the server is returned as it is; a lost connection is waited for.
func (s *Sink) Purge(ctx context.Context, name string, subjects []string) error {
	session, err := s.session(ctx)
	if err != nil {
		return err
	}
	for _, subject := range subjects {
		if err := purge(ctx, session, name, subject); err != nil {
			return fmt.Errorf("purge %s of the stream %s: %w", subject, name, err)
		}
	}
	return nil
}

func purge(ctx context.Context, session *session, name, subject string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
	defer cancel()
	stream, err := session.js.Stream(ctx, name)
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
	}
	if ctx.Err() != nil && !errors.Is(err, nats.ErrPermissionViolation) {
		err = context.Cause(ctx)
	}
	return err
}

// Keeping is how a stream keeps messages. What is zero is not given.
type Keeping struct {
	// Replicas of a stream are 1 where they are not given, those of a bucket 3, or 1 where there
	// are fewer servers.
	Replicas int
	// File or Memory, at most one of them, is where messages are kept. Defaults to File.
	File, Memory bool
	// MaxAge and MaxBytes are limits at which the oldest messages are removed. There is none by
	// default.
	MaxAge   time.Duration
	MaxBytes int64
	// Duplicates is the time for which message ids are remembered. Defaults to 2 minutes.
	Duplicates time.Duration
}

// config returns the configuration of the stream to create.
func (k *Keeping) config(o *Options) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: o.Stream, Subjects: o.Subjects, Storage: k.storage(), Replicas: max(k.Replicas, 1), MaxAge: k.MaxAge,
		MaxBytes: cmp.Or(k.MaxBytes, -1), Duplicates: k.window(), AllowAtomicPublish: o.Claim != "",
	}
}

func (k *Keeping) window() time.Duration { return cmp.Or(max(k.Duplicates, 0), 2*time.Minute) }

func (k *Keeping) storage() jetstream.StorageType {
	if k.Memory {
		return jetstream.MemoryStorage
	}
	return jetstream.FileStorage
}

// flags are those of nats stream add and edit for a stream that is kept in this way.
func (k *Keeping) flags() string {
	text := fmt.Sprintf(" --dupe-window %s", brief(k.window()))
	if k.Replicas > 1 {
		text += fmt.Sprintf(" --replicas %d", k.Replicas)
	}
	if k.MaxAge > 0 {
		text += " --max-age " + brief(k.MaxAge)
	}
	if k.MaxBytes > 0 {
		text += fmt.Sprintf(" --max-bytes %d", k.MaxBytes)
	}
	return text
}

// brief is a duration without what is 0, as people write it.
func brief(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

// difference is what a stream has otherwise than it is given.
type difference struct {
	setting option.Name
	// is and wanted follow on "has" and on "not".
	is, wanted string
	// flag is that of nats stream edit, empty where that cannot change it.
	flag string
	// removes says that the change removes messages.
	removes bool
}

// differences compares what is given with a stream.
func (k *Keeping) differences(c *jetstream.StreamConfig) (list []difference) {
	if k.Replicas > 0 && c.Replicas != k.Replicas {
		list = append(list, difference{
			setting: option.NATSStreamReplicas, is: fmt.Sprintf("%d replicas", c.Replicas), wanted: fmt.Sprint(k.Replicas), flag: fmt.Sprintf("--replicas %d", k.Replicas),
		})
	}
	if (k.File || k.Memory) && c.Storage != k.storage() {
		list = append(list, difference{setting: option.NATSStreamStorage, is: "the storage " + storageName(c.Storage), wanted: storageName(k.storage())})
	}
	if k.MaxAge > 0 && c.MaxAge != k.MaxAge {
		list = append(list, difference{
			setting: option.NATSStreamMaxAge, is: "max_age " + limitText(c.MaxAge > 0, brief(c.MaxAge)), wanted: brief(k.MaxAge), flag: "--max-age " + brief(k.MaxAge),
			removes: c.MaxAge <= 0 || c.MaxAge > k.MaxAge,
		})
	}
	if k.MaxBytes > 0 && c.MaxBytes != k.MaxBytes {
		list = append(list, difference{
			setting: option.NATSStreamMaxBytes, is: "max_bytes " + limitText(c.MaxBytes > 0, fmt.Sprint(c.MaxBytes)), wanted: fmt.Sprint(k.MaxBytes), flag: fmt.Sprintf("--max-bytes %d", k.MaxBytes),
			removes: c.MaxBytes <= 0 || c.MaxBytes > k.MaxBytes,
		})
	}
	if k.Duplicates > 0 && c.Duplicates != k.Duplicates {
		list = append(list, difference{
			setting: option.NATSStreamDuplicateWindow, is: "a duplicate window of " + brief(c.Duplicates), wanted: brief(k.Duplicates), flag: "--dupe-window " + brief(k.Duplicates),
		})
	}
	return list
}

func storageName(s jetstream.StorageType) string {
	if s == jetstream.MemoryStorage {
		return "memory"
	}
	return "file"
}

func limitText(limited bool, text string) string {
	if limited {
		return text
	}
	return "unlimited"
}

// bucketReplicas is how many replicas a bucket has where there are so many servers.
const bucketReplicas = 3

// checkKeeping finds how a stream differs from what is given. Nobody but a person changes it.
func (i *inspection) checkKeeping(c *jetstream.StreamConfig) {
	subject, keeps := "stream "+c.Name, i.options.Keeps
	if i.options.Bucket != "" && keeps.Replicas == 0 && len(i.nc.Servers()) >= bucketReplicas {
		// One was away when the bucket was made, or they are new.
		keeps.Replicas = bucketReplicas
	}
	for _, d := range keeps.differences(c) {
		found := i.Add(inspect.Warning, inspect.StreamDiffers, subject, fmt.Sprintf("has %s, not %s: bridge changes no stream that is there", d.is, d.wanted))
		switch {
		case d.flag == "":
			found.Says("the storage of a stream cannot be changed: correct %s, or make a new one", d.setting).Types("%s", i.create(c.Name+"_2", c.Subjects))
		case d.removes:
			found.Says("correct %s, or change the stream, which removes the messages beyond the limit", d.setting).
				Types("nats --server %s stream edit %s %s -f", i.at, c.Name, d.flag)
		default:
			found.Says("correct %s, or change the stream", d.setting).Types("nats --server %s stream edit %s %s -f", i.at, c.Name, d.flag)
		}
	}
}
