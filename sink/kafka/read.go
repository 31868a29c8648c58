package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/client/backoff"
	"example.org/bridge/sink"
)

const (
	// goneAfter is how long a topic must look as if it were gone, or another one, until that is
	// believed: after a start brokers learn of topics one after the other.
	goneAfter = 3 * time.Second
	// verdictAfter is how often a leader must say that a partition ends early until that is
	// believed: just after an election it may not know yet how far its replicas are.
	verdictAfter = 3
	verdictPause = 300 * time.Millisecond
	// idleCheck is how often a partition that brings nothing is looked at, holdupAfter when an open
	// transaction is reported.
	idleCheck   = 5 * time.Second
	holdupAfter = 5 * time.Second
	// quickAnswer tells an answer that did not wait for messages, and is not asked for again at
	// once.
	quickAnswer = 10 * time.Millisecond
	quickPause  = 50 * time.Millisecond
	// fetchBytes bounds an answer that holds more than one batch, fetchWait how long the leader
	// waits for something to answer with.
	fetchBytes = 4 << 20
	fetchWait  = 500 * time.Millisecond
	// newestFetch is the last version of Fetch without topic ids and tags.
	newestFetch = 11
	// readCommitted has the leader hide what is not decided yet, and name what was aborted.
	readCommitted = 1
)

// errThrottled says that the leader answers nothing because a quota is used up.
var errThrottled = errors.New("the broker throttles fetches: a quota is used up")

var _ sink.Reader = (*Sink)(nil)

// Read implements [sink.Reader]. It needs READ on the topic.
func (s *Sink) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (next uint64, err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	topic, partition, err := parseTP(span.TP)
	if err != nil {
		return span.From, fmt.Errorf("read %s: %w: %w", span.TP, sink.ErrGone, err)
	}
	if span.Done(span.From) {
		return span.From, context.Cause(ctx)
	}
	s.cluster.follow([]string{topic})
	r := &reading{
		attempts: attempts{cluster: s.cluster, faults: s.faults, who: "read " + span.TP, topic: topic, partition: partition, giveUp: s.options.GiveUpAfter},
		tp:       span.TP, incarnation: span.Incarnation, hole: -1,
		decoder: decoder{topic: topic, empty: span.Empty, next: int64(min(span.From, math.MaxInt64)), to: int64(min(span.To, math.MaxInt64))},
	}
	r.decoder.each = func(m *sink.Stored) error {
		if err := each(m); err != nil {
			return err
		}
		return context.Cause(ctx)
	}
	err = r.run(ctx)
	return uint64(r.decoder.next), err
}

type reading struct {
	attempts
	tp string
	// incarnation is the topic's id, empty while it is not known.
	incarnation string
	decoder     decoder
	// spare is memory for the next answer.
	spare []byte
	// hole is the offset at which an answer held nothing though the leader has something to read,
	// -1 without one.
	hole int64
	// idle is when the leader had nothing more to read for the first time in succession.
	idle time.Time
	// outside counts the answers in succession that the offset is out of range.
	outside int
}

// run reads to the end.
func (r *reading) run(ctx context.Context) (err error) {
	defer func() { r.ended(ctx, err) }()
	fetching, cancel := context.WithCancel(ctx)
	// ahead brings the answer that is asked for while the one before is handed out.
	var ahead <-chan fetched
	stop := func() {
		if ahead != nil {
			<-ahead
		}
		ahead = nil
	}
	defer stop()
	defer cancel()
	for sure := false; ; {
		if !sure {
			// Between two looks at the same id it was the same topic.
			if err := r.same(ctx); err != nil {
				return err
			}
			sure = true
			if r.decoder.next >= r.decoder.to {
				return nil
			}
		}
		begun := time.Now()
		if ahead == nil {
			ahead = r.fetch(fetching, r.decoder.next)
		}
		found := <-ahead
		ahead = nil
		if found.err != nil {
			sure = false
			if err := r.faulty(ctx, found); err != nil {
				return err
			}
			continue
		}
		r.succeeded()
		r.outside = 0
		end := endOf(found.answer.RecordBatches)
		if end > r.decoder.next {
			r.hole, r.idle = -1, time.Time{}
			if end < r.decoder.to {
				ahead = r.fetch(fetching, end)
			}
			err = r.decoder.decode(found.answer)
		} else {
			sure, err = r.empty(ctx, found.answer, begun)
		}
		r.spare = found.memory
		if r.decoder.refused != nil {
			return r.decoder.refused
		}
		if errors.Is(err, errSilent) {
			return err
		}
		if err != nil {
			stop()
			sure = false
			if err := r.faulty(ctx, fetched{err: err, generation: found.generation}); err != nil {
				return err
			}
		}
		if r.decoder.next >= r.decoder.to {
			sure = false
		}
	}
}

// fetched is what has come of a request. The answer lies in memory.
type fetched struct {
	answer     *kmsg.FetchResponseTopicPartition
	memory     []byte
	generation int
	err        error
}

// fetch asks the leader for the batches from an offset on, as they lie in its log: kafka-go's own
// request hides control batches, and decodes into single allocations.
func (r *reading) fetch(ctx context.Context, from int64) <-chan fetched {
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.Partition, partition.FetchOffset, partition.PartitionMaxBytes = r.partition, from, fetchBytes
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = newestFetch, int32(fetchWait.Milliseconds()), 1, fetchBytes, readCommitted
	req.Topics = []kmsg.FetchRequestTopic{{Topic: r.topic, Partitions: []kmsg.FetchRequestTopicPartition{partition}}}
	sent := r.cluster.request(req)
	sent.memory, r.spare = r.spare, nil
	done := make(chan fetched, 1)
	go func() {
		res, generation, err := send[*kmsg.FetchResponse](ctx, r.cluster, toBroker{sent, leaderOf(r.topic, r.partition)})
		found := fetched{generation: generation, err: err}
		if err == nil {
			found.memory = sent.memory
			found.answer, found.err = r.answered(res)
		}
		done <- found
	}()
	return done
}

// answered returns what an answer says of the partition.
func (r *reading) answered(res *kmsg.FetchResponse) (*kmsg.FetchResponseTopicPartition, error) {
	switch err := answer(res.ErrorCode, ""); {
	case err != nil:
		return nil, err
	case len(res.Topics) == 0 && res.ThrottleMillis > 0:
		return nil, errThrottled
	case len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 || res.Topics[0].Topic != r.topic || res.Topics[0].Partitions[0].Partition != r.partition:
		return nil, fmt.Errorf("the broker answers for %d topics, asked was for partition %s", len(res.Topics), r.tp)
	}
	p := &res.Topics[0].Partitions[0]
	return p, answer(p.ErrorCode, "")
}

// faulty judges a fault. It returns nil after a pause when it is worth trying again.
func (r *reading) faulty(ctx context.Context, found fetched) error {
	if !errors.Is(found.err, kafkago.OffsetOutOfRange) {
		return r.failed(ctx, found.generation, found.err)
	}
	var first, end int64
	if err := r.retry(ctx, func() (int, error) {
		found, generation, err := r.cluster.bounds(ctx, r.topic, []int32{r.partition})
		first, end = found[r.partition].first, found[r.partition].end
		return generation, err
	}); err != nil {
		return err
	}
	next := r.decoder.next
	switch {
	case first > next:
		if err := r.same(ctx); err != nil {
			return err
		}
		return &sink.ExpiredError{TP: r.tp, From: uint64(next), First: uint64(first)}
	case end < next:
		if r.outside++; r.outside >= verdictAfter {
			return fmt.Errorf("read %s from offset %d: it ends before offset %d: %w", r.tp, next, end, sink.ErrBehind)
		}
	}
	return backoff.Pause(ctx, verdictPause)
}

// empty judges an answer without a whole batch. sure is false when the topic is to be looked at
// again.
func (r *reading) empty(ctx context.Context, a *kmsg.FetchResponseTopicPartition, begun time.Time) (sure bool, err error) {
	d := &r.decoder
	bound := a.HighWatermark
	if a.LastStableOffset >= 0 {
		bound = min(bound, a.LastStableOffset)
	}
	switch {
	case a.LogStartOffset > d.next:
		return false, kafkago.OffsetOutOfRange
	case len(a.RecordBatches) > 0:
		return false, fmt.Errorf("%w: the one at offset %d is cut off", errBatch, d.next)
	case bound > d.next && r.hole == d.next:
		// Twice the leader had nothing to give up to bound: it was compacted away.
		d.next, r.hole = min(bound, d.to), -1
		return true, nil
	case bound > d.next:
		r.hole = d.next
		return true, nil
	}
	r.hole = -1
	now := time.Now()
	if r.idle.IsZero() {
		r.idle, r.looked = now, now
	}
	idle := now.Sub(r.idle)
	if a.HighWatermark > d.next && idle >= holdupAfter {
		r.report(fmt.Errorf("read %s at offset %d: %w", r.tp, d.next, errHeldUp))
	}
	if d.to < math.MaxInt64 && r.giveUp > 0 && idle > r.giveUp {
		return false, r.silent(a.HighWatermark)
	}
	sure = true
	if now.Sub(r.looked) >= idleCheck {
		sure, r.looked = false, now
	}
	if now.Sub(begun) < quickAnswer {
		return sure, backoff.Pause(ctx, quickPause)
	}
	return sure, nil
}

// same returns sink.ErrGone when the topic is another than it was. That it is not there the fetch
// will tell.
func (r *reading) same(ctx context.Context) error {
	return r.retry(ctx, func() (int, error) {
		found, generation, err := r.cluster.metadata(ctx, []string{r.topic})
		if err != nil {
			return generation, err
		}
		id := ""
		for i := range found.Topics {
			id = idOf(&found.Topics[i])
		}
		switch {
		case r.incarnation == "":
			r.incarnation = id
		case id != "" && id != r.incarnation:
			return generation, fmt.Errorf("topic %s is not the one with the id %s: %w", r.topic, r.incarnation, errOther)
		}
		return generation, nil
	})
}

// errHeldUp says why a leader hides what it has.
var errHeldUp = fmt.Errorf("%w: it ends by itself after the producer's transaction.timeout.ms, "+
	"or see to it with kafka-transactions.sh find-hanging", sink.ErrHeldUp)
