package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go/protocol"
)

// describeTransactions is the key of a request that kafka-go does not know (KIP-664, Kafka 3.0).
const describeTransactions protocol.ApiKey = 65

// errNoDescribe says that the brokers are too old.
var errNoDescribe = errors.New("the brokers do not tell who publishes under a transactional id (DescribeTransactions, Kafka 3.0), which exactly-once needs")

// describeRequest asks the coordinator for the state of a transactional id.
type describeRequest struct {
	id, clientID string
	supported    bool
}

// transactionState is the answer.
type transactionState struct {
	code int16
	// timeoutMs is that of the process that initialised last.
	timeoutMs int32
	producer  int64
	epoch     int16
}

var (
	_ protocol.TransactionalMessage = (*describeRequest)(nil)
	_ protocol.RawExchanger         = (*describeRequest)(nil)
)

func (*describeRequest) ApiKey() protocol.ApiKey  { return describeTransactions }
func (*transactionState) ApiKey() protocol.ApiKey { return describeTransactions }

// Transaction implements protocol.TransactionalMessage: it goes to the coordinator.
func (r *describeRequest) Transaction() string { return r.id }

// Required implements protocol.RawExchanger.
func (r *describeRequest) Required(versions map[protocol.ApiKey]int16) bool {
	_, r.supported = versions[describeTransactions]
	return true
}

// RawExchange implements protocol.RawExchanger.
func (r *describeRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if !r.supported {
		return nil, errNoDescribe
	}
	// Version 0 is flexible: its header has tags behind it.
	b := append(appendRequestHeader(nil, describeTransactions, 0, firstExchange, r.clientID), 0)
	b = binary.AppendUvarint(b, 2)
	b = binary.AppendUvarint(b, uint64(len(r.id))+1)
	b = append(append(b, r.id...), 0)
	body, err := exchange(rw, b, firstExchange)
	if err != nil {
		return nil, err
	}
	return r.decode(body)
}

// decode reads the answer behind the correlation id.
func (r *describeRequest) decode(body []byte) (*transactionState, error) {
	w := wireReader{rest: body}
	w.tags()
	w.next(4)
	if n := w.count(); n != 1 && !w.short {
		return nil, fmt.Errorf("the broker describes %d transactions, asked was for one", n)
	}
	s := &transactionState{code: int16(w.uint16())}
	id := string(w.text())
	w.text()
	s.timeoutMs = int32(w.uint32())
	w.next(8)
	s.producer, s.epoch = w.int64(), int16(w.uint16())
	switch {
	case w.short:
		return nil, errCutOff
	case id != r.id:
		return nil, fmt.Errorf("the broker describes transactional id %q, asked was for %q", id, r.id)
	}
	return s, nil
}
