package config

import (
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/driver"
)

// The structs of this file, and those of the drivers of buses, are the one list of variables. Their
// tags say:
//
//   - env: the name after BRIDGE_, BRIDGE_SOURCE_<NAME>_ or BRIDGE_STREAM_<NAME>_
//   - envDefault: the default
//   - doc: meaning and unit, for the reference
//   - example: a value for the reference
//   - oneof: the values allowed, whatever their letter case; min and max: the bounds, inclusive
//   - secret: the value is never shown, and NAME_FILE may name a file that holds it
//   - spaces: the value may begin or end with white space

// endSettings are the variables about source and sink.
type endSettings struct {
	SourceURL         unkept `env:"SOURCE_URL,required" secret:"true" example:"mysql://bridge:password@db.example.com:3306/orders" doc:"The database to read, required unless BRIDGE_SOURCES names others: mysql://user:password@host:port/database, or sqlite:///path.db for a file of SQLite (sqlite:file.db for a relative path; ?epoch=ms if Unix times are in milliseconds). User and password are percent-encoded. It needs SELECT and nothing else. After the database, ?tls=true, verify-ca (which needs tls-ca), skip-verify or preferred asks for TLS; &tls-ca=, &tls-cert= and &tls-key= name PEM files. A server that asks for the password itself (mysql_clear_password: RDS IAM, LDAP, PAM) gets it over TLS, but not with preferred."`
	Sources           list   `env:"SOURCES" example:"a,b" doc:"The names of further database servers, separated by commas, of the characters a-z, 0-9, _ and -. Each has a variable of its own, see below, and its tables are named with it: a/db.t. BRIDGE_SOURCE_URL, where it is set beside, is the source without a name. See docs/how-to.md."`
	SourceConnections int    `env:"SOURCE_CONNECTIONS" envDefault:"0" min:"0" max:"10000" doc:"Maximum connections to each database server; 0 is as many as bridge has use for, at most 25 to a server of MySQL or MariaDB. At least 7 there, and 8 with BRIDGE_SERVE. A reload changes it without a pause. See docs/how-to.md."`
	SinkURL           unkept `env:"SINK_URL,required" secret:"true" example:"kafka://kafka-1.example.com:9092,kafka-2.example.com:9092" doc:"The bus to publish to: kafka://host:port,… or nats://user:password@host:port,… or embedded: for a NATS server inside the process, with its files beside the checkpoint (embedded:///path for another folder, ?listen=127.0.0.1:4222 to let other programs connect, without a login; port 0 chooses a free one), or stdout: to print one event a line."`
	Delivery          string `env:"DELIVERY" envDefault:"at-least-once" oneof:"at-least-once,exactly-once" doc:"exactly-once publishes in transactions of Kafka or in atomic batches of NATS JetStream: consumers (of Kafka, with isolation.level=read_committed) see each event once, whatever fails. at-least-once may repeat events after a kill. See docs/how-to.md."`
	CheckpointURL     string `env:"CHECKPOINT_URL" envDefault:"file:bridge.db" example:"file:///var/lib/bridge/bridge.db" doc:"The folder with the positions, and of capability streams what was published last: a folder whatever its name, bridge.db too. What is lost of it is read from the bus again. bus: keeps the progress of the tables on the bus, too, so that the folder may be lost: one below the system's temporary directory, or bus:///path for another one. For Kafka and NATS. See docs/how-to.md."`
	Streams           list   `env:"STREAMS,required" example:"orders" doc:"The names of the streams, separated by commas, of the characters a-z, A-Z, 0-9 and _. Every stream has variables of its own, see below."`
}

// unkept is a secret, which is read where it is used: a configuration holds none.
type unkept struct{}

func (*unkept) UnmarshalText([]byte) error { return nil }

type sourceSettings struct {
	NamedURL         unkept `env:"URL" secret:"true" example:"mysql://bridge:password@db-a.example.com:3306/orders" doc:"The database to read, as BRIDGE_SOURCE_URL. Every name in BRIDGE_SOURCES needs one."`
	NamedConnections int    `env:"CONNECTIONS" min:"0" max:"10000" doc:"As BRIDGE_SOURCE_CONNECTIONS, for this source. Default: the global one."`
}

// Process are the variables of the process, but for those about source and sink.
type Process struct {
	EnvFile          string        `env:"ENV_FILE" example:"bridge.env" doc:"File with further variables, one NAME=value a line; those of the environment win. It is read again at a reload. The flag --env-file of every command does the same, and wins over this variable."`
	HTTPAddr         string        `env:"HTTP_ADDR" envDefault:"127.0.0.1:8080" example:":8080" doc:"host:port of /livez, /readyz, /metrics and /api/v1. The commands reconcile, deadletter resend, status, tail and health connect to it. Processes of a standby group on several hosts ask each other there: use :8080, say."`
	HTTPToken        unkept        `env:"HTTP_TOKEN" secret:"true" example:"16-characters-or-more" doc:"What a caller from another host sends as Authorization: Bearer to request a reconcile or a resend, and to read rows: at least 16 characters. Without it, such a caller is refused; a caller on loopback needs none. The commands send it. The same for all processes of a standby group."`
	HTTPTLSCert      string        `env:"HTTP_TLS_CERT" example:"/etc/bridge/http.pem" doc:"PEM file with the certificate of the HTTP server, which then speaks TLS alone. It is read again when it changes."`
	HTTPTLSKey       string        `env:"HTTP_TLS_KEY" example:"/etc/bridge/http-key.pem" doc:"PEM file with the key of that certificate."`
	HTTPTLSCA        string        `env:"HTTP_TLS_CA" example:"/etc/bridge/ca.pem" doc:"PEM file with the certificate authorities that commands, and processes of a standby group, trust when they ask a bridge over TLS, instead of the system's. A command that has no BRIDGE_HTTP_TLS_CERT speaks TLS where this is set."`
	Serve            bool          `env:"SERVE" envDefault:"false" doc:"Answer /api/v1/streams/<name>/entities from what was published and the tables, for programs beside bridge. Everybody who can reach BRIDGE_HTTP_ADDR can read the published columns, unless BRIDGE_HTTP_TOKEN is set. See docs/how-to.md."`
	MetricsByShard   bool          `env:"METRICS_BY_SHARD" envDefault:"false" doc:"Make the series of /metrics that describe tables by table, with the label shard: some 28 for each. Without it they are by stream: a sum, the highest or the earliest value of its tables. See docs/reference.md."`
	LogLevel         string        `env:"LOG_LEVEL" envDefault:"info" oneof:"debug,info,warn,error" doc:"The least important messages to log."`
	LogFormat        string        `env:"LOG_FORMAT" oneof:"console,text,json" doc:"Format of log lines. console is for people: time, level, message, and three keys, of a warning all. Default: console on a terminal with TERM set and not dumb, text on another terminal, else json."`
	Trace            string        `env:"TRACE" envDefault:"off" oneof:"on,off" doc:"on makes a span of each batch, sends it by OTLP over HTTP to where OTEL_EXPORTER_OTLP_ENDPOINT says (http://localhost:4318), and gives each message the header traceparent. See docs/how-to.md."`
	DomainID         string        `env:"DOMAIN_ID" envDefault:"bridge" doc:"meta.source.domainId of every event: a name for the installation, the same on every host. bridge reads back the messages of its own domain alone."`
	MaskKey          unkept        `env:"MASK_KEY" secret:"true" example:"16-characters-or-more" doc:"The key of the form sha256 of MASK: at least 16 characters. With another one, every masked value is another one."`
	MaxInflightBytes driver.Size   `env:"MAX_INFLIGHT_BYTES" envDefault:"32MiB" min:"64KiB" max:"64GiB" doc:"Limit for the rows of all streams that are read and not acknowledged. When it is reached, reading waits for the bus."`
	ShutdownTimeout  time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"10s" min:"0s" max:"1h" doc:"How long SIGTERM or SIGINT waits for messages in flight. A second signal ends at once."`
	CheckpointTopic  string        `env:"CHECKPOINT_TOPIC" envDefault:"bridge-progress" doc:"With BRIDGE_CHECKPOINT_URL=bus:, the compacted topic of Kafka, of one partition, or the KV bucket of NATS, which bridge makes. Bridges of several domains may share it."`
	Share            string        `env:"SHARE" example:"0/3" doc:"Index, from 0, and number of shares, where several processes share one configuration: each works on the tables of its share. It needs BRIDGE_CHECKPOINT_URL=bus:, whose folder has one for each share. The number is the same for all processes. See docs/operations.md."`
	Standby          string        `env:"STANDBY" example:"orders" doc:"Name of a standby group: of all processes with this name on one bus, one works and the others wait, ready to take over. Each has a checkpoint of its own. Variables that decide what is published must be the same. For Kafka and NATS. See docs/how-to.md."`
	StandbyTimeout   time.Duration `env:"STANDBY_TIMEOUT" envDefault:"10s" min:"1s" max:"10m" doc:"Within what time another process takes over from one that is not heard of: it is elected after nine tenths of it. The same for all processes of a group. Brokers of Kafka take 7s and more by default."`
}

// Tuning are the variables that hold for all streams and that every stream can override.
type Tuning struct {
	PollInterval        time.Duration `env:"POLL_INTERVAL" envDefault:"200ms" min:"1ms" max:"1h" doc:"Pause between two polls of a table without new rows."`
	BatchRows           int           `env:"BATCH_ROWS" envDefault:"2000" min:"1" max:"100000" doc:"Maximum number of rows in a page, which is one query and one publish."`
	StabilityWindow     time.Duration `env:"STABILITY_WINDOW" envDefault:"1s" min:"0s" max:"24h" doc:"A row is published when it is this old by the database's clock. 0s publishes at once."`
	GapPolicy           string        `env:"GAP_POLICY" envDefault:"late" oneof:"late,hold" doc:"late goes on past missing ids and publishes them later; hold waits for them."`
	GapTTL              time.Duration `env:"GAP_TTL" envDefault:"24h" min:"1m" max:"8760h" doc:"How long a missing id is polled."`
	IDOrder             string        `env:"ID_ORDER" envDefault:"auto" oneof:"auto,strict,strided,segmented,none" doc:"How ids are handed out. auto asks the server, strict is one counter, strided several that interleave, segmented blocks that writers hold, none no order. See [ids](how-to.md#how-ids-are-handed-out)."`
	ReconcileInterval   time.Duration `env:"RECONCILE_INTERVAL" envDefault:"30m" min:"1s" max:"8760h" doc:"Maximum time between two reconciles of a table: each begins at a random time between half and all of it after the last one."`
	ReconcileRate       int64         `env:"RECONCILE_RATE" envDefault:"0" min:"0" max:"1000000000" doc:"Maximum rows a second that a reconcile reads; 0 means no limit."`
	Rate                int64         `env:"RATE" envDefault:"0" min:"0" max:"1000000000" doc:"Maximum rows a second that the tails of a stream publish, of all its tables together; 0 means no limit. Late rows come first, and what reconcile and the second cursor find is not counted. A reload changes it without a pause. See docs/how-to.md."`
	ReconcileMaxDeletes Percent       `env:"RECONCILE_MAX_DELETES" envDefault:"10%" doc:"If a reconcile finds more than this share of the live entities gone, and more than 100, or more than half of them, it publishes no delete until a person agrees. 100% switches that off."`
	DeadLetter          string        `env:"DEAD_LETTER" example:"bridge.dead-letter" doc:"Topic or subject for rows that the bus refuses for good. Without it, such a row stops its stream."`
	DeadLetterLimit     int           `env:"DEAD_LETTER_LIMIT" envDefault:"100" min:"0" max:"1000000" doc:"Maximum rows a minute of a stream that become dead letters; one more stops the stream. 0 means no limit."`
	OnBadValue          string        `env:"ON_BAD_VALUE" envDefault:"null" oneof:"null,stop" doc:"For a zero date or invalid UTF-8, null publishes null and counts it, stop stops the stream."`
	KafkaTombstones     string        `env:"KAFKA_TOMBSTONES" envDefault:"auto" oneof:"auto,on,off" doc:"Capability streams on Kafka: behind each Deleted event a tombstone, a message with its key and no value, by which a compacted topic forgets the entity. auto: where the topic's cleanup.policy has compact, which shows to a login with DESCRIBE_CONFIGS."`
	OnSchemaChange      string        `env:"ON_SCHEMA_CHANGE" envDefault:"warn" oneof:"warn,stop" doc:"When a column that was published is dropped, renamed or gets another type, warn logs and counts it; stop stops the table until it is changed back or EVENT_VERSION is another one. An added column is neither."`
	TimeZone            Zone          `env:"TIME_ZONE" envDefault:"UTC" example:"Asia/Shanghai" doc:"The time zone of DATETIME columns, by its IANA name."`
}

// streamSettings are the variables of one stream besides its tuning.
type streamSettings struct {
	Table         string        `env:"TABLE,required" example:"orders_{0..63}" doc:"The tables of the stream: t, db.t, a range t_{0..63}, a pattern t_* or t_?, or a list with commas; a/db.t of the source a in BRIDGE_SOURCES. One shard each."`
	Kind          event.Kind    `env:"KIND,required" oneof:"capability,release" example:"capability" doc:"capability: a row is the current state of an entity. release: a row is a fact in a log."`
	Event         string        `env:"EVENT" example:"Order" doc:"The stem of the event types: Order makes OrderAddedEvent. Default: the stream's name in camel case."`
	Names         list          `env:"EVENT_NAMES" example:"added:OrderAddedMessage,deleted:OrderDeletedMessage" doc:"Your own event types, by operation: added, modified, deleted; published for a release stream."`
	Version       string        `env:"EVENT_VERSION" envDefault:"1.0.0" doc:"meta.version of the events: three numbers with dots. Set another one when consumers have to tell events by their members."`
	Format        event.Format  `env:"EVENT_FORMAT" envDefault:"eiffel" oneof:"eiffel,cloudevents,row" doc:"What a message holds: eiffel, the document {meta, data, links}; cloudevents, a CloudEvent 1.0 with that document as its data; row, the columns alone, with all else in headers. See docs/events.md."`
	Payload       string        `env:"PAYLOAD" example:"payload" doc:"A column that is the whole message, as it is, of a release stream: JSON, text or bytes, as in an outbox. All else is in headers. See docs/outbox.md."`
	HeaderColumns list          `env:"HEADERS" example:"trace_id,tenant:x-tenant" doc:"With PAYLOAD, columns that become headers of the message: column, or column:header. NULL makes no header."`
	Members       list          `env:"FIELDS" example:"order_no:orderNo,state" doc:"The columns to publish, column:member or column. Default: all, in camel case."`
	Exclude       list          `env:"EXCLUDE" example:"password,notes" doc:"Columns to leave out where FIELDS is not set. A column that is added later is published."`
	Mask          list          `env:"MASK" example:"card:last4,notes:redact" doc:"Columns whose values are replaced as they are read, column:form. redact: four asterisks. last4: those and the last four characters. sha256: HMAC-SHA-256 under BRIDGE_MASK_KEY, by which equal values stay equal."`
	ID            string        `env:"ID" envDefault:"id" doc:"The column of the increasing id."`
	IDValues      string        `env:"ID_FORMAT" envDefault:"integer" oneof:"integer,uuid7,ulid,ksuid,uuid" doc:"What the ids of a capability stream are, as text or bytes. See [ids](how-to.md#ids-that-are-not-integers)."`
	Key           list          `env:"KEY" example:"region,order_no" doc:"The columns that identify the entity, separated by commas. Default: the id."`
	Created       string        `env:"CREATED" example:"gmt_create" doc:"The column with the time at which a row was created."`
	Modified      string        `env:"MODIFIED" example:"gmt_modified" doc:"The column with the time at which a row was last changed."`
	StaleAfter    time.Duration `env:"STALE_AFTER" min:"10s" max:"8760h" example:"10m" doc:"Capability streams with MODIFIED: a row that was not touched for this long by the database's clock counts as gone (reason STALE) until it is touched. A reconcile finds it: set RECONCILE_INTERVAL to how long that may take. See docs/how-to.md."`
	Gone          string        `env:"DELETED" example:"status=DELETED|ARCHIVED" doc:"The column that says that a row is deleted: by every value but NULL, 0, zero bits, an empty text, f, false, n, no, JSON null and a zero date. Or with the values that do, column=value, or those that do not, column!=value; several with | between them, in any letter case, of a time its beginning. See docs/events.md."`
	Filter        string        `env:"FILTER" example:"state <> 'draft' AND region = 'eu'" doc:"An SQL condition on the row, for the database to evaluate. Rows that do not match (NULL does not) are no events of a release stream, and deleted for consumers of a capability stream (reason FILTERED). See docs/events.md."`
	Destination   string        `env:"DESTINATION" example:"events.{domain}.{stream}" doc:"Template of the topic or subject over {stream} {source} {table} {type} {family} {tag} {domain} {key}, and with PAYLOAD {column:name}. Default: {stream} for Kafka, eiffel.{family}.{type}.{tag}.{domain} for NATS and embedded:."`
	Bounds        list          `env:"DESTINATIONS" example:"orders.created,orders.paid" doc:"All topics or subjects that a DESTINATION with {column:name} may make; of NATS also patterns, as in orders.*. A row with another destination becomes a dead letter. See docs/outbox.md."`
	Family        string        `env:"FAMILY" example:"orders" doc:"{family} in the destination."`
	Tag           string        `env:"TAG" example:"blue" doc:"{tag} in the destination."`
	// FullListInterval is for streams of which ListFault says nothing.
	FullListInterval time.Duration `env:"FULL_LIST_INTERVAL" envDefault:"0s" off:"0s" min:"1s" max:"8760h" example:"24h" doc:"How often a capability stream publishes a [full list](consuming.md#a-full-list), less up to a tenth, at half of RATE, else 1000 rows a second; 0s is never."`
	Start            Start         `env:"START" envDefault:"beginning" example:"latest" doc:"Where a table begins of which neither checkpoint nor bus has anything: beginning, latest, or after an id: its number."`
}
