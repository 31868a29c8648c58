package kafka

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
)

// answersBy is a context whose deadline is reached before it ends: a connection without an answer
// breaks then, and the answers of the others are still taken. kafka-go drops these by chance once
// the context has ended.
type answersBy struct {
	context.Context
	at time.Time
}

func (c answersBy) Deadline() (time.Time, bool) { return c.at, true }

// produce sends a sealed batch to the leader of a partition and returns its base offset, -1 if the
// broker does not tell.
func (c *cluster) produce(ctx context.Context, topic string, partition int32, sealed []byte) (int64, int, error) {
	res, generation, err := c.roundTrip(ctx, &rawproduce.Request{
		Acks:    int16(kafkago.RequireAll),
		Timeout: int32(produceTimeout.Milliseconds()),
		Topics: []rawproduce.RequestTopic{{
			Topic: topic,
			Partitions: []rawproduce.RequestPartition{{
				Partition: partition,
				RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(sealed)},
			}},
		}},
	})
	if err != nil {
		return -1, generation, err
	}
	topics := res.(*produce.Response).Topics
	if len(topics) != 1 || len(topics[0].Partitions) != 1 {
		return -1, generation, fmt.Errorf("the broker answers a batch for one partition with %d topics", len(topics))
	}
	base, err := baseOffset(&topics[0].Partitions[0])
	return base, generation, err
}

// baseOffset returns where a batch was stored, -1 if the broker does not tell.
func baseOffset(p *produce.ResponsePartition) (int64, error) {
	message := p.ErrorMessage
	for _, r := range p.RecordErrors {
		if message == "" {
			message = r.BatchIndexErrorMessage
		}
	}
	if err := answer(p.ErrorCode, message); err != nil {
		return -1, err
	}
	return p.BaseOffset, nil
}

// produceAll sends batches of several partitions to their leaders, one request each, and notes in
// each batch its base offset, or its fault. Batches that have a fault of their own are not sent.
// Leaders may answer until then.
func (c *cluster) produceAll(ctx context.Context, until time.Time, transaction string, batches []*txnBatch) (generation int) {
	ctx, cancel := context.WithDeadlineCause(ctx, until.Add(time.Second), errNoAnswer)
	defer cancel()
	ctx = answersBy{ctx, until}
	req := &produceAllRequest{transaction: transaction}
	for _, b := range batches {
		if b.unfit {
			continue
		}
		b.base, b.fault = -1, nil
		req.batches = append(req.batches, b)
	}
	if len(req.batches) == 0 {
		return 0
	}
	_, generation, err := c.roundTrip(ctx, req)
	if err != nil {
		for _, b := range req.batches {
			b.fault = err
		}
	}
	return generation
}

// produceAllRequest is a produce request to several leaders.
type produceAllRequest struct {
	transaction string
	batches     []*txnBatch
	// groups are the batches of each leader.
	groups [][]*txnBatch
}

// produceAllResponse says that the batches have their answers.
type produceAllResponse struct{}

var _ protocol.Splitter = (*produceAllRequest)(nil)

func (*produceAllRequest) ApiKey() protocol.ApiKey { return protocol.Produce }
func (produceAllResponse) ApiKey() protocol.ApiKey { return protocol.Produce }

// Split implements protocol.Splitter.
func (r *produceAllRequest) Split(cluster protocol.Cluster) ([]protocol.Message, protocol.Merger, error) {
	var leaders []int32
	var messages []protocol.Message
	for _, b := range r.batches {
		w := b.p.worker
		leader, err := leaderOf(w.topic, w.partition)(cluster)
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
		addBatch(messages[i].(*rawproduce.Request), b)
	}
	return messages, r, nil
}

// addBatch adds a batch to a request.
func addBatch(req *rawproduce.Request, b *txnBatch) {
	w := b.p.worker
	i := slices.IndexFunc(req.Topics, func(t rawproduce.RequestTopic) bool { return t.Topic == w.topic })
	if i < 0 {
		i = len(req.Topics)
		req.Topics = append(req.Topics, rawproduce.RequestTopic{Topic: w.topic})
	}
	req.Topics[i].Partitions = append(req.Topics[i].Partitions, rawproduce.RequestPartition{
		Partition: w.partition, RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(b.wire)},
	})
}

// Merge implements protocol.Merger.
func (r *produceAllRequest) Merge(_ []protocol.Message, results []any) (protocol.Message, error) {
	for i, result := range results {
		m, err := protocol.Result(result)
		for _, b := range r.groups[i] {
			if b.fault = err; err == nil {
				b.base, b.fault = answerFor(m.(*produce.Response), b.p.worker)
			}
		}
	}
	return produceAllResponse{}, nil
}

// answerFor returns the base offset of the batch for a partition, -1 if the broker does not tell.
func answerFor(res *produce.Response, w *worker) (int64, error) {
	for i := range res.Topics {
		if res.Topics[i].Topic != w.topic {
			continue
		}
		for j := range res.Topics[i].Partitions {
			if p := &res.Topics[i].Partitions[j]; p.Partition == w.partition {
				return baseOffset(p)
			}
		}
	}
	return -1, fmt.Errorf("the broker does not answer for partition %s", w.tp)
}
