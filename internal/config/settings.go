package config

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// The structs of this file are the one list of variables. Their tags say:
//
//   - env: the name after BRIDGE_ or BRIDGE_STREAM_<NAME>_
//   - envDefault: the default
//   - doc: meaning and unit, for the reference
//   - example: a value for the reference
//   - oneof: the values allowed, whatever their letter case; min and max: the bounds, inclusive
//   - secret: the value is never shown, and NAME_FILE may name a file that holds it

// globalSettings are the variables that hold for the whole process.
type globalSettings struct {
	Ends    endSettings     `group:"Source and sink"`
	Process processSettings `group:"The process"`
	Tuning  Tuning          `group:"Defaults for all streams"`
	Kafka   kafkaSettings   `group:"Kafka"`
	NATS    natsSettings    `group:"NATS JetStream"`
}

type endSettings struct {
	SourceURL     string `env:"SOURCE_URL,required" secret:"true" example:"mysql://bridge:password@db.example.com:3306/orders" doc:"The database to read: mysql://user:password@host:port/database, or sqlite:///path.db for a file of SQLite (sqlite:file.db for a relative path; ?epoch=ms if Unix times are in milliseconds). User and password are percent-encoded. It needs SELECT and nothing else. After the database, ?tls=true, verify-ca (which needs tls-ca), skip-verify or preferred asks for TLS; &tls-ca=, &tls-cert= and &tls-key= name PEM files. A server that asks for the password itself (mysql_clear_password: RDS IAM, LDAP, PAM) gets it over TLS, but not with preferred."`
	SinkURL       string `env:"SINK_URL,required" secret:"true" example:"kafka://kafka-1.example.com:9092,kafka-2.example.com:9092" doc:"The bus to publish to: kafka://host:port,… or nats://user:password@host:port,… or embedded: for a NATS server inside the process, with its files beside the checkpoint (embedded:///path for another folder, ?listen=127.0.0.1:4222 to let other programs connect, without a login; port 0 chooses a free one), or stdout: to print one event a line."`
	Delivery      string `env:"DELIVERY" envDefault:"at-least-once" oneof:"at-least-once,exactly-once" doc:"exactly-once publishes in transactions of Kafka or in atomic batches of NATS JetStream: consumers (of Kafka, with isolation.level=read_committed) see each event once, whatever fails. at-least-once may repeat events after a kill. See docs/operations.md."`
	CheckpointURL string `env:"CHECKPOINT_URL" envDefault:"file:bridge.db" example:"file:///var/lib/bridge/bridge.db" doc:"The folder with the positions, and of capability streams what was published last: a folder whatever its name, bridge.db too. What is lost of it is read from the bus again. bus: keeps the progress of the tables on the bus, too, so that the folder may be lost: one below the system's temporary directory, or bus:///path for another one. For Kafka and NATS. See docs/operations.md."`
	Streams       list   `env:"STREAMS,required" example:"orders" doc:"The names of the streams, separated by commas, of the characters a-z, A-Z, 0-9 and _. Every stream has variables of its own, see below."`
}

type processSettings struct {
	EnvFile          string        `env:"ENV_FILE" example:"bridge.env" doc:"File with further variables, one NAME=value a line; those of the environment win. The flag --env-file of every command does the same, and wins over this variable."`
	HTTPAddr         string        `env:"HTTP_ADDR" envDefault:"127.0.0.1:8080" example:":8080" doc:"host:port of /livez, /readyz, /metrics and /api/v1. The commands reconcile, deadletter resend, status, tail and health connect to it. Processes of a standby group on several hosts ask each other there: use :8080, say."`
	HTTPToken        string        `env:"HTTP_TOKEN" secret:"true" example:"16-characters-or-more" doc:"What a caller from another host sends as Authorization: Bearer to request a reconcile or a resend, and to read rows: at least 16 characters. Without it, such a caller is refused; a caller on loopback needs none. The commands send it. The same for all processes of a standby group."`
	HTTPTLSCert      string        `env:"HTTP_TLS_CERT" example:"/etc/bridge/http.pem" doc:"PEM file with the certificate of the HTTP server, which then speaks TLS alone. It is read again when it changes."`
	HTTPTLSKey       string        `env:"HTTP_TLS_KEY" example:"/etc/bridge/http-key.pem" doc:"PEM file with the key of that certificate."`
	HTTPTLSCA        string        `env:"HTTP_TLS_CA" example:"/etc/bridge/ca.pem" doc:"PEM file with the certificate authorities that commands, and processes of a standby group, trust when they ask a bridge over TLS, instead of the system's. A command that has no BRIDGE_HTTP_TLS_CERT speaks TLS where this is set."`
	Serve            bool          `env:"SERVE" envDefault:"false" doc:"Answer /api/v1/streams/<name>/entities from what was published and the tables, for programs beside bridge. Everybody who can reach BRIDGE_HTTP_ADDR can read the published columns, unless BRIDGE_HTTP_TOKEN is set. See docs/operations.md."`
	MetricsByShard   bool          `env:"METRICS_BY_SHARD" envDefault:"false" doc:"Make the series of /metrics that describe tables by table, with the label shard: some 28 for each. Without it they are by stream: a sum, the highest or the earliest value of its tables. See docs/operations.md."`
	LogLevel         string        `env:"LOG_LEVEL" envDefault:"info" oneof:"debug,info,warn,error" doc:"The least important messages to log."`
	LogFormat        string        `env:"LOG_FORMAT" oneof:"text,json" doc:"Format of log lines. Default: text on a terminal, else json."`
	Trace            string        `env:"TRACE" envDefault:"off" oneof:"on,off" doc:"on makes a span of each batch, sends it by OTLP over HTTP to where OTEL_EXPORTER_OTLP_ENDPOINT says (http://localhost:4318), and gives each message the header traceparent. See docs/operations.md."`
	DomainID         string        `env:"DOMAIN_ID" envDefault:"bridge" doc:"meta.source.domainId of every event: a name for the installation, the same on every host. bridge reads back the messages of its own domain alone."`
	MaskKey          string        `env:"MASK_KEY" secret:"true" example:"16-characters-or-more" doc:"The key of the form sha256 of MASK: at least 16 characters. With another one, every masked value is another one."`
	MaxInflightBytes size          `env:"MAX_INFLIGHT_BYTES" envDefault:"32MiB" min:"64KiB" max:"64GiB" doc:"Limit for the rows of all streams that are read and not acknowledged. When it is reached, reading waits for the bus."`
	ShutdownTimeout  time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"10s" min:"0s" max:"1h" doc:"How long SIGTERM or SIGINT waits for messages in flight. A second signal ends at once."`
	CheckpointTopic  string        `env:"CHECKPOINT_TOPIC" envDefault:"bridge-progress" doc:"With BRIDGE_CHECKPOINT_URL=bus:, the compacted topic of Kafka, of one partition, or the KV bucket of NATS, which bridge makes. Bridges of several domains may share it."`
	Standby          string        `env:"STANDBY" example:"orders" doc:"Name of a standby group: of all processes with this name on one bus, one works and the others wait, ready to take over. Each has a checkpoint of its own. Variables that decide what is published must be the same. For Kafka and NATS. See docs/operations.md."`
	StandbyTimeout   time.Duration `env:"STANDBY_TIMEOUT" envDefault:"10s" min:"1s" max:"10m" doc:"Within what time another process takes over from one that is not heard of: it is elected after nine tenths of it. The same for all processes of a group. Brokers of Kafka take 7s and more by default."`
}

// Tuning are the variables that hold for all streams and that every stream can override.
type Tuning struct {
	PollInterval        time.Duration `env:"POLL_INTERVAL" envDefault:"200ms" min:"1ms" max:"1h" doc:"Pause between two polls of a table without new rows."`
	BatchRows           int           `env:"BATCH_ROWS" envDefault:"2000" min:"1" max:"100000" doc:"Maximum number of rows in a page, which is one query and one publish."`
	StabilityWindow     time.Duration `env:"STABILITY_WINDOW" envDefault:"1s" min:"0s" max:"24h" doc:"A row is published when it is this old by the database's clock. 0s publishes at once."`
	GapPolicy           string        `env:"GAP_POLICY" envDefault:"late" oneof:"late,hold" doc:"late goes on past missing ids and publishes them later; hold waits for them."`
	GapTTL              time.Duration `env:"GAP_TTL" envDefault:"24h" min:"1m" max:"8760h" doc:"How long a missing id is polled."`
	IDOrder             string        `env:"ID_ORDER" envDefault:"auto" oneof:"auto,strict,strided,segmented,none" doc:"How ids are handed out. auto asks the server, strict is one counter, strided several that interleave, segmented blocks that writers hold, none no order. See [ids](operations.md#how-ids-are-handed-out)."`
	ReconcileInterval   time.Duration `env:"RECONCILE_INTERVAL" envDefault:"30m" min:"1s" max:"8760h" doc:"Maximum time between two reconciles of a table: each begins at a random time between half and all of it after the last one."`
	ReconcileRate       int64         `env:"RECONCILE_RATE" envDefault:"0" min:"0" max:"1000000000" doc:"Maximum rows a second that a reconcile reads; 0 means no limit."`
	ReconcileMaxDeletes Percent       `env:"RECONCILE_MAX_DELETES" envDefault:"10%" doc:"If a reconcile finds more than this share of the live entities gone, and more than 100, or more than half of them, it publishes no delete until a person agrees. 100% switches that off."`
	DeadLetter          string        `env:"DEAD_LETTER" example:"bridge.dead-letter" doc:"Topic or subject for rows that the bus refuses for good. Without it, such a row stops its stream."`
	DeadLetterLimit     int           `env:"DEAD_LETTER_LIMIT" envDefault:"100" min:"0" max:"1000000" doc:"Maximum rows a minute of a stream that become dead letters; one more stops the stream. 0 means no limit."`
	OnBadValue          string        `env:"ON_BAD_VALUE" envDefault:"null" oneof:"null,stop" doc:"For a zero date or invalid UTF-8, null publishes null and counts it, stop stops the stream."`
	KafkaTombstones     string        `env:"KAFKA_TOMBSTONES" envDefault:"auto" oneof:"auto,on,off" doc:"Capability streams on Kafka: behind each Deleted event a tombstone, a message with its key and no value, by which a compacted topic forgets the entity. auto: where the topic's cleanup.policy has compact, which shows to a login with DESCRIBE_CONFIGS."`
	OnSchemaChange      string        `env:"ON_SCHEMA_CHANGE" envDefault:"warn" oneof:"warn,stop" doc:"When a column that was published is dropped, renamed or gets another type, warn logs and counts it; stop stops the table until it is changed back or EVENT_VERSION is another one. An added column is neither."`
	TimeZone            Zone          `env:"TIME_ZONE" envDefault:"UTC" example:"Asia/Shanghai" doc:"The time zone of DATETIME columns, by its IANA name."`
}

type kafkaSettings struct {
	KafkaCompression         string        `env:"KAFKA_COMPRESSION" envDefault:"none" oneof:"none,gzip,snappy,lz4,zstd" doc:"Compression of batches. Every client reads none and gzip; some need a package for the others, see docs/operations.md."`
	KafkaTransactionalID     string        `env:"KAFKA_TRANSACTIONAL_ID" example:"bridge.orders" doc:"With BRIDGE_DELIVERY=exactly-once, the transactional id: the process that began last under it is the one that publishes. Default: bridge. and BRIDGE_DOMAIN_ID. Bridges of one domain with different streams need different ones."`
	KafkaTransactionInterval time.Duration `env:"KAFKA_TRANSACTION_INTERVAL" envDefault:"100ms" min:"1ms" max:"10s" doc:"With BRIDGE_DELIVERY=exactly-once, how long a transaction takes in batches at most. It ends earlier when none is ready."`
	KafkaTLS                 bool          `env:"KAFKA_TLS" envDefault:"false" doc:"Use TLS for connections to the brokers."`
	KafkaTLSCA               string        `env:"KAFKA_TLS_CA" example:"/etc/bridge/ca.pem" doc:"PEM file with the certificate authorities to trust, instead of the system's."`
	KafkaTLSCert             string        `env:"KAFKA_TLS_CERT" example:"/etc/bridge/cert.pem" doc:"PEM file with the client certificate."`
	KafkaTLSKey              string        `env:"KAFKA_TLS_KEY" example:"/etc/bridge/key.pem" doc:"PEM file with the key of the client certificate."`
	KafkaSASLMechanism       string        `env:"KAFKA_SASL_MECHANISM" oneof:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER,AWS_MSK_IAM" doc:"How to log in. Default: no login. OAUTHBEARER needs a token, AWS_MSK_IAM TLS, a region and credentials that the AWS SDK finds; the others a user and a password."`
	KafkaSASLUsername        string        `env:"KAFKA_SASL_USERNAME" example:"bridge" doc:"The user to log in as."`
	KafkaSASLPassword        string        `env:"KAFKA_SASL_PASSWORD" secret:"true" example:"password" doc:"The password of that user."`
	KafkaSASLToken           string        `env:"KAFKA_SASL_TOKEN" secret:"true" example:"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJicmlkZ2UifQ.c2lnbmF0dXJl" doc:"With OAUTHBEARER, the access token. It expires: have a sidecar or an agent keep the file of the _FILE form fresh."`
	KafkaSASLAWSRegion       string        `env:"KAFKA_SASL_AWS_REGION" example:"eu-west-1" doc:"With AWS_MSK_IAM, the region of the cluster. Default: AWS_REGION."`
}

type natsSettings struct {
	NATSStream                string        `env:"NATS_STREAM" example:"EVENTS" doc:"The JetStream stream for the messages. Required to create it, and for exactly-once. With embedded: the default is BRIDGE."`
	NATSCreateStream          bool          `env:"NATS_CREATE_STREAM" envDefault:"false" doc:"Create that stream if it is missing. embedded: always does."`
	NATSStreamReplicas        int           `env:"NATS_STREAM_REPLICAS" min:"1" max:"5" example:"3" doc:"Replicas of a stream that bridge creates, and of its KV buckets. Default: 1, as with NATS; for buckets 3, or 1 where there are fewer servers. bridge never changes a stream that is there: bridge check compares it with what is set."`
	NATSStreamMaxAge          time.Duration `env:"NATS_STREAM_MAX_AGE" min:"10m" max:"87600h" example:"168h" doc:"How long a stream that bridge creates keeps messages. Default: for ever. What has expired cannot be read back when the checkpoint is lost."`
	NATSStreamMaxBytes        size          `env:"NATS_STREAM_MAX_BYTES" min:"16MiB" max:"1048576GiB" example:"10GiB" doc:"How many bytes a stream that bridge creates keeps: at that size it drops the oldest messages. Default: no limit but those of the account."`
	NATSStreamStorage         string        `env:"NATS_STREAM_STORAGE" oneof:"file,memory" doc:"Where a stream that bridge creates keeps messages. Default: file. memory loses all that was acknowledged when its servers restart, and is refused with exactly-once."`
	NATSStreamDuplicateWindow time.Duration `env:"NATS_STREAM_DUPLICATE_WINDOW" min:"10s" max:"24h" example:"5m" doc:"For how long a stream that bridge creates remembers message ids and drops repeats. Default: 2m, as with NATS. It costs the server about 114 bytes a message."`
	NATSClaimSubject          string        `env:"NATS_CLAIM_SUBJECT" example:"events.bridge.claim" doc:"With BRIDGE_DELIVERY=exactly-once, a subject of the stream that no event has: the process that published there last is the one that publishes. Default: bridge.claim. and BRIDGE_DOMAIN_ID. Bridges of one domain with different tables need different ones."`
	NATSDomain                string        `env:"NATS_DOMAIN" example:"hub" doc:"The JetStream domain that has the stream, where it is not that of the servers: of a hub behind leaf nodes, say."`
	NATSCreds                 string        `env:"NATS_CREDS" secret:"true" example:"/etc/bridge/bridge.creds" doc:"Credentials file of the user, or its contents."`
	NATSNKey                  string        `env:"NATS_NKEY" secret:"true" example:"/etc/bridge/bridge.nk" doc:"File with the NKey seed of the user, or the seed."`
	NATSTLSCA                 string        `env:"NATS_TLS_CA" example:"/etc/bridge/ca.pem" doc:"PEM file with the certificate authorities to trust, instead of the system's."`
	NATSTLSCert               string        `env:"NATS_TLS_CERT" example:"/etc/bridge/cert.pem" doc:"PEM file with the client certificate."`
	NATSTLSKey                string        `env:"NATS_TLS_KEY" example:"/etc/bridge/key.pem" doc:"PEM file with the key of the client certificate."`
	NATSTLSHandshakeFirst     bool          `env:"NATS_TLS_HANDSHAKE_FIRST" envDefault:"false" doc:"Begin connections with TLS, for servers with handshake_first."`
}

// streamSettings are the variables of one stream besides its tuning.
type streamSettings struct {
	Table       string `env:"TABLE,required" example:"orders_{0..63}" doc:"The tables of the stream: t, db.t, a range t_{0..63}, or a list with commas. One shard each."`
	Kind        string `env:"KIND,required" oneof:"capability,release" example:"capability" doc:"capability: a row is the current state of an entity. release: a row is a fact in a log."`
	Event       string `env:"EVENT" example:"Order" doc:"The stem of the event types: Order makes OrderAddedEvent. Default: the stream's name in camel case."`
	EventNames  list   `env:"EVENT_NAMES" example:"added:OrderAddedMessage,deleted:OrderDeletedMessage" doc:"Your own event types, by operation: added, modified, deleted; published for a release stream."`
	Version     string `env:"EVENT_VERSION" envDefault:"1.0.0" doc:"meta.version of the events: three numbers with dots. Set another one when consumers have to tell events by their members."`
	Format      string `env:"EVENT_FORMAT" envDefault:"eiffel" oneof:"eiffel,cloudevents,row" doc:"What a message holds: eiffel, the document {meta, data, links}; cloudevents, a CloudEvent 1.0 with that document as its data; row, the columns alone, with all else in headers. See docs/events.md."`
	Fields      list   `env:"FIELDS" example:"order_no:orderNo,state" doc:"The columns to publish, column:member or column. Default: all, in camel case."`
	Exclude     list   `env:"EXCLUDE" example:"password,notes" doc:"Columns to leave out where FIELDS is not set. A column that is added later is published."`
	Mask        list   `env:"MASK" example:"card:last4,notes:redact" doc:"Columns whose values are replaced as they are read, column:form. redact: four asterisks. last4: those and the last four characters. sha256: HMAC-SHA-256 under BRIDGE_MASK_KEY, by which equal values stay equal."`
	ID          string `env:"ID" envDefault:"id" doc:"The column of the increasing id."`
	Key         list   `env:"KEY" example:"region,order_no" doc:"The columns that identify the entity, separated by commas. Default: the id."`
	Created     string `env:"CREATED" example:"gmt_create" doc:"The column with the time at which a row was created."`
	Modified    string `env:"MODIFIED" example:"gmt_modified" doc:"The column with the time at which a row was last changed."`
	Deleted     string `env:"DELETED" example:"status=DELETED|ARCHIVED" doc:"The column that says that a row is deleted: by every value but NULL, 0, zero bits, an empty text, f, false, n, no, JSON null and a zero date. Or with the values that do, column=value, or those that do not, column!=value; several with | between them, in any letter case, of a time its beginning. See docs/events.md."`
	Filter      string `env:"FILTER" example:"state <> 'draft' AND region = 'eu'" doc:"An SQL condition on the row, for the database to evaluate. Rows that do not match (NULL does not) are no events of a release stream, and deleted for consumers of a capability stream (reason FILTERED). See docs/events.md."`
	Destination string `env:"DESTINATION" example:"events.{domain}.{stream}" doc:"Template of the topic or subject over {stream} {table} {type} {family} {tag} {domain} {key}. Default: {stream} for Kafka, eiffel.{family}.{type}.{tag}.{domain} for NATS and embedded:."`
	Family      string `env:"FAMILY" example:"orders" doc:"{family} in the destination."`
	Tag         string `env:"TAG" example:"blue" doc:"{tag} in the destination."`
	Start       Start  `env:"START" envDefault:"beginning" example:"latest" doc:"Where a table begins of which neither checkpoint nor bus has anything: beginning, latest, or after an id: its number."`
}

// environment holds the BRIDGE_ variables that are set. One that is empty counts as not set.
type environment map[string]string

// parseEnvironment picks the variables of bridge out of "NAME=value" entries. White space around a
// value is dropped, save around one that may be a secret.
func parseEnvironment(environ []string) environment {
	env := environment{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, prefix) || isException(name) {
			continue
		}
		if name != passwordVariable {
			value = strings.TrimSpace(value)
		}
		if value != "" {
			env[name] = value
		}
	}
	return env
}

// lookup returns the value of a variable of other programs, empty where it is not set.
func lookup(environ []string, name string) string {
	for _, entry := range environ {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// passwordVariable is the one variable whose value may begin or end with white space.
const passwordVariable = prefix + "KAFKA_SASL_PASSWORD"

// isException reports whether a variable is none of ours: Kubernetes sets BRIDGE_SERVICE_* and
// BRIDGE_PORT* for a Service named bridge, and the tests have variables of their own.
func isException(name string) bool {
	for _, begin := range []string{"TEST_", "SERVICE_", "PORT"} {
		if strings.HasPrefix(name[len(prefix):], begin) {
			return true
		}
	}
	return false
}

// names returns the names of all variables that are set, sorted.
func (e environment) names() []string { return slices.Sorted(maps.Keys(e)) }

// known returns the names of all variables that there are with these streams.
func known(streams []string) []string {
	var all []string
	for _, v := range globalVariables() {
		all = append(all, v.names()...)
	}
	for _, stream := range streams {
		for _, v := range streamVariables(stream) {
			all = append(all, v.names()...)
		}
	}
	return all
}

// globalVariables lists the variables of the process, streamVariables those of one stream.
func globalVariables() []Variable { return variablesOf(&globalSettings{}, prefix) }

func streamVariables(stream string) []Variable {
	begin := StreamPrefix(stream)
	return append(variablesOf(&streamSettings{}, begin), variablesOf(&Tuning{}, begin)...)
}

// StreamPrefix begins the names of a stream's variables.
func StreamPrefix(stream string) string { return streamPrefix + strings.ToUpper(stream) + "_" }

// defaultOf returns the default of a variable of the process, "" where it has none.
func defaultOf(name string) string {
	all := globalVariables()
	if i := slices.IndexFunc(all, func(v Variable) bool { return v.Name == name }); i >= 0 {
		return all[i].def
	}
	return ""
}

// names returns the name of the variable and, for a secret, that of its file.
func (v *Variable) names() []string {
	if v.secret {
		return []string{v.Name, v.Name + fileSuffix}
	}
	return []string{v.Name}
}

// refuseUnknown adds a fault for every variable that nobody reads. Without knowing all streams,
// those that may belong to one are let pass.
func (l *loader) refuseUnknown(streams []string, allStreams bool) {
	names := known(streams)
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	for _, name := range l.env.names() {
		ofStream := strings.HasPrefix(name, streamPrefix)
		if set[name] || ofStream && !allStreams && !hasStream(name, streams) {
			continue
		}
		text := "is unknown" + Suggestion(name, "", names)
		switch {
		case ofStream && !hasStream(name, streams):
			text += " It belongs to no stream of " + prefix + "STREAMS"
		case isServiceLink(name):
			text += " If Kubernetes sets it for a Service, put enableServiceLinks: false into the pod"
		default:
			text += " See bridge help variables"
		}
		l.add(name, "%s", text)
	}
}

// hasStream reports whether the name of a variable begins as those of one of the streams do.
func hasStream(name string, streams []string) bool {
	return slices.ContainsFunc(streams, func(stream string) bool { return strings.HasPrefix(name, StreamPrefix(stream)) })
}

// isServiceLink reports whether Kubernetes may have set a variable for a Service whose name begins
// with "bridge-".
func isServiceLink(name string) bool {
	return strings.Contains(name, "_SERVICE_HOST") || strings.Contains(name, "_SERVICE_PORT") ||
		strings.HasSuffix(name, "_PORT") || strings.Contains(name, "_PORT_")
}
