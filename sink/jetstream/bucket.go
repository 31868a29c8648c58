package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// createBucket makes the stream of a KV bucket, as clients of NATS make it. Where there are fewer
// servers than replicas, it has one.
func createBucket(ctx context.Context, js jetstream.JetStream, o *Options, name string) (stream jetstream.Stream, err error) {
	const replicas = 3
	for _, n := range []int{replicas, 1} {
		stream, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: name, Subjects: o.Subjects, Storage: jetstream.FileStorage, Replicas: n, Duplicates: o.Duplicates,
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, AllowDirect: true,
		})
		var api *jetstream.APIError
		if !errors.As(err, &api) || api.ErrorCode != replicasNotSupported && api.ErrorCode != noSuitablePeers {
			break
		}
	}
	return stream, err
}

// Answers to more replicas than there are servers.
const (
	replicasNotSupported jetstream.ErrorCode = 10074
	noSuitablePeers      jetstream.ErrorCode = 10005
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
