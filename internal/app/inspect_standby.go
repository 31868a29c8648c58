package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"bridge/internal/config"
	"bridge/internal/inspect"
	"bridge/internal/option"
	"bridge/internal/standby"
)

// inspectStandby finds what keeps the process from its standby group, where it has one and the bus
// can be reached. It takes no part in the election.
func inspectStandby(ctx context.Context, cfg *config.Config, r *inspect.Report) {
	unreached := func(f inspect.Finding) bool { return f.Code == inspect.SinkUnreachable || f.Code == inspect.SinkLogin }
	if cfg.Standby.Group == "" || slices.ContainsFunc(r.Findings, unreached) {
		return
	}
	elector, err := openElector(cfg, slog.New(slog.DiscardHandler))
	if err == nil {
		err = checkElector(ctx, cfg, elector)
	}
	if err == nil {
		r.Summary += "; standby group " + standbyGroup(cfg)
		return
	}
	found := r.Add(inspect.Unsafe, inspect.StandbyGrant, "standby group "+standbyGroup(cfg), "cannot be joined: "+config.Text(err)).
		Says("see to the rights of the login, or unset %s", option.Standby)
	if cfg.Sink.Scheme == "kafka" {
		found.Types("kafka-acls.sh --bootstrap-server %s --add --allow-principal User:%s --operation Read --group %s",
			cfg.Sink.Kafka.Brokers[0], kafkaUser(cfg), standbyGroup(cfg))
	}
}

func checkElector(ctx context.Context, cfg *config.Config, e standby.Elector) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.Standby.Timeout, errors.New("the bus does not answer"))
	defer cancel()
	var err error
	if c, ok := e.(standby.Checker); ok {
		err = c.Check(ctx)
	}
	return errors.Join(err, e.Close())
}

// kafkaUser returns the user of the login for a command.
func kafkaUser(cfg *config.Config) string {
	if cfg.Sink.Kafka.Username == "" {
		return "<user>"
	}
	return cfg.Sink.Kafka.Username
}
