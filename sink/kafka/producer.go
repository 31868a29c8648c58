package kafka

import (
	"context"
	"math"
	"sync"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/client/kafka/broker"
)

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

// initialise asks for an identity.
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
