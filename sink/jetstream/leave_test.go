package jetstream_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"bridge/tests/testenv"
)

// sharedLog is a log that is read while it is written.
type sharedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *sharedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *sharedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestAFaultThatIsLeftHasNotEnded: who stops while a full stream refuses messages reads no line
// that the outage has ended.
func TestAFaultThatIsLeftHasNotEnded(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	for name, exactly := range map[string]bool{"one by one": false, "in atomic batches": true} {
		t.Run(name, func(t *testing.T) {
			_, options := claimed(t, server, natsjs.StreamConfig{MaxMsgs: 2, Discard: natsjs.DiscardNew})
			if !exactly {
				options.Claim = ""
			}
			log := new(sharedLog)
			options.Logger = slog.New(slog.NewTextHandler(log, nil))
			s := open(t, options)
			if exactly {
				mustFence(t, s)
			}
			ctx, leave := context.WithCancel(deadline(t, time.Minute))
			left := make(chan struct{})
			go func() {
				defer close(left)
				_, _ = s.Publish(ctx, messages(options.Stream+".a", "much", 10, 1)) // cancelled
			}()
			eventually(t, time.Minute, "the stream refuses messages", func() bool { return len(s.Outages()) > 0 })
			leave()
			<-left
			if !exactly {
				eventually(t, time.Minute, "nobody waits", func() bool { return len(s.Outages()) == 0 })
			}
			if text := log.String(); strings.Count(text, "outage begins") != 1 || strings.Contains(text, "outage ended") {
				t.Errorf("the log:\n%s", text)
			}
		})
	}
}
