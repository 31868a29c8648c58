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
	t.Run("exactly-once on NATS needs the stream, and has the domain's claim subject, or its own", func(t *testing.T) {
		env := with("BRIDGE_SINK_URL", "nats://host", "BRIDGE_DELIVERY", "exactly-once", "BRIDGE_DOMAIN_ID", "shop.eu west")
		wantFault(t, env, "BRIDGE_NATS_STREAM", "exactly-once")
		env["BRIDGE_NATS_STREAM"] = "EVENTS"
		if s := load(t, env).Sink; !s.ExactlyOnce || s.NATS.Claim != "bridge.claim.shop.eu%20west" {
			t.Errorf("got %+v", s)
		}
		env["BRIDGE_NATS_CLAIM_SUBJECT"] = "events.claim"
		if claim := load(t, env).Sink.NATS.Claim; claim != "events.claim" {
			t.Errorf("got %q", claim)
		}
		delete(env, "BRIDGE_DELIVERY")
		cfg := load(t, env)
		if cfg.Sink.ExactlyOnce || len(cfg.Warnings) != 1 || cfg.Warnings[0].Variable != "BRIDGE_NATS_CLAIM_SUBJECT" {
			t.Errorf("warned of %v", cfg.Warnings)
		}
	})
	t.Run("other buses refuse it", func(t *testing.T) {
		for _, url := range []string{"embedded:", "stdout:"} {
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
