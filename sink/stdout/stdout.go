package stdout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/outage"
	"example.org/bridge/sink"
)

var _ sink.Sink = (*Sink)(nil)

// tp stands for a TP in faults.
const tp = "stdout"

// Options configure a sink.
type Options struct {
	// Writer takes the lines. Where it has a method Flush() error, that is called after each batch.
	// It is not closed.
	Writer io.Writer
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Fault is called for every transient fault. Optional.
	Fault sink.Fault
}

// Sink prints events.
type Sink struct {
	writer io.Writer
	faults *outage.Log
	hook   sink.Fault
	jobs   chan *job

	// life ends with Close; writing outlives the Publish that began it.
	life    context.Context
	end     context.CancelFunc
	running chan struct{}

	mu sync.Mutex
	// broken is the final error of the writer.
	broken error
}

// Open starts a sink.
func Open(options Options) (*Sink, error) {
	if options.Writer == nil {
		return nil, errors.New("stdout: no writer")
	}
	options.Logger = cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	if options.Fault == nil {
		options.Fault = func(string, error) {}
	}
	s := &Sink{
		writer: options.Writer, faults: outage.New(options.Logger), hook: options.Fault,
		jobs: make(chan *job), running: make(chan struct{}),
	}
	s.life, s.end = context.WithCancel(context.Background())
	go s.run()
	return s, nil
}

// Publish prints batch as [sink.Sink] says. Its error may also be the final one of the writer. A
// writer that blocks does not keep a cancelled Publish; what it had begun is then still written to
// its end.
func (s *Sink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	j := newJob(ctx, batch)
	if err := s.err(ctx); err != nil || len(batch) == 0 {
		return j.outcome(), err
	}
	select {
	case s.jobs <- j:
	case <-ctx.Done():
		return j.outcome(), context.Cause(ctx)
	case <-s.life.Done():
		return j.outcome(), sink.ErrClosed
	}
	select {
	case <-j.done:
	case <-ctx.Done():
	case <-s.life.Done():
	}
	out := j.outcome()
	if out.AllAcked() {
		return out, nil
	}
	return out, s.err(ctx)
}

// err returns why nothing is printed any more.
func (s *Sink) err(ctx context.Context) error {
	if s.life.Err() != nil {
		return sink.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	return context.Cause(ctx)
}

// run writes one job after the other.
func (s *Sink) run() {
	defer close(s.running)
	for {
		select {
		case j := <-s.jobs:
			s.write(j)
			close(j.done)
		case <-s.life.Done():
			return
		}
	}
}

// write writes a job whose caller is still there, to its end.
func (s *Sink) write(j *job) {
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	if broken != nil || j.ctx.Err() != nil {
		return
	}
	var pause backoff.Backoff
	for rest := j.text; ; {
		n, err := s.writer.Write(rest)
		rest = rest[n:]
		if err == nil && len(rest) > 0 {
			err = io.ErrShortWrite
		}
		if err == nil {
			err = s.flush()
		}
		if err == nil {
			j.wrote(len(j.text))
			s.faults.OK(tp)
			return
		}
		if !full(err) {
			j.wrote(len(j.text) - len(rest))
			s.breakOff(err)
			return
		}
		s.faults.Fail(tp, err)
		s.hook(tp, err)
		if pause.Wait(s.life) != nil {
			return
		}
	}
}

func (s *Sink) flush() error {
	if f, ok := s.writer.(interface{ Flush() error }); ok {
		return f.Flush()
	}
	return nil
}

// full reports whether err passes when somebody makes room.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EAGAIN)
}

func (s *Sink) breakOff(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = fmt.Errorf("print events: %w", err)
}

// Ready returns nil while the writer takes lines.
func (s *Sink) Ready(ctx context.Context) error {
	if err := s.err(ctx); err != nil {
		return err
	}
	return s.faults.Err()
}

// Close ends the Publish calls under way. It waits a second at most for a Write that blocks.
func (s *Sink) Close() error {
	s.end()
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-s.running:
	case <-timer.C:
	}
	s.faults.Close()
	return nil
}
