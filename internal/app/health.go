package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/stream"
	"example.org/bridge/internal/tap"
	"example.org/bridge/reconcile"
)

type health struct{ *App }

var _ httpapi.Daemon = health{}

// heartbeatLimit is how long a loop may hang. It shows a heartbeat every few seconds, also while it
// waits.
const heartbeatLimit = time.Minute

func (h health) Live() error {
	since, _, _ := h.swap.under()
	switch limit := h.opts.Config.ShutdownTimeout + heartbeatLimit; {
	case since > limit:
		return fmt.Errorf("a reload of the configuration has not ended for %s", since.Round(time.Second))
	case since > 0:
		return nil
	}
	for _, sh := range h.shards {
		if err := heartbeat(sh.Status()); err != nil {
			return err
		}
	}
	for _, r := range h.reconcilers {
		if err := reconciles(r.Status()); err != nil {
			return err
		}
	}
	return nil
}

func heartbeat(s shard.Status) error {
	if still := time.Since(s.LastHeartbeat); still > heartbeatLimit {
		return fmt.Errorf("the %s of shard %s of stream %s has shown no heartbeat for %s", s.Loop, s.Shard, s.Stream, still.Round(time.Second))
	}
	return nil
}

func reconciles(s reconcile.Status) error {
	if still := s.Still(); still > heartbeatLimit+reconcile.TryLimit {
		return fmt.Errorf("the reconcile of shard %s of stream %s has been at one read or save for %s", s.Shard, s.Stream, still.Round(time.Second))
	}
	return nil
}

func (a *App) probe(ctx context.Context) (fromSources []error, fromSink error) {
	var asked sync.WaitGroup
	asked.Go(func() { fromSink = a.sinkProbe.Do(ctx) })
	fromSources = a.sources.each(func(d *database) error { return d.probe.Do(ctx) })
	asked.Wait()
	return fromSources, fromSink
}

// Ready implements httpapi.Daemon. During a reload a process that was ready stays so.
func (h health) Ready(ctx context.Context) []httpapi.Reason {
	since, starting, failed := h.swap.under()
	switch {
	case failed != nil:
		return []httpapi.Reason{{Reason: "neither the new configuration nor the former one can be opened, bridge tries again: " + config.Text(failed)}}
	case since > 0 && starting:
		// Source and sink are closed and opened.
		return nil
	case since > 0:
		return []httpapi.Reason{{Reason: "the configuration is being reloaded"}}
	}
	fromSources, fromSink := h.probe(ctx)
	return h.reasons(fromSources, fromSink, starting)
}

// reasons is Ready with the answers of sources and sink. starting leaves out that tables were not
// read yet, and that streams catch up.
func (h health) reasons(fromSources []error, fromSink error, starting bool) []httpapi.Reason {
	var reasons []httpapi.Reason
	for i, d := range h.sources.all {
		if err := fromSources[i]; err != nil {
			reasons = append(reasons, httpapi.Reason{Reason: d.Label() + ": " + config.Text(err)})
		}
	}
	if fromSink != nil {
		reasons = append(reasons, httpapi.Reason{Reason: "sink: " + config.Text(fromSink)})
	}
	for _, fault := range h.faults.Outages() {
		i := h.sources.withOutage(fault)
		known := i >= 0 && fromSources[i] != nil || strings.HasSuffix(fault.Dependency, outage.Probed) && fromSink != nil
		if !known {
			reasons = append(reasons, httpapi.Reason{Reason: config.Text(fault)})
		}
	}
	caught := h.recovery.Progress()
	if caught.Superseded != nil {
		// Its shards say no more.
		return append(reasons, httpapi.Reason{Reason: config.Text(caught.Superseded)})
	}
	behind := behind(caught.Streams, starting)
	if s := h.waiting(); s != nil {
		if reasons = append(reasons, behind...); len(s.Differing) > 0 {
			reasons = append(reasons, httpapi.Reason{Reason: fmt.Sprintf("standby: %s works with another configuration, so this process does not take over: make these the same, or stop the others: %s",
				&s.Other, strings.Join(s.Differing, ", "))})
		}
		return reasons
	}
	shards := slices.DeleteFunc(h.snapshots((*shard.Shard).Status), func(s shard.Status) bool {
		return starting && s.State == shard.Starting ||
			slices.ContainsFunc(behind, func(r httpapi.Reason) bool { return r.Stream == s.Stream })
	})
	known := len(reasons) > 0
	for _, s := range h.streams {
		if why, waits := h.noTables(s); waits {
			reasons = append(reasons, httpapi.Reason{Stream: s.Name, Reason: why})
		}
	}
	return append(append(reasons, behind...), unready(shards, known)...)
}

// behind returns the reasons why streams have not caught up; starting leaves out those that catch
// up.
func behind(streams []stream.StreamProgress, starting bool) []httpapi.Reason {
	var reasons []httpapi.Reason
	for i := range streams {
		s := &streams[i]
		why := ""
		switch {
		case s.Err != nil:
			why = config.StreamText(s.Stream)(s.Err)
		case s.Following, starting:
			continue
		case !s.Ready:
			why = fmt.Sprintf("catches up from the bus: %d messages read, %d offsets left", s.Messages, s.Left)
			if s.SecondsLeft > 0 {
				why += fmt.Sprintf(", about %s", time.Duration(s.SecondsLeft*float64(time.Second)).Round(time.Second))
			}
		default:
			continue
		}
		reasons = append(reasons, httpapi.Reason{Stream: s.Stream, Reason: why})
	}
	return reasons
}

// unready returns the reasons why shards are not ready. known says that the reasons already name
// the outages that shards wait for.
func unready(shards []shard.Status, known bool) []httpapi.Reason {
	var reasons []httpapi.Reason
	for i := range shards {
		s := &shards[i]
		var why null.Text
		switch {
		case s.State == shard.Stopped:
			why = s.LastError
		case s.State == shard.Starting:
			why = "has not been read since the start"
		case s.Reconcile.Guard != "":
			why = s.Reconcile.Guard
		case s.State == shard.Waiting && !known:
			why = s.LastError
		}
		if why != "" {
			reasons = append(reasons, httpapi.Reason{Stream: s.Stream, Shard: s.Shard, Reason: string(why)})
		}
	}
	return reasons
}

func (h health) snapshots(of func(*shard.Shard) shard.Status) []shard.Status {
	snapshots := make([]shard.Status, len(h.shards))
	for i, sh := range h.shards {
		compared := h.reconcilers[i].Status()
		snapshots[i] = of(sh)
		snapshots[i].Reconcile = &compared
	}
	return snapshots
}

func (h health) Status() httpapi.Status {
	status := statusOf(h.streams, h.recovery.Progress(), h.snapshots((*shard.Shard).FullStatus))
	works := h.waiting() == nil
	for i, s := range h.streams {
		of := &status.Streams[i]
		of.Resendable = s.DeadLetter != "" && h.opts.Config.Sink.Readable()
		if works {
			why, _ := h.noTables(s)
			of.Reason = null.Text(why)
		}
	}
	if h.copies != nil {
		for i, s := range h.copies.Status() {
			status.Streams[i].Progress = &s
		}
	}
	status.Started, status.Delivery, status.Standby = h.started.UTC(), h.opts.Config.Sink.Delivery(), h.group()
	status.Version = h.opts.Build.Version
	if s := h.opts.Config.Share.Share; s.One() {
		status.Share = &s
	}
	h.addDependencies(&status)
	h.nameWaits(&status)
	return status
}

func (h health) Working() (httpapi.Peer, error) {
	if s := h.group(); s != nil {
		return peerOf(s)
	}
	return httpapi.Peer{Self: true}, nil
}

func peerOf(s *standby.Status) (httpapi.Peer, error) {
	peer := httpapi.Peer{Self: s.Works, Member: s.Claim.Member, Name: worker(s), Addr: s.Claim.Addr, TLS: s.Claim.TLS}
	switch {
	case s.Works:
		peer.Member = s.Member
		return peer, nil
	case peer.Member == "":
		return peer, errors.New("this process waits as a standby, and which one works is not known now: ask again when one does (bridge status)")
	case peer.Addr == "":
		return peer, fmt.Errorf("%s works and listens nowhere, as a command does that a person has typed: ask again when it has ended", peer.Name)
	case onlyOwnHost(peer.Addr) && s.Claim.Host != s.Host:
		return peer, fmt.Errorf("%s works and listens at %s, where only its own host reaches it: run the command there, or set %s to :8080, say, in all processes", peer.Name, peer.Addr, config.HTTPVariable)
	}
	return peer, nil
}

// Reconcile implements httpapi.Daemon. If deletes are allowed, a shard that stopped because its ids
// are used again resumes.
func (h health) Reconcile(stream string, mode reconcile.Mode) (httpapi.Accepted, error) {
	of, err := h.stream(stream)
	if err != nil {
		return httpapi.Accepted{}, err
	}
	able, why := 0, ""
	for _, table := range of.Tables {
		sh := streamOf(h.streams, stream).shards[table]
		switch s := sh.Status(); {
		case s.State == shard.Stopped && !(mode.AllowDeletes && !mode.DryRun && sh.Accept()):
			why = fmt.Sprintf("%s is stopped: %s", table, s.LastError)
		case sh.IsPaused():
			why = fmt.Sprintf("%s is paused: bridge resume %s", table, stream)
		default:
			able++
		}
	}
	if able == 0 {
		return httpapi.Accepted{}, fmt.Errorf("stream %s %w: %s", stream, httpapi.ErrCannotReconcile, why)
	}
	return httpapi.Accepted{
		Stream: stream, Shards: h.scheduler.Request(stream, mode),
		DryRun: mode.DryRun, AllowDeletes: mode.AllowDeletes, Started: h.started.UTC(),
	}, nil
}

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

func (h health) stream(name string) (*config.Stream, error) {
	if s := h.opts.Config.Stream(name); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%w as %.100q: there are %s", httpapi.ErrNoStream, name, strings.Join(h.opts.Config.StreamNames(), ", "))
}

func (h health) Resend(ctx context.Context, request httpapi.ResendRequest) ([]shard.ResendOutcome, error) {
	stream, err := h.stream(request.Stream)
	if err != nil {
		return nil, err
	}
	if stream.DeadLetter == "" {
		return nil, fmt.Errorf("stream %s %w: %s is not set, so a row that is refused again would stop it",
			stream.Name, httpapi.ErrCannotResend, config.Naming("")(option.DeadLetter))
	}
	sh := streamOf(h.streams, stream.Name).shards[request.Shard]
	if sh == nil {
		return nil, noTable(stream, request.Shard)
	}
	switch s := sh.Status(); s.State {
	case shard.Stopped:
		return nil, fmt.Errorf("%s %w: it is stopped: %s", s.Shard, httpapi.ErrCannotResend, s.LastError)
	case shard.Paused:
		return nil, fmt.Errorf("%s %w: it is paused: bridge resume %s", s.Shard, httpapi.ErrCannotResend, s.Stream)
	}
	outcomes, err := sh.Resend(ctx, request.DeadLetters, request.DryRun)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%s %w: %s", request.Shard, httpapi.ErrCannotResend, config.StreamText(stream.Name)(err))
	}
	return outcomes, err
}
