package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"

	findings "bridge/internal/inspect"
)

// inspectBrokers connects to each broker that leads a partition of topics, at the address that the
// cluster advertises for it: the brokers that the configuration names only tell of the others.
func (s *Sink) inspectBrokers(ctx context.Context, r *findings.Report, found *metadata.Response) {
	ctx, cancel := context.WithTimeoutCause(ctx, connectWithin, fmt.Errorf("no answer within %v", connectWithin))
	defer cancel()
	var leads []int32
	for _, topic := range found.Topics {
		for _, p := range topic.Partitions {
			leads = append(leads, p.LeaderID)
		}
	}
	var asking sync.WaitGroup
	errs := make([]error, len(found.Brokers))
	for i, b := range found.Brokers {
		if slices.Contains(leads, b.NodeID) {
			asking.Go(func() {
				_, _, errs[i] = s.cluster.roundTrip(ctx, &brokerRequest{broker: b.NodeID, clientID: s.cluster.clientID})
			})
		}
	}
	asking.Wait()
	for i, b := range found.Brokers {
		err := errs[i]
		if stray, ok := errors.AsType[*advertisedError](err); ok {
			err = stray.err
		}
		if err != nil {
			address := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
			r.Add(findings.Unsafe, findings.SinkUnreachable, "broker "+address, "leads partitions and does not answer at this address, which the cluster advertises (advertised.listeners)").
				Because(err).
				Says("have the broker advertise an address that this host resolves and reaches, or let this host reach it; to try it by hand").
				Types("kafka-broker-api-versions.sh --bootstrap-server %s", address)
		}
	}
}

// brokerRequest asks one broker for the versions that it speaks.
type brokerRequest struct {
	broker   int32
	clientID string
}

// brokerAnswer says that it answers.
type brokerAnswer struct{}

var (
	_ protocol.BrokerMessage = (*brokerRequest)(nil)
	_ protocol.RawExchanger  = (*brokerRequest)(nil)
)

func (*brokerRequest) ApiKey() protocol.ApiKey { return protocol.ApiVersions }
func (brokerAnswer) ApiKey() protocol.ApiKey   { return protocol.ApiVersions }

// Broker implements protocol.BrokerMessage.
func (r *brokerRequest) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	if b, known := cluster.Brokers[r.broker]; known {
		return b, nil
	}
	return protocol.Broker{}, fmt.Errorf("the cluster does not tell where broker %d is", r.broker)
}

// Required implements protocol.RawExchanger.
func (*brokerRequest) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange implements protocol.RawExchanger.
func (r *brokerRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	_, err := exchange(rw, appendRequestHeader(nil, protocol.ApiVersions, apiVersionsVersion, firstExchange, r.clientID), firstExchange)
	return brokerAnswer{}, err
}
