package logburst_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/internal/logburst"
)

// buffer is what is logged. A window ends in a goroutine of its own.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
}

// newLog returns a logger with bursts of three lines, and what it has written.
func newLog() (*slog.Logger, *logburst.Handler, *buffer) {
	var out buffer
	h := logburst.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && groups == nil {
			return slog.Attr{}
		}
		return a
	}}), logburst.Options{Lines: 3, Window: time.Second})
	return slog.New(h), h, &out
}

func TestManyShardsAreOneLineAndACount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _, out := newLog()
		log = log.With("stream", "orders")
		for i := range 1000 {
			log.With("shard", fmt.Sprint("orders_", i)).Error("shard stopped", "error", errors.New("no topic"))
		}
		if n := strings.Count(out.String(), "\n"); n != 3 {
			t.Fatalf("%d lines before the window ends, want 3:\n%s", n, out)
		}
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		const want = `level=ERROR msg="shard stopped" stream=orders more_shards=997 among="[orders_3 orders_4 orders_5 orders_6 orders_7 orders_8 orders_9 orders_10 orders_11 orders_12]" error="no topic"`
		if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 4 || lines[3] != want {
			t.Errorf("the log:\n%s\nwant at its end\n%s", out, want)
		}
		// The next burst has lines of its own.
		out.Reset()
		log.With("shard", "orders_7").Error("shard stopped")
		if !strings.Contains(out.String(), "shard=orders_7") {
			t.Errorf("after the window:\n%s", out)
		}
	})
}

func TestWhatIsNoBurstPassesAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, h, out := newLog()
		for i := range 10 {
			log.Info("no shard", "n", i)
			log.Info("one shard again", "shard", "a")
			log.Info("another message each time "+fmt.Sprint(i), "shard", fmt.Sprint(i))
			log.Info("another stream each time", "stream", fmt.Sprint(i), "shard", "a")
			log.Warn("row put aside", "shard", fmt.Sprint(i), "id", i)
			log.WithGroup("g").Info("a group names no shard", "shard", fmt.Sprint(i))
		}
		h.Flush()
		if n := strings.Count(out.String(), "\n"); n != 60 {
			t.Errorf("%d lines, want 60:\n%s", n, out)
		}
	})
}

func TestFlushTellsWhatIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, h, out := newLog()
		for range 2 {
			for i := range 5 {
				log.Warn("waits", "shard", fmt.Sprint(i))
			}
		}
		h.Flush()
		h.Flush()
		if n := strings.Count(out.String(), "more_shards=2"); n != 1 || strings.Count(out.String(), "\n") != 7 {
			t.Errorf("two shards have no line of their own:\n%s", out)
		}
	})
}
