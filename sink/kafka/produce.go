package kafka

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	produced "github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/client/kafka/broker"
)

// produceTimeout is how long the leader waits for its replicas; the answer must come before the
// client gives up.
const produceTimeout = 10 * time.Second

// answersBy is a context whose deadline is reached before it ends: a connection without an answer
// breaks then, and the answers of the others are still taken. kafka-go drops these by chance once
// the context has ended.
type answersBy struct {
	context.Context
	at time.Time
}

func (c answersBy) Deadline() (time.Time, bool) { return c.at, true }

// produce sends batches to the leaders of their partitions, one request each, and notes in each
// batch its base offset, or its fault. Batches that are unfit are not sent.
func produce(ctx context.Context, c *broker.Cluster, transaction string, batches ...*wireBatch) (generation int) {
	ctx, cancel := context.WithTimeoutCause(ctx, broker.AnswerWithin, broker.ErrNoAnswer)
	defer cancel()
	req := &produceRequest{transaction: transaction, throttled: c.Throttled, understood: func(err error) error { return c.Understood(ctx, err) }}
	for _, b := range batches {
		if !b.unfit {
			b.base, b.fault = -1, nil
			req.batches = append(req.batches, b)
		}
	}
	if len(req.batches) == 0 {
		return 0
	}
	_, generation, err := c.RoundTrip(ctx, req)
	for _, b := range req.batches {
		if err != nil {
			b.fault = err
		}
		if b.fault != nil {
			var code kafkago.Error
			b.base, b.unanswered = -1, b.unanswered || !errors.As(b.fault, &code)
		}
	}
	return generation
}

type produceRequest struct {
	transaction string
	batches     []*wireBatch
	understood  func(error) error
	throttled   func(ms int32)
	// groups are the batches of each leader.
	groups [][]*wireBatch
}

type produceResponse struct{}

var _ protocol.Splitter = (*produceRequest)(nil)

func (*produceRequest) ApiKey() protocol.ApiKey { return protocol.Produce }
func (produceResponse) ApiKey() protocol.ApiKey { return protocol.Produce }

// Split implements protocol.Splitter.
func (r *produceRequest) Split(cluster protocol.Cluster) ([]protocol.Message, protocol.Merger, error) {
	var leaders []int32
	var messages []protocol.Message
	for _, b := range r.batches {
		w := b.worker
		leader, err := broker.LeaderOf(w.topic, w.partition)(cluster)
		if err != nil {
			b.fault = err
			continue
		}
		i := slices.Index(leaders, leader.ID)
		if i < 0 {
			i = len(leaders)
			leaders, r.groups = append(leaders, leader.ID), append(r.groups, nil)
			messages = append(messages, &rawproduce.Request{
				TransactionalID: r.transaction, Acks: int16(kafkago.RequireAll), Timeout: int32(produceTimeout.Milliseconds()),
			})
		}
		r.groups[i] = append(r.groups[i], b)
		req := messages[i].(*rawproduce.Request)
		at := slices.IndexFunc(req.Topics, func(t rawproduce.RequestTopic) bool { return t.Topic == w.topic })
		if at < 0 {
			at = len(req.Topics)
			req.Topics = append(req.Topics, rawproduce.RequestTopic{Topic: w.topic})
		}
		req.Topics[at].Partitions = append(req.Topics[at].Partitions, rawproduce.RequestPartition{
			Partition: w.partition, RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(b.wire)},
		})
	}
	return messages, r, nil
}

// Merge implements protocol.Merger.
func (r *produceRequest) Merge(_ []protocol.Message, results []any) (protocol.Message, error) {
	for i, result := range results {
		m, err := protocol.Result(result)
		err = r.understood(err)
		res, _ := m.(*produced.Response)
		if err == nil && res.ThrottleTimeMs > 0 {
			r.throttled(res.ThrottleTimeMs)
		}
		for _, b := range r.groups[i] {
			if b.fault = err; err == nil {
				b.base, b.fault = answerFor(res, b.worker)
			}
		}
	}
	return produceResponse{}, nil
}

// answerFor returns the base offset of the batch for a partition, -1 if the broker does not tell.
func answerFor(res *produced.Response, w *worker) (int64, error) {
	for i := range res.Topics {
		if res.Topics[i].Topic != w.topic {
			continue
		}
		for j := range res.Topics[i].Partitions {
			p := &res.Topics[i].Partitions[j]
			if p.Partition != w.partition {
				continue
			}
			message := p.ErrorMessage
			for _, r := range p.RecordErrors {
				message = cmp.Or(message, r.BatchIndexErrorMessage)
			}
			return p.BaseOffset, broker.Answer(p.ErrorCode, message)
		}
	}
	return -1, fmt.Errorf("the broker does not answer for partition %s", w.tp)
}

// identity is what an idempotent producer puts on a batch for one partition. The broker takes a
// batch when its sequence is the next one, answers one that it has (among the last five) with its
// offset, and refuses any other.
//
// Why a worker that has lost the thread takes the next epoch and not a new producer id: an attempt
// without an answer may reach the broker late, from a socket buffer say, after the batches that
// followed it. With the same producer id it carries an older epoch or a sequence that has passed,
// and is refused; what the log then shows is a repeat directly after the first copy at worst,
// never an older message after a newer one. Under a new producer id the broker would take the late
// copy for the first batch of a producer that it does not know, and append it. So does Java's
// producer since KIP-360. Epochs are counted for each worker by itself, because brokers keep them
// for each partition.
//
// A new id is taken only where there is no next epoch (after 32,767 losses of the thread on one
// worker) or where the broker says that somebody else uses the id; the order of late copies is then
// open.
type identity struct {
	producer int64
	epoch    int16
	sequence int32
}

// lastEpoch is the one that has no next.
const lastEpoch = math.MaxInt16

// advance returns the identity of the batch after one of n records. Sequences go on from 2^31-1 to
// 0.
func (id identity) advance(n int) identity {
	id.sequence = int32((int64(id.sequence) + int64(n)) & math.MaxInt32)
	return id
}

// nextEpoch returns the identity of the first batch of the next epoch; false if there is none.
func (id identity) nextEpoch() (identity, bool) {
	if id.epoch == lastEpoch {
		return id, false
	}
	return identity{producer: id.producer, epoch: id.epoch + 1}, true
}

// producers hands out the producer id that the workers share.
type producers struct {
	cluster *broker.Cluster

	mu      sync.Mutex
	current identity
	known   bool
}

// other returns the first identity of a producer that is not worn. Workers that ask at the same
// time get the same one.
func (p *producers) other(ctx context.Context, worn *identity) (identity, int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known && (worn == nil || worn.producer != p.current.producer) {
		return p.current, 0, nil
	}
	// Without a transactional id any broker answers.
	fresh, generation, err := initialise(ctx, p.cluster, &kmsg.InitProducerIDRequest{ProducerID: anyProducer.producer, ProducerEpoch: anyProducer.epoch})
	if err == nil {
		p.current, p.known = fresh, true
	}
	return fresh, generation, err
}

// anyProducer stands for none in particular: with a transactional id it fences all former ones.
var anyProducer = identity{producer: -1, epoch: -1}

func initialise(ctx context.Context, c *broker.Cluster, req *kmsg.InitProducerIDRequest) (identity, int, error) {
	req.Version = 4
	var message protocol.Message = c.Request(req)
	if req.TransactionalID != nil {
		message = broker.ToTransaction{Request: c.Request(req), ID: *req.TransactionalID}
	}
	res, generation, err := broker.Send[*kmsg.InitProducerIDResponse](ctx, c, message)
	if err == nil {
		err = broker.Answer(res.ErrorCode, "")
	}
	if err != nil {
		return identity{}, generation, err
	}
	return identity{producer: res.ProducerID, epoch: res.ProducerEpoch}, generation, nil
}
