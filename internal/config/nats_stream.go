package config

const (
	replicasVariable = prefix + "NATS_STREAM_REPLICAS"
	maxAgeVariable   = prefix + "NATS_STREAM_MAX_AGE"
	maxBytesVariable = prefix + "NATS_STREAM_MAX_BYTES"
	storageVariable  = prefix + "NATS_STREAM_STORAGE"
	windowVariable   = prefix + "NATS_STREAM_DUPLICATE_WINDOW"
)

// keepingVariables are those of a stream that is created.
var keepingVariables = []string{replicasVariable, maxAgeVariable, maxBytesVariable, storageVariable, windowVariable}

// check checks how a stream that is created keeps messages.
func (k *Keeping) check(l *loader, s *Sink, settings *natsSettings) {
	if l.has(keepingVariables...) {
		return
	}
	*k = Keeping{
		Replicas: settings.NATSStreamReplicas, MaxAge: settings.NATSStreamMaxAge, MaxBytes: int64(settings.NATSStreamMaxBytes),
		File: settings.NATSStreamStorage == "file", Memory: settings.NATSStreamStorage == "memory", DuplicateWindow: settings.NATSStreamDuplicateWindow,
	}
	switch {
	case k.Memory && s.ExactlyOnce:
		l.add(storageVariable, "is memory, which loses what was acknowledged when its servers restart, and BRIDGE_DELIVERY is exactly-once, which promises that nothing is lost: use file, or at-least-once")
	case k.Memory:
		l.warn(storageVariable, "memory loses all messages when the servers of the stream restart: capability streams are published again then, and release streams stop until a person decides")
	}
	if k.DuplicateWindow > k.MaxAge && k.MaxAge > 0 {
		l.add(windowVariable, "is longer than %s, which no server takes: use at most %s", maxAgeVariable, k.MaxAge)
	}
	if s.Scheme == "embedded" && k.Replicas > 1 {
		l.add(replicasVariable, "is above 1, but embedded: is one server: use nats: with a cluster, or unset this")
	}
	if s.Scheme == "nats" && settings.NATSStream == "" {
		for _, variable := range keepingVariables {
			// Buckets have replicas, too.
			if l.env[variable] != "" && variable != replicasVariable {
				l.warn(variable, "has no effect without %s", prefix+"NATS_STREAM")
			}
		}
	}
}

// warnMemory warns of progress that outlives the messages it counts.
func (c *Config) warnMemory(l *loader) {
	if c.CheckpointTopic != "" && c.Sink.NATS.Keeps.Memory {
		l.warn(storageVariable, "memory, and %s=bus: keeps progress in files: after a restart of the servers the progress names messages that are gone, and release streams stop", checkpointVariable)
	}
}
