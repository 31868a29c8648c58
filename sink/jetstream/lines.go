package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"bridge/sink"

	"github.com/nats-io/nats.go"
)

const (
	// shortLine is a length of lines that every server takes: CONNECT needs about as much.
	shortLine = 256
	// usualLine is max_control_line of a server by default.
	usualLine = 4096
	// linesFor is how long it is believed that a server refuses a line: the limit may be changed.
	linesFor = time.Minute
	// probes that end without an answer prove that the server refuses the line: it may close the
	// connection before its reason is read.
	probes = 3
)

// lines finds out how long a line of the protocol may be (max_control_line). The server does not
// tell, and closes a connection with a longer one, which all streams share: it is asked over
// another connection.
type lines struct {
	dial func(ctx context.Context) (*nats.Conn, error)

	mu sync.Mutex
	// taken is the length of the longest line that the server is known to take. exact says that it
	// takes no longer ones, as was seen at the time asked.
	taken int
	exact bool
	asked time.Time
}

// limit returns the length of the longest line that may be sent. Lines up to need are then taken,
// or exact is true: longer ones than the limit are refused. Where no second connection can be made
// the server counts as one with the default.
func (l *lines) limit(ctx context.Context, need int) (limit int, exact bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.exact && time.Since(l.asked) >= linesFor {
		l.exact = false
	}
	if need <= l.taken || l.exact {
		return l.taken, l.exact, nil
	}
	low, high := l.taken, need+1
	for try := need; low+1 < high; {
		takes, err := l.probe(ctx, try)
		switch {
		case ctx.Err() != nil:
			return low, false, context.Cause(ctx)
		case err != nil:
			return max(low, usualLine), true, nil
		case takes:
			low = try
		default:
			high = try
		}
		// Most often it is the default.
		switch {
		case low < usualLine && usualLine < high:
			try = usualLine
		case low == usualLine && high > usualLine+1:
			try = usualLine + 1
		default:
			try = (low + high) / 2
		}
	}
	l.taken, l.exact, l.asked = low, low < need, time.Now()
	return l.taken, l.exact, nil
}

// probe reports whether the server takes a line of n bytes. An error says that it cannot be asked.
func (l *lines) probe(ctx context.Context, n int) (takes bool, err error) {
	for range probes {
		nc, err := l.dial(ctx)
		if err != nil {
			return false, err
		}
		answers := subscribes(nc, n)
		reason := nc.LastError()
		nc.Close()
		if answers || reason != nil && strings.Contains(reason.Error(), "control line") {
			return answers, nil
		}
	}
	return false, nil
}

// subscribes sends a line of n bytes, which has no effect, and reports whether the server goes on.
func subscribes(nc *nats.Conn, n int) bool {
	// The line is: subject, an empty group, and the number 1.
	subject := nc.NewInbox() + "."
	subject += strings.Repeat("x", max(n-len("  1")-len(subject), 1))
	if _, err := nc.SubscribeSync(subject); err != nil {
		return false
	}
	return nc.FlushTimeout(requestTimeout) == nil
}

// lineOf returns the length of the line with which m is published, at most.
func lineOf(m *sink.Message) int {
	const inbox, token, headers, all = 7 + 22 + 1, 20, 5, 8
	return len(m.Destination) + inbox + token + headers + all + len("   ")
}

// errNoLines is the error of a connection that is gone.
var errNoLines = errors.New("the connection is gone")

// again returns a connection like that of s, to the same server.
func (c *connector) again(s *session) func(ctx context.Context) (*nats.Conn, error) {
	return func(ctx context.Context) (*nats.Conn, error) {
		options, err := c.options.login()
		if err != nil {
			return nil, err
		}
		servers := bare(c.options.URLs)
		if c.options.InProcess == nil {
			servers = bare([]string{s.nc.ConnectedUrl()})
		}
		if !s.alive() {
			return nil, errNoLines
		}
		return dial(ctx, servers, options)
	}
}

// measure sets how long lines may be, of which the longest has need bytes.
func (l *limits) measure(ctx context.Context, s *session, need int) error {
	line, exact, err := s.lines.limit(ctx, need)
	l.line, l.guess = line, !exact
	return err
}

// tooLong says why a message whose line has n bytes is refused.
func (l limits) tooLong(n int) string {
	return fmt.Sprintf("its subject makes a line of %d bytes, and the NATS server takes %d (max_control_line)", n, l.line)
}
