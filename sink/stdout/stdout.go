package stdout

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/bus"
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
	// turn is held by the one who writes, which outlives the Publish that began it.
	turn chan struct{}

	// life ends with Close.
	life context.Context
	end  context.CancelFunc

	mu sync.Mutex
	// broken is the final error of the writer.
	broken error
}

// Open returns a sink.
func Open(options Options) (*Sink, error) {
	if options.Writer == nil {
		return nil, errors.New("stdout: no writer")
	}
	options.Logger = cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	s := &Sink{writer: options.Writer, faults: outage.New(options.Logger), hook: options.Fault, turn: make(chan struct{}, 1)}
	s.life, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Publish prints batch as [sink.Sink] says. Its error may also be the final one of the writer. A
// writer that blocks does not keep a cancelled Publish; what it had begun is then still written to
// its end.
func (s *Sink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	out := sink.Outcome{Status: make([]sink.Status, len(batch))}
	ctx, cancel := bus.Within(ctx, s.life)
	defer cancel()
	release, err := backoff.Acquire(ctx, s.turn)
	if err != nil {
		return out, err
	}
	if err := s.err(ctx); err != nil || len(batch) == 0 {
		release()
		return out, err
	}
	text, ends := linesOf(batch)
	written := make(chan int, 1)
	go func() {
		defer release()
		written <- s.write(text)
	}()
	select {
	case n := <-written:
		for i, end := range ends {
			if end <= n {
				out.Status[i] = sink.Acked
			}
		}
	case <-ctx.Done():
	}
	if out.AllAcked() {
		return out, nil
	}
	return out, s.err(ctx)
}

// linesOf returns the events of a batch, one a line, and where each ends.
func linesOf(batch []sink.Message) (text []byte, ends []int) {
	for i := range batch {
		begin := len(text)
		value := batch[i].Value
		if batch[i].Format == sink.FormatPayload && !json.Valid(value) {
			// A text can always be encoded.
			value, _ = json.Marshal(string(value))
		}
		text = append(text, value...)
		// In JSON a raw line break can only be white space between tokens.
		for line := text[begin:]; ; {
			at := bytes.IndexAny(line, "\n\r")
			if at < 0 {
				break
			}
			line[at] = ' '
			line = line[at+1:]
		}
		text = append(text, '\n')
		ends = append(ends, len(text))
	}
	return text, ends
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

// write writes a text to its end, and returns how much the writer has taken. The turn is held.
func (s *Sink) write(text []byte) int {
	var pause backoff.Backoff
	for rest := text; ; {
		n, err := s.writer.Write(rest)
		rest = rest[n:]
		if err == nil && len(rest) > 0 {
			err = io.ErrShortWrite
		}
		if f, ok := s.writer.(interface{ Flush() error }); ok && err == nil {
			err = f.Flush()
		}
		switch {
		case err == nil:
			s.faults.OK(tp)
			return len(text)
		case !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) && !errors.Is(err, syscall.EAGAIN):
			// It does not pass when somebody makes room.
			s.mu.Lock()
			defer s.mu.Unlock()
			s.broken = fmt.Errorf("print events: %w", err)
			return len(text) - len(rest)
		}
		s.faults.Fail(tp, err)
		s.hook.Fail("", tp, err)
		if pause.Wait(s.life) != nil {
			return 0
		}
	}
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if release, err := backoff.Acquire(ctx, s.turn); err == nil {
		release()
	}
	s.faults.Close()
	return nil
}
