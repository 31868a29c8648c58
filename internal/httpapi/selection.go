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
)

// selection says which shards a status lists. The zero value selects all, in the order of the
// tables.
type selection struct {
	stream, state, contains string
	// limit and offset count the shards of each stream, the worst first; limit is -1 for all.
	limit, offset int
	// examples bounds the differences of each report; -1 for all.
	examples int
	// any says that a parameter was given.
	any bool
}

// maxListed bounds limit and offset.
const maxListed = 1_000_000

// selectionOf parses the parameters of a request for the status, and refuses misspelt ones.
func selectionOf(query url.Values) (s selection, working bool, err error) {
	s = selection{limit: -1, examples: -1}
	parameters, err := parametersOf(query, "working", "stream", "state", "contains", "limit", "offset", "examples")
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
	s.stream, s.state, s.contains = parameters["stream"], parameters["state"], strings.ToLower(parameters["contains"])
	if s.state != "" && !slices.Contains(worstFirst, s.state) {
		return s, false, fmt.Errorf("%w: state must be one of %s", ErrBadQuery, strings.Join(worstFirst, ", "))
	}
	for name, to := range map[string]*int{"limit": &s.limit, "offset": &s.offset, "examples": &s.examples} {
		text := parameters[name]
		if text == "" {
			continue
		}
		if *to, err = strconv.Atoi(text); err != nil || *to < 0 || *to > maxListed {
			return s, false, fmt.Errorf("%w: %s must be 0 to %d", ErrBadQuery, name, maxListed)
		}
	}
	return s, working, nil
}

// apply lists the selected shards of each stream. The summaries stay as they are.
func (s *selection) apply(status *Status) {
	for i := range status.Streams {
		stream := &status.Streams[i]
		if s.any {
			stream.Shards = s.list(stream)
		}
		if dry := stream.Summary.Reconcile.DryRun; dry != nil && s.examples >= 0 {
			dry.Differences = dry.Differences[:min(s.examples, len(dry.Differences))]
		}
		for j := range stream.Shards {
			s.cut(stream.Shards[j].Reconcile)
		}
	}
}

// list returns a page of the selected shards of a stream, the worst first.
func (s *selection) list(stream *StreamStatus) []ShardStatus {
	if s.stream != "" && s.stream != stream.Name {
		stream.Summary.Matching = 0
		return []ShardStatus{}
	}
	var matching []ranked
	for i := range stream.Shards {
		one := &stream.Shards[i]
		if (s.state == "" || one.State == s.state) && (s.contains == "" || strings.Contains(strings.ToLower(one.Shard), s.contains)) {
			matching = append(matching, rankOf(one))
		}
	}
	slices.SortStableFunc(matching, worse)
	first, last := min(s.offset, len(matching)), len(matching)
	if s.limit >= 0 {
		last = min(first+s.limit, last)
	}
	stream.Summary.Matching, stream.Summary.Offset = len(matching), first
	list := make([]ShardStatus, 0, last-first)
	for _, one := range matching[first:last] {
		list = append(list, *one.shard)
	}
	return list
}

// ranked is a shard with what it is ordered by: small, because thousands are ordered.
type ranked struct {
	shard *ShardStatus
	state int
	lag   float64
}

// rankOf returns the rank of a shard; a lag that is not known is longer than others.
func rankOf(one *ShardStatus) ranked {
	r := ranked{shard: one, state: slices.Index(worstFirst, one.State), lag: math.Inf(1)}
	if one.LagSeconds != nil {
		r.lag = *one.LagSeconds
	}
	return r
}

// worse orders shards: by state, then those with the longest lag first.
func worse(a, b ranked) int { return cmp.Or(cmp.Compare(a.state, b.state), cmp.Compare(b.lag, a.lag)) }

// cut drops examples of the last dry run.
func (s *selection) cut(r *ReconcileStatus) {
	if r == nil || r.LastDryRun == nil || s.examples < 0 || len(r.LastDryRun.Differences) <= s.examples {
		return
	}
	report := *r.LastDryRun
	report.Differences = report.Differences[:s.examples]
	r.LastDryRun = &report
}

// statusHandler answers with the status of this process, or with ?working=true of the one that
// works. The differences of dry runs name entities: they are for callers that may read rows.
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
		status := works.daemon.Status()
		// A copy: the summaries are for this answer.
		status.Streams = slices.Clone(status.Streams)
		summarize(&status)
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
