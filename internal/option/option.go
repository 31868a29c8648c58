package option

import (
	"fmt"
	"slices"
	"strings"
)

// Name is a setting, by its name in docs/configuration.md without what begins all names.
type Name string

// The settings that texts name.
const (
	SourceURL                 Name = "SOURCE_URL"
	SourceConnections         Name = "SOURCE_CONNECTIONS"
	DomainID                  Name = "DOMAIN_ID"
	SinkURL                   Name = "SINK_URL"
	CheckpointURL             Name = "CHECKPOINT_URL"
	Share                     Name = "SHARE"
	DeadLetter                Name = "DEAD_LETTER"
	DeadLetterLimit           Name = "DEAD_LETTER_LIMIT"
	Delivery                  Name = "DELIVERY"
	KafkaTransactionID        Name = "KAFKA_TRANSACTIONAL_ID"
	KafkaTLS                  Name = "KAFKA_TLS"
	KafkaTLSCA                Name = "KAFKA_TLS_CA"
	KafkaSASLMechanism        Name = "KAFKA_SASL_MECHANISM"
	KafkaSASLUsername         Name = "KAFKA_SASL_USERNAME"
	KafkaSASLPassword         Name = "KAFKA_SASL_PASSWORD"
	KafkaSASLTokenFile        Name = "KAFKA_SASL_TOKEN_FILE"
	NATSStream                Name = "NATS_STREAM"
	NATSCreateStream          Name = "NATS_CREATE_STREAM"
	NATSStreamReplicas        Name = "NATS_STREAM_REPLICAS"
	NATSStreamStorage         Name = "NATS_STREAM_STORAGE"
	NATSStreamMaxAge          Name = "NATS_STREAM_MAX_AGE"
	NATSStreamMaxBytes        Name = "NATS_STREAM_MAX_BYTES"
	NATSStreamDuplicateWindow Name = "NATS_STREAM_DUPLICATE_WINDOW"
	NATSClaimSubject          Name = "NATS_CLAIM_SUBJECT"
	NATSDomain                Name = "NATS_DOMAIN"
	NATSCreds                 Name = "NATS_CREDS"
	NATSNKey                  Name = "NATS_NKEY"
	NATSTLSCA                 Name = "NATS_TLS_CA"
	Serve                     Name = "SERVE"
	HTTPToken                 Name = "HTTP_TOKEN"
	HTTPTLSCert               Name = "HTTP_TLS_CERT"
	HTTPTLSCA                 Name = "HTTP_TLS_CA"
	Standby                   Name = "STANDBY"
	StandbyTimeout            Name = "STANDBY_TIMEOUT"
)

// The settings of one stream that texts name.
const (
	Table               Name = "TABLE"
	Start               Name = "START"
	GapPolicy           Name = "GAP_POLICY"
	ID                  Name = "ID"
	IDOrder             Name = "ID_ORDER"
	IDFormat            Name = "ID_FORMAT"
	Key                 Name = "KEY"
	Created             Name = "CREATED"
	Modified            Name = "MODIFIED"
	StaleAfter          Name = "STALE_AFTER"
	Deleted             Name = "DELETED"
	Fields              Name = "FIELDS"
	EventVersion        Name = "EVENT_VERSION"
	OnBadValue          Name = "ON_BAD_VALUE"
	OnSchemaChange      Name = "ON_SCHEMA_CHANGE"
	Exclude             Name = "EXCLUDE"
	Mask                Name = "MASK"
	Payload             Name = "PAYLOAD"
	Headers             Name = "HEADERS"
	Destination         Name = "DESTINATION"
	Destinations        Name = "DESTINATIONS"
	Filter              Name = "FILTER"
	KafkaTombstones     Name = "KAFKA_TOMBSTONES"
	TimeZone            Name = "TIME_ZONE"
	ReconcileMaxDeletes Name = "RECONCILE_MAX_DELETES"
	Rate                Name = "RATE"
)

// A Naming returns what a person calls a setting.
type Naming func(Name) string

// Short is the naming of errors whose text is taken without another one.
func Short(name Name) string { return string(name) }

// Sprintf is fmt.Sprintf with each Name among args as naming has it, and each error as Text has it.
func Sprintf(naming Naming, format string, args ...any) string {
	args = slices.Clone(args)
	for i, arg := range args {
		switch arg := arg.(type) {
		case Name:
			args[i] = naming(arg)
		case error:
			args[i] = Text(arg, naming)
		}
	}
	return fmt.Sprintf(format, args...)
}

// Errorf is fmt.Errorf for an error with a Name among args.
func Errorf(format string, args ...any) error {
	return &namedError{format: strings.ReplaceAll(format, "%w", "%v"), args: args, err: fmt.Errorf(format, args...)}
}

type namedError struct {
	format string
	args   []any
	err    error
}

func (e *namedError) Error() string { return e.err.Error() }

func (e *namedError) Unwrap() error { return e.err }

// Named returns the text with settings as naming has them.
func (e *namedError) Named(naming Naming) string { return Sprintf(naming, e.format, e.args...) }

// Text returns the text of err, with the settings that it and the errors it wraps name as naming
// has them.
func Text(err error, naming Naming) string {
	if e, ok := err.(interface{ Named(Naming) string }); ok {
		return e.Named(naming)
	}
	text := err.Error()
	for _, inner := range unwrap(err) {
		if inner != nil {
			text = strings.Replace(text, inner.Error(), Text(inner, naming), 1)
		}
	}
	return text
}

func unwrap(err error) []error {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	}
	return nil
}
