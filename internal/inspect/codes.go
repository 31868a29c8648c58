package inspect

// Code names a kind of finding, which docs/findings.md explains. It does not change from version to
// version.
type Code string

// The source as a whole.
const (
	SourceUnreachable Code = "source-unreachable"
	SourceLogin       Code = "source-login"
	SourceTLS         Code = "source-tls"
	Stride            Code = "stride"
	Blocks            Code = "id-blocks"
	Replica           Code = "replica"
	Proxied           Code = "proxy"
	LockWait          Code = "lock-wait"
	Flush             Code = "log-flush"
	Clock             Code = "clock"
	Connections       Code = "connections"
)

// A table.
const (
	NoTable         Code = "no-table"
	NoGrant         Code = "no-grant"
	NoColumn        Code = "no-column"
	HiddenColumns   Code = "hidden-columns"
	BadFilter       Code = "bad-filter"
	NotInspected    Code = "not-inspected"
	TableUnfit      Code = "table-unfit"
	DeletedValues   Code = "deleted-values"
	UnfitRows       Code = "unfit-rows"
	IDType          Code = "id-type"
	IDNull          Code = "id-null"
	IDNotUnique     Code = "id-not-unique"
	IDNotPrimary    Code = "id-not-primary"
	IDUnproved      Code = "id-unproved"
	IDIssuer        Code = "id-issuer"
	IDNegative      Code = "id-negative"
	IDReuse         Code = "id-reuse"
	IDOrder         Code = "id-order"
	TimeType        Code = "time-type"
	SecondPrecision Code = "second-precision"
	TimeZone        Code = "time-zone"
	TimeOffset      Code = "time-offset"
	KeyNotUnique    Code = "key-not-unique"
	KeyNull         Code = "key-null"
	KeyType         Code = "key-type"
	KeyIndex        Code = "key-index"
	ModifiedIndex   Code = "modified-index"
	NoModified      Code = "no-modified"
	Engine          Code = "engine"
	IDsReused       Code = "ids-reused"
	OtherDatabase   Code = "other-database"
	PositionAhead   Code = "position-ahead"
	StrayID         Code = "stray-id"
	RateBacklog     Code = "rate-backlog"
)

// StrayAbove is how many ids the position must be above the highest of the table for a stray id.
const StrayAbove = 1 << 20

// The sink.
const (
	SinkUnreachable   Code = "sink-unreachable"
	SinkLogin         Code = "sink-login"
	TopicUnreadable   Code = "topic-unreadable"
	StreamUnreadable  Code = "stream-unreadable"
	NoTopic           Code = "no-topic"
	TopicGrant        Code = "topic-grant"
	TopicLeader       Code = "topic-leader"
	TransactionGrant  Code = "transaction-grant"
	NoTransactions    Code = "no-transactions"
	StandbyGrant      Code = "standby-grant"
	TopicMessageSize  Code = "topic-message-size"
	TopicCompacted    Code = "topic-compacted"
	TopicHidden       Code = "topic-hidden"
	TopicUncompacted  Code = "topic-uncompacted"
	TopicPartitions   Code = "topic-partitions"
	NoJetStream       Code = "no-jetstream"
	NoStream          Code = "no-stream"
	StreamGrant       Code = "stream-grant"
	NoAtomicBatches   Code = "no-atomic-batches"
	StreamSubject     Code = "stream-subject"
	StreamUnusable    Code = "stream-unusable"
	StreamDiffers     Code = "stream-differs"
	StreamStorage     Code = "stream-storage"
	StreamPersistence Code = "stream-persistence"
	StreamDuplicates  Code = "stream-duplicates"
	StreamDiscards    Code = "stream-discards"
	StreamMessageSize Code = "stream-message-size"
	StreamFull        Code = "stream-full"
	StreamConsumers   Code = "stream-consumers"
	StreamCreation    Code = "stream-creation"
	StreamDomains     Code = "stream-domains"
)

// The checkpoint, and the configuration.
const (
	CheckpointNotWritable Code = "checkpoint-not-writable"
	CheckpointCorrupt     Code = "checkpoint-corrupt"
	CheckpointForeign     Code = "checkpoint-foreign"
	CheckpointNewer       Code = "checkpoint-newer"
	CheckpointOlder       Code = "checkpoint-older"
	CheckpointLocked      Code = "checkpoint-locked"
	CheckpointOther       Code = "checkpoint-other"
	CheckpointMeaning     Code = "checkpoint-meaning"
	SchemaChanged         Code = "schema-changed"
	HTTPAddress           Code = "http-address"
	HTTPToken             Code = "http-token"
	Setting               Code = "setting"
)
