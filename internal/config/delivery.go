package config

import (
	"strings"

	"bridge/sink"
)

// Delivery modes.
const (
	AtLeastOnce = "at-least-once"
	ExactlyOnce = "exactly-once"
)

// Delivery returns the delivery mode.
func (s *Sink) Delivery() string {
	if s.ExactlyOnce {
		return ExactlyOnce
	}
	return AtLeastOnce
}

// checkDelivery checks BRIDGE_DELIVERY and the settings that count with it.
func (s *Sink) checkDelivery(l *loader, settings *globalSettings) {
	const variable, stream = prefix + "DELIVERY", prefix + "NATS_STREAM"
	s.ExactlyOnce = settings.Ends.Delivery == ExactlyOnce
	if !s.ExactlyOnce {
		s.warnDelivery(l, "kafka", prefix+"KAFKA_TRANSACTIONAL_ID", settings.Kafka.KafkaTransactionalID)
		s.warnDelivery(l, "nats", prefix+"NATS_CLAIM_SUBJECT", settings.NATS.NATSClaimSubject)
		return
	}
	switch s.Scheme {
	case "kafka":
	case "nats":
		if settings.NATS.NATSStream == "" {
			l.add(stream, "is not set, but %s is exactly-once: name the one stream that takes all messages", variable)
		}
	default:
		l.add(variable, "is exactly-once, which the sink %s: cannot promise: use Kafka or NATS, or at-least-once", s.Scheme)
	}
}

// warnDelivery warns of a setting that has no effect without exactly-once.
func (s *Sink) warnDelivery(l *loader, scheme, variable, value string) {
	if s.Scheme == scheme && value != "" {
		l.warn(variable, "has no effect without %s=exactly-once", prefix+"DELIVERY")
	}
}

// defaultClaim returns the subject of claims for a domain, whose dots separate tokens.
func defaultClaim(domain string) string {
	claim := []byte("bridge.claim")
	for token := range strings.SplitSeq(domain, ".") {
		claim = sink.EscapeToken(append(claim, '.'), token)
	}
	return string(claim)
}
