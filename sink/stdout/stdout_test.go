package stdout_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/sink"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/sink/stdout"
	"example.org/bridge/tests/must"
)

// page is a writer that several goroutines may use and that fails on demand.
type page struct {
	mu   sync.Mutex
	text bytes.Buffer
	// stalled is not nil while Write blocks.
	stalled chan struct{}
	// fail is asked before each write: how many bytes to take, and the error.
	fail func(n int) (int, error)
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	stalled := p.stalled
	p.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		if n, err := p.fail(len(b)); err != nil {
			p.text.Write(b[:n])
			return n, err
		}
	}
	return p.text.Write(b)
}

func (p *page) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := strings.TrimSuffix(p.text.String(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func (p *page) stall(testing.TB) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = make(chan struct{})
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(p.stalled)
		p.stalled = nil
	})
}

func open(t *testing.T, w io.Writer) *stdout.Sink {
	t.Helper()
	s := must.Get(stdout.Open(stdout.Options{Writer: w}))(t)
	t.Cleanup(func() { must.OK(t, s.Close()) })
	return s
}

func TestConformance(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Fixture {
		p := &page{}
		return sinktest.Fixture{
			Sink: open(t, p), Destinations: []string{"stdout"}, Stall: p.stall,
			Read: func(t testing.TB, _ string) []sinktest.Record {
				var records []sinktest.Record
				for _, line := range p.lines() {
					var event struct {
						Meta struct{ ID string }
					}
					if err := json.Unmarshal([]byte(line), &event); err != nil {
						t.Fatalf("line %q: %v", line, err)
					}
					records = append(records, sinktest.Record{ID: event.Meta.ID, Value: []byte(line)})
				}
				return records
			},
		}
	})
}

func batch(values ...string) []sink.Message {
	var b []sink.Message
	for _, v := range values {
		b = append(b, sink.Message{Value: []byte(v)})
	}
	return b
}

func TestFaults(t *testing.T) {
	t.Run("a full disk is waited for and no line is torn", func(t *testing.T) {
		calls := 0
		p := &page{fail: func(int) (int, error) {
			if calls++; calls <= 2 {
				return 3, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
			}
			return 0, nil
		}}
		s := open(t, p)
		out, err := s.Publish(t.Context(), batch(`{"a":1}`, `{"b":2}`))
		if err != nil || !out.AllAcked() {
			t.Fatalf("%d acknowledged: %v", out.Acked(), err)
		}
		if got := strings.Join(p.lines(), "|"); got != `{"a":1}|{"b":2}` {
			t.Errorf("printed %s", got)
		}
		must.OK(t, s.Ready(t.Context()))
	})

	t.Run("a reader that is gone is final and whole lines count", func(t *testing.T) {
		p := &page{fail: func(int) (int, error) { return 10, syscall.EPIPE }}
		s := open(t, p)
		out, err := s.Publish(t.Context(), batch(`{"a":1}`, `{"b":2}`))
		if !errors.Is(err, syscall.EPIPE) || out.Status[0] != sink.Acked || out.Status[1] != sink.Pending {
			t.Fatalf("the outcome is %+v, %v", out, err)
		}
		must.Fail(t, must.Err(s.Publish(t.Context(), batch(`{"c":3}`))), syscall.EPIPE)
		must.Fail(t, s.Ready(t.Context()), syscall.EPIPE)
	})

	t.Run("a disk that stays full can be given up", func(t *testing.T) {
		p := &page{fail: func(int) (int, error) { return 0, syscall.ENOSPC }}
		s := open(t, p)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		out, err := s.Publish(ctx, batch(`{"a":1}`))
		if !errors.Is(err, context.DeadlineExceeded) || out.Acked() != 0 {
			t.Fatalf("the outcome is %+v, %v", out, err)
		}
		must.Fail(t, s.Ready(t.Context()), syscall.ENOSPC)
	})
}

func TestPrinting(t *testing.T) {
	t.Run("an event of several lines is printed as one", func(t *testing.T) {
		p := &page{}
		must.Get(open(t, p).Publish(t.Context(), batch("{\n \"a\":\r\n1}")))(t)
		if got := p.lines(); len(got) != 1 || got[0] != `{  "a":  1}` {
			t.Errorf("printed %q", got)
		}
	})

	t.Run("a buffer is flushed after each batch", func(t *testing.T) {
		p := &page{}
		must.Get(open(t, bufio.NewWriter(p)).Publish(t.Context(), batch(`{"a":1}`)))(t)
		if got := p.lines(); len(got) != 1 {
			t.Errorf("printed %q", got)
		}
	})

	t.Run("a sink needs a writer", func(t *testing.T) {
		if _, err := stdout.Open(stdout.Options{}); err == nil {
			t.Error("Open returns no error")
		}
	})
}
