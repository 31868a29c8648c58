package kafka

import (
	"bytes"
	"context"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
)

// brokerError is a broker's answer.
type brokerError struct {
	code    kafkago.Error
	message string
}

func (e *brokerError) Error() string {
	if e.message == "" {
		return e.code.Error()
	}
	return fmt.Sprintf("%s (%s)", e.code.Error(), e.message)
}

func (e *brokerError) Unwrap() error { return e.code }

// answer returns nil for code 0.
func answer(code int16, message string) error {
	if code == 0 {
		return nil
	}
	return &brokerError{kafkago.Error(code), message}
}

// metadataRequest is a metadata request that goes to a broker: the transport answers a
// *metadata.Request from its memory, and takes a *metadata.Response for the answer to one. So
// neither may show.
type metadataRequest struct{ topics []string }

// metadataResponse is the broker's answer.
type metadataResponse struct{ *metadata.Response }

// plainMetadata is what goes over the wire.
type plainMetadata metadata.Request

var _ protocol.Splitter = (*metadataRequest)(nil)

func (*metadataRequest) ApiKey() protocol.ApiKey { return protocol.Metadata }
func (*plainMetadata) ApiKey() protocol.ApiKey   { return protocol.Metadata }

// Split implements protocol.Splitter.
func (r *metadataRequest) Split(protocol.Cluster) ([]protocol.Message, protocol.Merger, error) {
	return []protocol.Message{&plainMetadata{TopicNames: r.topics}}, r, nil
}

// Merge implements protocol.Merger.
func (r *metadataRequest) Merge(_ []protocol.Message, results []any) (protocol.Message, error) {
	m, err := protocol.Result(results[0])
	if err != nil {
		return nil, err
	}
	return metadataResponse{m.(*metadata.Response)}, nil
}

// metadata asks a broker for topics, in any order in the answer. It creates none.
func (c *cluster) metadata(ctx context.Context, topics []string) ([]metadata.ResponseTopic, int, error) {
	// Nil would mean all topics.
	res, generation, err := c.roundTrip(ctx, &metadataRequest{append([]string{}, topics...)})
	if err != nil {
		return nil, generation, err
	}
	return res.(metadataResponse).Topics, generation, nil
}

// producerRequest is an initproducerid.Request without a transactional id, which any broker
// answers. The transport would look for the coordinator of transaction "" first, and the broker
// would set up its transaction log for that.
type producerRequest initproducerid.Request

func (*producerRequest) ApiKey() protocol.ApiKey { return protocol.InitProducerId }

// newProducer asks a broker for a producer id.
func (c *cluster) newProducer(ctx context.Context) (identity, int, error) {
	res, generation, err := c.roundTrip(ctx, &producerRequest{ProducerID: -1, ProducerEpoch: -1})
	if err != nil {
		return identity{}, generation, err
	}
	producer := res.(*initproducerid.Response)
	return identity{producer: producer.ProducerID, epoch: producer.ProducerEpoch}, generation, answer(producer.ErrorCode, "")
}

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
