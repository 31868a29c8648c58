package server

import (
	"context"
	"sort"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// flushWithin is how long a server may take to answer a ping behind a line.
const flushWithin = 2 * time.Second

// LongestLine returns how long a line of the protocol the server takes, from least to most. A
// server does not tell (max_control_line), and closes a connection with a longer one: so lines are
// tried on connections of their own, once a session. Where that shows nothing it is most.
func (s *Session) LongestLine(ctx context.Context, least, most int) int {
	s.lines.Lock()
	defer s.lines.Unlock()
	if s.longest == 0 {
		s.longest = most
		if s.refusesLine(ctx, most) {
			s.longest = least + sort.Search(most-least-1, func(n int) bool { return s.refusesLine(ctx, least+n+1) })
		}
	}
	return s.longest
}

// refusesLine reports whether the server closes a connection for a line of so many bytes.
func (s *Session) refusesLine(ctx context.Context, n int) bool {
	// Without a handler nats.go writes errors to stderr.
	silent := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	nc, err := s.options.Dial(ctx, append([]string{s.NC.ConnectedUrl()}, s.options.URLs...), nats.DontRandomize(), silent)
	if err != nil {
		return false
	}
	defer nc.Close()
	const begin, end = "_INBOX.", " 0"
	if err := nc.Publish(begin+strings.Repeat("x", n-len(begin)-len(end)), nil); err != nil {
		return false
	}
	if nc.FlushTimeout(flushWithin) == nil {
		return false
	}
	err = nc.LastError()
	return err != nil && strings.Contains(strings.ToLower(err.Error()), "maximum control line")
}
