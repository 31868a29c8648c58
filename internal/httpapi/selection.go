package httpapi

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"example.org/bridge/internal/shard"
)

// selection says which shards and streams a status lists. The zero value selects all, in the order
// of the tables.
type selection struct {
	stream, contains string
	state            shard.State
	// limit and offset count the shards of each stream, the worst first; limit is -1 for all.
	limit, offset int
	// streams and streamOffset count the streams that have a selected shard, the worst first;
	// streams is -1 for all streams, whether they have one or not.
	streams, streamOffset int
	// examples bounds the differences of each report; -1 for all.
	examples int
	// any says that a parameter was given.
	any bool
}

// maxListed bounds limit and offset.
const maxListed = 1_000_000

func selectionOf(query url.Values) (s selection, working bool, err error) {
	s = selection{limit: -1, streams: -1, examples: -1}
	parameters, err := parametersOf(query, "working", "stream", "state", "contains", "limit", "offset", "streams", "streamOffset", "examples")
	if err != nil {
		return s, false, err
	}
	if text := parameters["working"]; text != "" {
		if working, err = strconv.ParseBool(text); err != nil {
			return s, false, fmt.Errorf("%w: working must be true or false", ErrBadQuery)
		}
	}
	delete(parameters, "working")
	s.any = len(parameters) > 0
	s.stream, s.state, s.contains = parameters["stream"], shard.State(parameters["state"]), strings.ToLower(parameters["contains"])
	if s.state != "" && !slices.Contains(shard.WorstFirst, s.state) {
		return s, false, fmt.Errorf("%w: state must be one of %s", ErrBadQuery, strings.ReplaceAll(strings.Trim(fmt.Sprint(shard.WorstFirst), "[]"), " ", ", "))
	}
	for name, to := range map[string]*int{
		"limit": &s.limit, "offset": &s.offset, "streams": &s.streams, "streamOffset": &s.streamOffset, "examples": &s.examples,
	} {
		if text := parameters[name]; text != "" {
			if *to, err = strconv.Atoi(text); err != nil || *to < 0 || *to > maxListed {
				return s, false, fmt.Errorf("%w: %s must be 0 to %d", ErrBadQuery, name, maxListed)
			}
		}
	}
	return s, working, nil
}

// status is the caller's own, but for the shards.
func (s *selection) apply(status *Status) {
	status.Totals = totalsOf(status.Streams)
	status.Streams = s.listStreams(status.Streams, status.Totals)
	for i := range status.Streams {
		stream := &status.Streams[i]
		stream.Summary = summaryOf(stream.Shards)
		if s.any {
			stream.Shards = s.list(stream)
		}
		if dry := stream.Summary.Reconcile.DryRun; dry != nil && s.examples >= 0 {
			dry.Differences = dry.Differences[:min(s.examples, len(dry.Differences))]
		}
		for j := range stream.Shards {
			if r := stream.Shards[j].Reconcile; r != nil && r.LastDryRun != nil && s.examples >= 0 && len(r.LastDryRun.Differences) > s.examples {
				report := *r.LastDryRun
				report.Differences = report.Differences[:s.examples]
				r.LastDryRun = &report
			}
		}
	}
}

// listStreams returns a page of the streams that have a selected shard, the worst first.
func (s *selection) listStreams(all []StreamStatus, totals *Totals) []StreamStatus {
	if s.streams < 0 {
		return slices.Clone(all)
	}
	var matching []StreamStatus
	for i := range all {
		if s.selectsStream(&all[i]) {
			matching = append(matching, all[i])
		}
	}
	slices.SortStableFunc(matching, func(a, b StreamStatus) int {
		return cmp.Compare(slices.Index(shard.WorstFirst, a.State), slices.Index(shard.WorstFirst, b.State))
	})
	first := min(s.streamOffset, len(matching))
	totals.Matching, totals.Offset = len(matching), first
	return append([]StreamStatus{}, matching[first:min(first+s.streams, len(matching))]...)
}

// One without shards is selected by its name alone.
func (s *selection) selectsStream(stream *StreamStatus) bool {
	if s.stream != "" {
		return s.stream == stream.Name
	}
	if len(stream.Shards) == 0 {
		return s.state == "" && containsFold(stream.Name, s.contains)
	}
	return slices.ContainsFunc(stream.Shards, func(one shard.Status) bool { return s.selects(stream.Name, &one) })
}

func (s *selection) selects(stream string, one *shard.Status) bool {
	return (s.state == "" || one.State == s.state) && (containsFold(one.Shard, s.contains) || containsFold(stream, s.contains))
}

// containsFold reports whether text contains a part in lower case, whatever its own case.
func containsFold(text, part string) bool {
	return part == "" || strings.Contains(strings.ToLower(text), part)
}

// list returns a page of the selected shards of a stream, the worst first.
func (s *selection) list(stream *StreamStatus) []shard.Status {
	if s.stream != "" && s.stream != stream.Name {
		stream.Summary.Matching = 0
		return []shard.Status{}
	}
	var matching []*shard.Status
	for i := range stream.Shards {
		if one := &stream.Shards[i]; s.selects(stream.Name, one) {
			matching = append(matching, one)
		}
	}
	// By state, then those with the longest lag first: one that is not known is longer than others.
	lag := func(one *shard.Status) float64 {
		if one.LagSeconds == nil {
			return math.Inf(1)
		}
		return *one.LagSeconds
	}
	slices.SortStableFunc(matching, func(a, b *shard.Status) int {
		return cmp.Or(cmp.Compare(slices.Index(shard.WorstFirst, a.State), slices.Index(shard.WorstFirst, b.State)), cmp.Compare(lag(b), lag(a)))
	})
	first, last := min(s.offset, len(matching)), len(matching)
	if s.limit >= 0 {
		last = min(first+s.limit, last)
	}
	stream.Summary.Matching, stream.Summary.Offset = len(matching), first
	list := make([]shard.Status, 0, last-first)
	for _, one := range matching[first:last] {
		list = append(list, *one)
	}
	return list
}

// The differences of dry runs name entities: they are for callers that may read rows.
func statusHandler(works *forwarder) http.Handler {
	own := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		selected, _, err := selectionOf(r.URL.Query())
		if err != nil {
			answer(w, http.StatusBadRequest, refused{err.Error()})
			return
		}
		if !works.access.mayRead(r) {
			selected.examples = 0
		}
		status := works.daemon().Status()
		selected.apply(&status)
		answer(w, http.StatusOK, status)
	})
	asReader, asAnybody := works.byWorking(toRead, own), works.byWorking("", own)
	return atMost(statusAnswers, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, ofWorking, err := selectionOf(r.URL.Query())
		switch {
		case err != nil || !ofWorking:
			own(w, r)
		case works.access.mayRead(r):
			asReader.ServeHTTP(w, r)
		default:
			asAnybody.ServeHTTP(w, r)
		}
	}))
}
