package broker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/bus"
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
	// fetchBytes bounds an answer that holds more than one batch, fetchesBytes those of all
	// readings of a cluster, but that each may have leastFetch: of each, one is handed out and one
	// asked for. fetchRecord is what is asked for of each further record of a short span. fetchWait
	// is how long the leader waits for something to answer with.
	fetchBytes   = 4 << 20
	fetchesBytes = 64 << 20
	leastFetch   = 64 << 10
	fetchRecord  = 64 << 10
	fetchWait    = 500 * time.Millisecond
	// newestFetch is the last version of Fetch without topic ids and tags.
	newestFetch = 11
	// readCommitted has the leader hide open transactions, and name aborted ones.
	readCommitted = 1
)

var errNothing = errors.New("the leader answers without messages though it has some: if its log and remote storage are well, " +
	"write any message to the partition, behind which it goes on")

var errThrottled = errors.New("the broker throttles fetches: a quota is used up")

// Reader reads topics back. It is safe for concurrent use.
type Reader struct {
	*Cluster
	faults bus.Faults
	// end ends the life of a cluster that is the reader's own.
	end context.CancelFunc
}

var _ bus.Reader = (*Reader)(nil)

// NewReader returns a reader that reports the faults it waits out to faults.
func (c *Cluster) NewReader(faults bus.Faults) *Reader { return &Reader{c, faults, func() {}} }

// Open returns a reader with connections of its own.
func Open(o Options, faults bus.Faults) (*Reader, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	return &Reader{NewCluster(life, &o), faults, end}, nil
}

// Close drops all connections. Of a reader of [Open] it also ends the calls that are under way.
func (r *Reader) Close() error {
	r.end()
	r.Cluster.Close()
	return nil
}

func (r *Reader) attempts(who, topic string, partition int32) attempts {
	return attempts{cluster: r.Cluster, faults: r.faults, who: who, topic: topic, partition: partition, giveUp: r.options.GiveUpAfter}
}

// TPs implements [bus.Reader]. It needs DESCRIBE on the topics. A topic that is missing is asked
// for again for a few seconds.
func (r *Reader) TPs(ctx context.Context, destinations []string) ([]bus.TP, error) {
	ctx, cancel := bus.Within(ctx, r.life)
	defer cancel()
	var tps []bus.TP
	for _, topic := range destinations {
		if bus.CheckTopic(topic) != nil {
			continue
		}
		t := r.attempts("describe "+topic, topic, -1)
		found, err := t.describe(ctx)
		t.ended(ctx, err)
		if errors.Is(err, bus.ErrGone) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("ask for the partitions of %s: %w", topic, err)
		}
		tps = append(tps, found...)
	}
	return tps, nil
}

// Read implements [bus.Reader]. It needs READ on the topic. Messages of before Kafka 0.11 are
// passed over.
func (r *Reader) Read(ctx context.Context, span bus.Span, each func(*bus.Stored) error) (next uint64, err error) {
	ctx, cancel := bus.Within(ctx, r.life)
	defer cancel()
	// The inverse of TPName.
	topic, number, _ := strings.Cut(span.TP, "/")
	partition, err := strconv.ParseUint(number, 10, 31)
	if err != nil || bus.CheckTopic(topic) != nil {
		return span.From, fmt.Errorf("read %s: %w: it is not a partition of a topic", span.TP, bus.ErrGone)
	}
	if span.Done(span.From) {
		return span.From, context.Cause(ctx)
	}
	r.Follow([]string{topic})
	r.readings.Add(1)
	defer r.readings.Add(-1)
	one := &reading{
		attempts: r.attempts("read "+span.TP, topic, int32(partition)),
		tp:       span.TP, incarnation: span.Incarnation,
		decoder: Decoder{Topic: topic, Empty: span.Empty, Next: int64(min(span.From, math.MaxInt64)), To: int64(min(span.To, math.MaxInt64))},
	}
	one.decoder.Each = func(m *bus.Stored) error {
		if err := each(m); err != nil {
			return err
		}
		return context.Cause(ctx)
	}
	err = one.run(ctx)
	return uint64(one.decoder.Next), err
}

type reading struct {
	attempts
	tp string
	// incarnation is the topic's id, empty while it is not known.
	incarnation string
	decoder     Decoder
	// spare is memory for the next answer.
	spare []byte
	// idle is when the leader had nothing more to read for the first time in succession.
	idle time.Time
	// outside counts the answers in succession that the offset is out of range.
	outside int
}

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
			if r.decoder.Next >= r.decoder.To {
				return nil
			}
		}
		begun := time.Now()
		if ahead == nil {
			ahead = r.fetch(fetching, r.decoder.Next)
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
		if !r.failing.IsZero() || !r.missing.IsZero() {
			r.failing, r.missing = time.Time{}, time.Time{}
			r.pause.Reset()
			r.faults.OK(r.who)
		}
		r.outside = 0
		end := endOf(found.answer.RecordBatches)
		if end > r.decoder.Next {
			r.idle = time.Time{}
			if end < r.decoder.To {
				ahead = r.fetch(fetching, end)
			}
			err = r.decoder.Decode(found.answer)
		} else {
			sure, err = r.empty(ctx, found.answer, begun)
		}
		if r.spare = found.memory; cap(r.spare) > 2*r.decoder.kept {
			r.spare = nil
		}
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
		if r.decoder.Next >= r.decoder.To {
			sure = false
		}
	}
}

type fetched struct {
	answer     *kmsg.FetchResponseTopicPartition
	memory     []byte
	generation int
	err        error
}

// fetch asks the leader for the batches from an offset on, as they lie in its log: kafka-go's own
// Request hides control batches, and decodes into single allocations.
func (r *reading) fetch(ctx context.Context, from int64) <-chan fetched {
	partition := kmsg.NewFetchRequestTopicPartition()
	r.decoder.kept = min(fetchBytes, max(leastFetch, fetchesBytes/2/int(r.cluster.readings.Load())))
	// The first batch comes however large it is. What lies behind the span is not needed.
	most := int32(min(int64(r.decoder.kept), 1+fetchRecord*min(r.decoder.To-from-1, fetchBytes)))
	partition.Partition, partition.FetchOffset, partition.PartitionMaxBytes = r.partition, from, most
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = newestFetch, int32(fetchWait.Milliseconds()), 1, most, readCommitted
	req.Topics = []kmsg.FetchRequestTopic{{Topic: r.topic, Partitions: []kmsg.FetchRequestTopicPartition{partition}}}
	sent := r.cluster.Request(req)
	sent.memory, r.spare = r.spare, nil
	done := make(chan fetched, 1)
	go func() {
		res, generation, err := Send[*kmsg.FetchResponse](ctx, r.cluster, ToBroker{sent, LeaderOf(r.topic, r.partition)})
		found := fetched{generation: generation, err: err}
		if err == nil {
			found.memory = sent.memory
			found.answer, found.err = r.answered(res)
		}
		done <- found
	}()
	return done
}

func (r *reading) answered(res *kmsg.FetchResponse) (*kmsg.FetchResponseTopicPartition, error) {
	switch err := Answer(res.ErrorCode, ""); {
	case err != nil:
		return nil, err
	case len(res.Topics) == 0 && res.ThrottleMillis > 0:
		return nil, errThrottled
	case len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 || res.Topics[0].Topic != r.topic || res.Topics[0].Partitions[0].Partition != r.partition:
		return nil, fmt.Errorf("the broker answers for %d topics, asked was for partition %s", len(res.Topics), r.tp)
	}
	p := &res.Topics[0].Partitions[0]
	return p, Answer(p.ErrorCode, "")
}

// faulty judges a fault. It returns nil after a pause when it is worth trying again.
func (r *reading) faulty(ctx context.Context, found fetched) error {
	if !errors.Is(found.err, kafkago.OffsetOutOfRange) {
		return r.failed(ctx, found.generation, found.err)
	}
	var first, end int64
	one := kmsg.MetadataResponseTopicPartition{Partition: r.partition, LeaderEpoch: -1}
	if err := r.retry(ctx, func() (int, error) {
		found, generation, err := r.cluster.bounds(ctx, r.topic, one)
		first, end = found[r.partition].first, found[r.partition].end
		return generation, err
	}); err != nil {
		return err
	}
	next := r.decoder.Next
	switch {
	case first > next:
		if err := r.same(ctx); err != nil {
			return err
		}
		return &bus.ExpiredError{TP: r.tp, From: uint64(next), First: uint64(first)}
	case end < next:
		if r.outside++; r.outside >= verdictAfter {
			return fmt.Errorf("read %s from offset %d: it ends before offset %d: %w", r.tp, next, end, bus.ErrBehind)
		}
	}
	return backoff.Pause(ctx, verdictPause)
}

// empty judges an answer without a whole batch. sure is false when the topic is to be looked at
// Again.
func (r *reading) empty(ctx context.Context, a *kmsg.FetchResponseTopicPartition, begun time.Time) (sure bool, err error) {
	d := &r.decoder
	bound := a.HighWatermark
	if a.LastStableOffset >= 0 {
		bound = min(bound, a.LastStableOffset)
	}
	switch {
	case a.LogStartOffset > d.Next:
		return false, kafkago.OffsetOutOfRange
	case len(a.RecordBatches) > 0:
		return false, fmt.Errorf("%w: the one at offset %d is cut off", errBatch, d.Next)
	}
	// Where the end of a segment was compacted away, a leader answers with the next one. One that
	// has nothing yet, as while it waits for remote storage, is asked again.
	why := errHeldUp
	if bound > d.Next {
		why = errNothing
	}
	now := time.Now()
	if r.idle.IsZero() {
		r.idle, r.looked = now, now
	}
	idle := now.Sub(r.idle)
	if a.HighWatermark > d.Next && idle >= holdupAfter {
		if r.failing.IsZero() {
			r.failing = now
		}
		r.faults.Fail(r.who, r.tp, fmt.Errorf("read %s at offset %d: %w", r.tp, d.Next, why))
	}
	if d.To < math.MaxInt64 && r.giveUp > 0 && idle > r.giveUp {
		err := fmt.Errorf("%w within %v though some is left", errSilent, r.giveUp)
		if a.HighWatermark > 0 {
			err = fmt.Errorf("%w (high watermark %d): %w", err, a.HighWatermark, why)
		}
		return false, err
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

// same returns bus.ErrGone when the topic is another than it was. That it is not there the fetch
// will tell.
func (r *reading) same(ctx context.Context) error {
	return r.retry(ctx, func() (int, error) {
		found, generation, err := r.cluster.Metadata(ctx, []string{r.topic})
		if err != nil {
			return generation, err
		}
		id := ""
		for i := range found.Topics {
			t := &found.Topics[i]
			id = IDOf(t)
			others := func(p kmsg.MetadataResponseTopicPartition) bool { return p.Partition != r.partition }
			if err := led(r.topic, slices.DeleteFunc(t.Partitions, others)); err != nil {
				return generation, err
			}
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

var errHeldUp = fmt.Errorf("%w: it ends by itself after the producer's transaction.timeout.ms, "+
	"or see to it with kafka-transactions.sh find-hanging", bus.ErrHeldUp)
