package config

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

// checkDelivery checks BRIDGE_DELIVERY.
func (s *Sink) checkDelivery(l *loader, settings *globalSettings) {
	const variable, id = prefix + "DELIVERY", prefix + "KAFKA_TRANSACTIONAL_ID"
	s.ExactlyOnce = settings.Ends.Delivery == ExactlyOnce
	if s.ExactlyOnce && s.Scheme != "kafka" {
		l.add(variable, "is exactly-once, which the sink %s: cannot promise: use Kafka, or at-least-once", s.Scheme)
	}
	if !s.ExactlyOnce && s.Scheme == "kafka" && settings.Kafka.KafkaTransactionalID != "" {
		l.warn(id, "has no effect without %s=exactly-once", variable)
	}
}
