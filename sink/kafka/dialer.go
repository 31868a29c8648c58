package kafka

import kafkago "github.com/segmentio/kafka-go"

// Dialer returns what connects kafka-go's own clients, by TLS and SASL of the options. Close drops
// these connections, too.
func (r *Requester) Dialer() *kafkago.Dialer {
	d := &kafkago.Dialer{ClientID: r.cluster.clientID, Timeout: connectWithin, DialFunc: r.cluster.dial}
	if r.cluster.login != nil {
		d.SASLMechanism = r.cluster.login.mechanism()
	}
	return d
}
