package app

import (
	"strings"

	"bridge/internal/config"
	"bridge/internal/httpapi"
	"bridge/internal/outage"
	"bridge/internal/shard"
)

// addDependencies adds to a status whether source, bus and checkpoint answer, as far as the work of
// the shards has shown: nothing is asked.
func (h health) addDependencies(status *httpapi.Status) {
	src, bus := &h.opts.Config.Source, &h.opts.Config.Sink
	status.Source = &httpapi.DependencyStatus{Kind: src.Scheme, Address: src.Addr}
	status.Bus = &httpapi.DependencyStatus{Kind: bus.Scheme, Address: busAddress(bus)}
	status.Checkpoint = &httpapi.DependencyStatus{Kind: "file", Address: h.opts.Config.CheckpointPath}
	if h.copies != nil {
		status.Progress = &httpapi.DependencyStatus{Kind: bus.Scheme, Address: busAddress(bus)}
	}
	h.used(status)
	for _, fault := range h.faults.Outages() {
		switch name := fault.Dependency; {
		case ofSource(fault):
			away(status.Source, fault)
		case strings.HasPrefix(name, "checkpoint"):
			away(status.Checkpoint, fault)
		case strings.HasPrefix(name, "shard "), strings.HasPrefix(name, "keys of "):
			// One table alone: its shard says so.
		case name == standbyDependency:
			// The status of the group says so.
		case name == copiesDependency:
			if status.Progress != nil {
				away(status.Progress, fault)
			}
		default:
			away(status.Bus, fault)
		}
	}
	for _, fault := range h.busOutages() {
		away(status.Bus, fault)
	}
}

// ofSource reports whether an outage is that of the source as a whole.
func ofSource(o outage.Outage) bool {
	return o.Dependency == shard.SourceDependency || o.Dependency == shard.SourceDependency+outage.Probed
}

// busAddress returns where the bus is, empty for one without an address.
func busAddress(s *config.Sink) string {
	switch s.Scheme {
	case "kafka":
		return strings.Join(s.Kafka.Brokers, ",")
	case "nats":
		return strings.Join(s.NATS.Servers, ",")
	case "embedded":
		return s.Embedded.Listen
	}
	return ""
}

// used notes what has answered at least once.
func (h health) used(status *httpapi.Status) {
	yes := true
	if h.committer.Saved() {
		status.Checkpoint.Answers = &yes
	}
	for i := range status.Streams {
		stream := &status.Streams[i]
		if stream.CatchUp.Ready {
			status.Bus.Answers = &yes
		}
		if status.Progress != nil && stream.Progress != nil && stream.Progress.WrittenAt != nil {
			status.Progress.Answers = &yes
		}
		for j := range stream.Shards {
			if s := &stream.Shards[j]; s.LastPoll != nil {
				status.Source.Answers = &yes
			}
		}
	}
}

// away notes an outage. The oldest one tells since when; the last one what happened.
func away(d *httpapi.DependencyStatus, fault outage.Outage) {
	no := false
	d.Answers, d.Error = &no, httpapi.Given(config.Text(fault.Err))
	if since := httpapi.Moment(fault.Since); d.Since == nil || since.Before(*d.Since) {
		d.Since = since
	}
}
