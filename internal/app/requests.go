package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"bridge/internal/config"
	"bridge/internal/httpapi"
	"bridge/internal/option"
	"bridge/internal/shard"
	"bridge/internal/standby"
	"bridge/internal/tap"
	"bridge/reconcile"
)

// Working implements httpapi.Daemon.
func (h health) Working() (httpapi.Peer, error) {
	if h.member == nil {
		return httpapi.Peer{Self: true}, nil
	}
	s := h.member.Status()
	return peerOf(&s)
}

// peerOf returns the process of a group that works.
func peerOf(s *standby.Status) (httpapi.Peer, error) {
	peer := httpapi.Peer{Self: s.Works, Member: s.Working.Member, Name: worker(s), Addr: s.Working.Addr, TLS: s.Working.TLS}
	switch {
	case s.Works:
		peer.Member = s.Member
		return peer, nil
	case peer.Member == "":
		return peer, errors.New("this process waits as a standby, and which one works is not known now: ask again when one does (bridge status)")
	case peer.Addr == "":
		return peer, fmt.Errorf("%s works and listens nowhere, as a command does that a person has typed: ask again when it has ended", peer.Name)
	case onlyOwnHost(peer.Addr) && s.Working.Host != s.Host:
		return peer, fmt.Errorf("%s works and listens at %s, where only its own host reaches it: run the command there, or set %s to :8080, say, in all processes", peer.Name, peer.Addr, config.HTTPVariable)
	}
	return peer, nil
}

// Reconcile implements httpapi.Daemon. If deletes are allowed, a shard that stopped because its ids
// are used again resumes.
func (h health) Reconcile(stream string, mode reconcile.Mode) (httpapi.Accepted, error) {
	if _, err := h.stream(stream); err != nil {
		return httpapi.Accepted{}, err
	}
	able, why := 0, ""
	for _, sh := range h.shards {
		s := sh.Status()
		if s.Stream != stream {
			continue
		}
		if s.State == shard.Stopped && !(mode.AllowDeletes && !mode.DryRun && sh.Accept()) {
			why = fmt.Sprintf("%s is stopped: %s", s.Shard, s.LastError)
			continue
		}
		able++
	}
	if able == 0 {
		return httpapi.Accepted{}, fmt.Errorf("stream %s %w: %s", stream, httpapi.ErrCannotReconcile, why)
	}
	return httpapi.Accepted{
		Stream: stream, Shards: h.scheduler.Request(stream, mode),
		DryRun: mode.DryRun, AllowDeletes: mode.AllowDeletes, Started: h.started.UTC(),
	}, nil
}

// Tail implements httpapi.Daemon.
func (h health) Tail(stream string) (*tap.Listener, error) {
	if stream != "" {
		s, err := h.stream(stream)
		if err != nil {
			return nil, err
		}
		stream = s.Name
	}
	return h.tap.Listen(stream)
}

// stream returns the stream with this name, or ErrNoStream.
func (h health) stream(name string) (*config.Stream, error) {
	if s := h.opts.Config.Stream(name); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%w as %.100q: there are %s", httpapi.ErrNoStream, name, strings.Join(h.opts.Config.StreamNames(), ", "))
}

// Resend implements httpapi.Daemon.
func (h health) Resend(ctx context.Context, request httpapi.ResendRequest) ([]shard.ResendOutcome, error) {
	stream, err := h.stream(request.Stream)
	if err != nil {
		return nil, err
	}
	if stream.DeadLetter == "" {
		return nil, fmt.Errorf("stream %s %w: %s is not set, so a row that is refused again would stop it",
			stream.Name, httpapi.ErrCannotResend, config.Naming("")(option.DeadLetter))
	}
	for _, sh := range h.shards {
		s := sh.Status()
		switch {
		case s.Stream != stream.Name || s.Shard != request.Shard:
		case s.State == shard.Stopped:
			return nil, fmt.Errorf("%s %w: it is stopped: %s", s.Shard, httpapi.ErrCannotResend, s.LastError)
		default:
			outcomes, err := sh.Resend(ctx, request.DeadLetters, request.DryRun)
			if err != nil && ctx.Err() == nil {
				err = fmt.Errorf("%s %w: %s", s.Shard, httpapi.ErrCannotResend, config.StreamText(stream.Name)(err))
			}
			return outcomes, err
		}
	}
	return nil, fmt.Errorf("%w with a table %.100q: stream %s has %s", httpapi.ErrNoStream, request.Shard, stream.Name, strings.Join(stream.Tables, ", "))
}
