package logburst_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bridge/internal/logburst"
)

// newLog returns a logger with bursts of three lines, and what it has written.
func newLog() (*slog.Logger, *logburst.Handler, *bytes.Buffer) {
	var out bytes.Buffer
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
		const want = `level=ERROR msg="shard stopped" stream=orders more_shards=997 error="no topic"`
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
			log.WithGroup("g").Info("a group names no shard", "shard", fmt.Sprint(i))
		}
		h.Flush()
		if n := strings.Count(out.String(), "\n"); n != 50 {
			t.Errorf("%d lines, want 50:\n%s", n, out)
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
