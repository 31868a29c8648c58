package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go/protocol"

	"bridge/sink"
)

// Requests that kafka-go does not know (KIP-664, Kafka 3.0).
const (
	describeProducers protocol.ApiKey = 61
	listTransactions  protocol.ApiKey = 66
)

// errHeldUp says why a leader hides what it has.
var errHeldUp = fmt.Errorf("%w: it ends by itself after the producer's transaction.timeout.ms, "+
	"or see to it with kafka-transactions.sh find-hanging", sink.ErrHeldUp)

// heldUp names the transaction that holds back what lies at an offset of a partition, as far as the
// brokers tell, and how it is ended.
func (c *cluster) heldUp(ctx context.Context, topic string, partition int32) error {
	res, _, err := c.roundTrip(ctx, &producersRequest{fetchRequest: fetchRequest{topic: topic, partition: partition, clientID: c.clientID}})
	if err != nil {
		return errHeldUp
	}
	first := *res.(*openTransaction)
	if first.from < 0 {
		return errHeldUp
	}
	by := fmt.Sprintf("producer %d", first.producer)
	if res, _, err := c.roundTrip(ctx, &transactionsRequest{producer: first.producer, clientID: c.clientID}); err == nil {
		if id := res.(transactionsResponse).id; id != "" {
			by += fmt.Sprintf(" (transactional id %s)", id)
		}
	}
	return fmt.Errorf("%w: it is of %s and begins at offset %d: kafka-transactions.sh --bootstrap-server %s abort --topic %s --partition %d --start-offset %d",
		errHeldUp, by, first.from, firstOf(c.addr.String()), topic, partition, first.from)
}

// producersRequest asks the leader of a partition who writes there.
type producersRequest struct {
	fetchRequest
	supported bool
}

// openTransaction is the answer: the transaction that was opened first, from -1 without one.
type openTransaction struct{ producer, from int64 }

var (
	_ protocol.BrokerMessage = (*producersRequest)(nil)
	_ protocol.RawExchanger  = (*producersRequest)(nil)
)

func (*producersRequest) ApiKey() protocol.ApiKey { return describeProducers }
func (*openTransaction) ApiKey() protocol.ApiKey  { return describeProducers }

// Required implements protocol.RawExchanger.
func (r *producersRequest) Required(versions map[protocol.ApiKey]int16) bool {
	_, r.supported = versions[describeProducers]
	return true
}

// RawExchange implements protocol.RawExchanger.
func (r *producersRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if !r.supported {
		return nil, errNoDescribe
	}
	b := append(appendRequestHeader(nil, describeProducers, 0, firstExchange, r.clientID), 0)
	b = binary.AppendUvarint(b, 2)
	b = append(binary.AppendUvarint(b, uint64(len(r.topic))+1), r.topic...)
	b = binary.BigEndian.AppendUint32(binary.AppendUvarint(b, 2), uint32(r.partition))
	body, err := exchange(rw, append(b, 0, 0), firstExchange)
	if err != nil {
		return nil, err
	}
	return decodeProducers(body)
}

// decodeProducers reads an answer about one partition behind the correlation id.
func decodeProducers(body []byte) (*openTransaction, error) {
	w := wireReader{rest: body}
	w.tags()
	w.next(4)
	first := &openTransaction{from: -1}
	for range w.count() {
		w.text()
		for range w.count() {
			w.next(4)
			code, message := int16(w.uint16()), w.text()
			if err := answer(code, string(message)); err != nil {
				return nil, err
			}
			for range w.count() {
				producer := w.int64()
				w.next(4 + 4 + 8 + 4)
				if from := w.int64(); from >= 0 && (first.from < 0 || from < first.from) {
					*first = openTransaction{producer, from}
				}
				w.tags()
			}
			w.tags()
		}
		w.tags()
	}
	return first, w.err()
}

// transactionsRequest asks all brokers for the transactional id of a producer. It shows to those
// alone who may describe it.
type transactionsRequest struct {
	producer int64
	clientID string
}

// transactionsResponse has the transactional id, empty where no broker tells.
type transactionsResponse struct{ id string }

// transactionsOfBroker is the request to one broker.
type transactionsOfBroker struct {
	*transactionsRequest
	broker    protocol.Broker
	supported bool
}

var (
	_ protocol.Splitter      = (*transactionsRequest)(nil)
	_ protocol.BrokerMessage = (*transactionsOfBroker)(nil)
	_ protocol.RawExchanger  = (*transactionsOfBroker)(nil)
)

func (*transactionsRequest) ApiKey() protocol.ApiKey { return listTransactions }
func (transactionsResponse) ApiKey() protocol.ApiKey { return listTransactions }

// Split implements protocol.Splitter.
func (r *transactionsRequest) Split(cluster protocol.Cluster) (messages []protocol.Message, _ protocol.Merger, _ error) {
	for _, b := range cluster.Brokers {
		messages = append(messages, &transactionsOfBroker{transactionsRequest: r, broker: b})
	}
	return messages, r, nil
}

// Merge implements protocol.Merger.
func (r *transactionsRequest) Merge(_ []protocol.Message, results []any) (protocol.Message, error) {
	var found transactionsResponse
	for _, result := range results {
		// A broker that does not answer leaves the id unknown.
		if one, ok := result.(transactionsResponse); ok && one.id != "" {
			found = one
		}
	}
	return found, nil
}

// Broker implements protocol.BrokerMessage.
func (r *transactionsOfBroker) Broker(protocol.Cluster) (protocol.Broker, error) {
	return r.broker, nil
}

// Required implements protocol.RawExchanger.
func (r *transactionsOfBroker) Required(versions map[protocol.ApiKey]int16) bool {
	_, r.supported = versions[listTransactions]
	return true
}

// RawExchange implements protocol.RawExchanger.
func (r *transactionsOfBroker) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if !r.supported {
		return nil, errNoDescribe
	}
	b := append(appendRequestHeader(nil, listTransactions, 0, firstExchange, r.clientID), 0)
	// Of any state, of one producer, no tags.
	b = binary.AppendUvarint(binary.AppendUvarint(b, 1), 2)
	b = append(binary.BigEndian.AppendUint64(b, uint64(r.producer)), 0)
	body, err := exchange(rw, b, firstExchange)
	if err != nil {
		return nil, err
	}
	w := wireReader{rest: body}
	w.tags()
	w.next(4 + 2)
	for range w.count() {
		w.text()
	}
	var found transactionsResponse
	for range w.count() {
		id, producer := string(w.text()), w.int64()
		w.text()
		w.tags()
		if producer == r.producer {
			found.id = id
		}
	}
	return found, w.err()
}
