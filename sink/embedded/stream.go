package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"bridge/sink"
)

// widen adds the subjects that an existing stream lacks: nobody else looks after the streams of
// this server.
func widen(ctx context.Context, s *server.Server, o Options) (err error) {
	if o.Stream == "" {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, errors.New("the server does not answer"))
	defer cancel()
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.Name("bridge"))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, o.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the stream %s: %w", o.Stream, err)
	}
	config := stream.CachedInfo().Config
	lacks := slices.DeleteFunc(slices.Clone(o.Subjects), func(s string) bool {
		return slices.ContainsFunc(config.Subjects, func(pattern string) bool { return sink.Covers(pattern, s) })
	})
	if len(lacks) == 0 {
		return nil
	}
	// Subjects of one stream must not overlap.
	config.Subjects = append(slices.DeleteFunc(config.Subjects, func(s string) bool {
		return slices.ContainsFunc(lacks, func(pattern string) bool { return sink.Covers(pattern, s) })
	}), lacks...)
	if _, err := js.UpdateStream(ctx, config); err != nil {
		return fmt.Errorf("add the subjects %s to the stream %s: %w", strings.Join(lacks, ", "), o.Stream, err)
	}
	o.Logger.Info("added subjects to the stream", "stream", o.Stream, "subjects", lacks)
	return nil
}

// tryEvery is the pause between two attempts to switch JetStream on again.
const tryEvery = 2 * time.Second

// stores reports whether JetStream is on and has written all that it wanted to.
func (s *Sink) stores() bool { return s.server.JetStreamEnabled() && !s.log.broken.Load() }

// watch restarts JetStream whenever the server has switched it off or has given up a stream, as
// it does when the disk is full.
func (s *Sink) watch(ctx context.Context) {
	tick := time.NewTicker(tryEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if s.stores() {
			continue
		}
		err := s.room()
		if err == nil && s.server.JetStreamEnabled() {
			err = s.server.ShutdownJetStream()
		}
		if err == nil {
			s.log.broken.Store(false)
			err = s.gate.quiet(func() error {
				return s.server.EnableJetStream(&server.JetStreamConfig{StoreDir: s.dir, MaxStore: maxStore, SyncAlways: true})
			})
		}
		if err != nil {
			s.log.logger.Warn("the NATS server inside the process cannot store messages, what is to be published waits", "error", err)
			continue
		}
		s.log.logger.Info("the NATS server inside the process stores messages again")
	}
}

// room returns an error while the disk is full.
func (s *Sink) room() error {
	if err := probe(s.lock.file); err != nil {
		return fmt.Errorf("write to %s: %w", s.dir, err)
	}
	return nil
}
