package config

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"example.org/bridge/sink"
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

const standbyVariable = prefix + "STANDBY"

// standbyName is what a name of a group may be: a part of the name of a group of Kafka, and of a
// key of NATS.
var standbyName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// check checks the standby group, and says what its processes must agree on.
func (s *Standby) check(l *loader, cfg *Config, settings *globalSettings) {
	p := &settings.Process
	*s = Standby{Group: p.Standby, Timeout: p.StandbyTimeout}
	switch {
	case p.Standby == "":
		if timeout := standbyVariable + "_TIMEOUT"; l.env[timeout] != "" && l.env[timeout] != defaultOf(timeout) {
			l.warn(timeout, "has no effect without %s", standbyVariable)
		}
		return
	case !standbyName.MatchString(p.Standby):
		l.add(standbyVariable, "invalid name: use up to 100 letters, digits, - and _")
	case cfg.Sink.Scheme != "kafka" && cfg.Sink.Scheme != "nats" && !l.has(sinkVariable):
		l.add(standbyVariable, "is set, and the sink %s: cannot tell several processes which of them works: use Kafka or NATS, or unset this", cfg.Sink.Scheme)
	}
	for i := range cfg.Streams {
		if stream := &cfg.Streams[i]; stream.Start.Latest && cfg.CheckpointTopic == "" {
			l.add(StreamPrefix(stream.Name)+"START", "latest is decided by one process, and no other one of %s knows what it decided before a row is published: set %s=bus:, or use an id, or beginning", standbyVariable, checkpointVariable)
		}
	}
	agreed := make(agreement)
	agreed.add(prefix, globalVariables(), cfg.agreed())
	for i := range cfg.Streams {
		stream := &cfg.Streams[i]
		agreed.add(StreamPrefix(stream.Name), streamVariables(stream.Name), stream.agreed())
	}
	s.Settings = agreed
}

// agreement has a hash of each variable.
type agreement map[string]string

// add adds the values of variables, whose names begin with begin, where they are not the defaults:
// so one that a former version does not know differs only where it is set.
func (a agreement) add(begin string, variables []Variable, values map[string]string) {
	for _, v := range variables {
		if value := values[strings.TrimPrefix(v.Name, begin)]; value != "" && value != v.def {
			sum := sha256.Sum256([]byte(value))
			a[v.Name] = base64.RawURLEncoding.EncodeToString(sum[:6])
		}
	}
}

// agreed returns the values of the variables of the process that decide what is published. How the
// source and the bus are reached may differ.
func (c *Config) agreed() map[string]string {
	streams := make([]string, len(c.Streams))
	for i := range c.Streams {
		streams[i] = c.Streams[i].Name
	}
	slices.Sort(streams)
	values := map[string]string{
		"SOURCE_URL": c.Source.Scheme + "/" + c.Source.Database, "DELIVERY": c.Sink.Delivery(), "STREAMS": strings.Join(streams, ","),
		"DOMAIN_ID": c.DomainID, "STANDBY_TIMEOUT": c.Standby.Timeout.String(), "NATS_STREAM": c.Sink.NATS.Stream,
	}
	// The folder is of each process.
	values["CHECKPOINT_URL"], values["CHECKPOINT_TOPIC"] = "", c.CheckpointTopic
	if c.CheckpointTopic != "" {
		values["CHECKPOINT_URL"] = "bus:"
	}
	if c.Sink.ExactlyOnce {
		values["KAFKA_TRANSACTIONAL_ID"] = c.Sink.Kafka.TransactionalID
		values["NATS_CLAIM_SUBJECT"] = c.Sink.NATS.Claim
	}
	return values
}

// agreed returns the values of the variables of a stream that decide what is published.
func (s *Stream) agreed() map[string]string {
	text := func(v any, empty bool) string {
		if empty {
			return ""
		}
		return fmt.Sprint(v)
	}
	return map[string]string{
		"TABLE": strings.Join(s.Tables, ","), "KIND": string(s.Kind), "EVENT": s.Event, "EVENT_NAMES": text(s.EventNames, len(s.EventNames) == 0),
		"EVENT_VERSION": s.Version, "EVENT_FORMAT": string(s.Format),
		"FIELDS": text(s.Fields, len(s.Fields) == 0), "EXCLUDE": strings.Join(s.Exclude, ","), "MASK": maskText(s.Masks), "ID": s.ID, "KEY": strings.Join(s.Key, ","), "CREATED": s.Created, "MODIFIED": s.Modified,
		"DELETED": deletionText(s), "FILTER": s.Filter, "DESTINATION": s.Destination, "FAMILY": s.Family, "TAG": s.Tag, "START": text(s.Start, s.Start == Start{}),
		"GAP_POLICY": s.GapPolicy, "ID_ORDER": s.IDOrder,
		"KAFKA_TOMBSTONES": s.KafkaTombstones, "DEAD_LETTER": s.DeadLetter, "ON_BAD_VALUE": s.OnBadValue, "ON_SCHEMA_CHANGE": s.OnSchemaChange, "TIME_ZONE": s.TimeZone.Location.String(),
	}
}
