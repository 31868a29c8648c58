package config

import "testing"

func TestDelivery(t *testing.T) {
	t.Run("exactly-once on Kafka has the domain's transactional id, or its own", func(t *testing.T) {
		env := with("BRIDGE_DELIVERY", "exactly-once", "BRIDGE_DOMAIN_ID", "shop")
		s := load(t, env).Sink
		if k := s.Kafka; !s.ExactlyOnce || s.Delivery() != ExactlyOnce || k.TransactionalID != "bridge.shop" || k.TransactionInterval.Milliseconds() != 100 {
			t.Errorf("got %+v", s)
		}
		env["BRIDGE_KAFKA_TRANSACTIONAL_ID"] = "mine"
		if id := load(t, env).Sink.Kafka.TransactionalID; id != "mine" {
			t.Errorf("got %q", id)
		}
	})
	t.Run("other buses refuse it", func(t *testing.T) {
		for _, url := range []string{"nats://host", "embedded:", "stdout:"} {
			wantFault(t, with("BRIDGE_SINK_URL", url, "BRIDGE_DELIVERY", "exactly-once"), "BRIDGE_DELIVERY", "cannot promise")
		}
	})
	t.Run("a transactional id without it has no effect", func(t *testing.T) {
		cfg := load(t, with("BRIDGE_KAFKA_TRANSACTIONAL_ID", "mine"))
		if cfg.Sink.ExactlyOnce || len(cfg.Warnings) != 1 || cfg.Warnings[0].Variable != "BRIDGE_KAFKA_TRANSACTIONAL_ID" {
			t.Errorf("warned of %v", cfg.Warnings)
		}
	})
}
