package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

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
