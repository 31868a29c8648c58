package config

import "strings"

// NeedRestart returns the variables that a reload cannot change.
func NeedRestart() (names []string) {
	for _, one := range new(Config).fixed() {
		names = append(names, one.variable)
	}
	return names
}

// fixedValue is a value that a reload must find as it was.
type fixedValue struct{ variable, value string }

// fixed returns what stays open over a reload, and what decides where progress is kept and which
// messages are our own.
func (c *Config) fixed() []fixedValue {
	token, folder := "", c.CheckpointPath
	if c.HTTPToken != nil {
		// While it cannot be read, every request is refused.
		token, _ = c.HTTPToken()
	}
	if c.temporary {
		folder = ""
	}
	return []fixedValue{
		{checkpointVariable, folder}, {topicVariable, c.CheckpointTopic},
		{prefix + "DOMAIN_ID", c.DomainID},
		{HTTPVariable, c.HTTPAddr}, {HTTPTokenVariable, token},
		{prefix + httpTLS + "CA", c.HTTPTLS.CA}, {prefix + httpTLS + "CERT", c.HTTPTLS.Cert}, {prefix + httpTLS + "KEY", c.HTTPTLS.Key},
		{prefix + "LOG_FORMAT", c.LogFormat},
		{sinkVariable, strings.Join(append([]string{c.Sink.Scheme, c.Sink.Folder}, c.Sink.Servers...), " ")},
		{prefix + "NATS_DOMAIN", c.Sink.JetStreamDomain},
		{shareVariable, c.Share.String()}, {standbyVariable, c.Standby.Group}, {standbyVariable + "_TIMEOUT", c.Standby.Timeout.String()},
	}
}

// Reloaded returns the configuration that replaces c when next was read. The error is an
// *Error with all variables that need a restart.
func (c *Config) Reloaded(next *Config) (*Config, error) {
	var l faults
	now := next.fixed()
	for i, one := range c.fixed() {
		if one.value != now[i].value {
			l.add(one.variable, "has another value, which needs a restart: change it back, or restart bridge")
		}
	}
	if err := l.err(); err != nil {
		return nil, err
	}
	reloaded := *next
	// The name of a temporary folder depends on the streams.
	reloaded.CheckpointPath = c.CheckpointPath
	return &reloaded, nil
}
