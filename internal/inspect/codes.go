package inspect

// Code names a kind of finding. It does not change from version to version.
type Code string

// The source as a whole.
const (
	SourceUnreachable Code = "source-unreachable"
	SourceLogin       Code = "source-login"
	// SourceTLS: the server and the URL of the source disagree on TLS, or the certificate is not
	// trusted.
	SourceTLS Code = "source-tls"
	// Stride: several counters interleave, or auto_increment_increment is not 1.
	Stride Code = "stride"
	// Blocks: the servers of a cluster hold blocks of ids.
	Blocks Code = "id-blocks"
	// Replica: the server does not take the writes.
	Replica Code = "replica"
	// Proxied: what answers stands before the database.
	Proxied Code = "proxy"
	// LockWait: statements may wait so long for a lock that vacant ids stay hot for longer than a
	// minute.
	LockWait Code = "lock-wait"
	// Flush: a crash of the server may lose rows that were committed.
	Flush Code = "log-flush"
	// Clock: the clocks of the database and of this host differ.
	Clock Code = "clock"
)

// A table.
const (
	NoTable  Code = "no-table"
	NoGrant  Code = "no-grant"
	NoColumn Code = "no-column"
	// HiddenColumns: the login may not read all columns.
	HiddenColumns Code = "hidden-columns"
	// BadFilter: the condition on rows is none of this table.
	BadFilter    Code = "bad-filter"
	NotInspected Code = "not-inspected"
	// TableUnfit: the rows cannot be read as configured, or no events can be made of the columns.
	TableUnfit Code = "table-unfit"
	// DeletedValues: DELETED seems to take rows that live for deleted ones.
	DeletedValues Code = "deleted-values"
	IDType        Code = "id-type"
	IDNull        Code = "id-null"
	IDNotUnique   Code = "id-not-unique"
	IDNotPrimary  Code = "id-not-primary"
	// IDUnproved: nothing but AUTO_INCREMENT keeps ids unique.
	IDUnproved Code = "id-unproved"
	// IDIssuer: the database does not hand out the ids.
	IDIssuer Code = "id-issuer"
	// IDNegative: rows with ids below 1 are not read.
	IDNegative Code = "id-negative"
	// IDReuse: the id of a deleted newest row is given to the next one.
	IDReuse Code = "id-reuse"
	// IDOrder: ID_ORDER contradicts what the server does.
	IDOrder         Code = "id-order"
	TimeType        Code = "time-type"
	SecondPrecision Code = "second-precision"
	TimeZone        Code = "time-zone"
	// TimeOffset: the times of rows are hours off, as those of sessions in another zone.
	TimeOffset   Code = "time-offset"
	KeyNotUnique Code = "key-not-unique"
	// KeyNull: a column of KEY may be NULL, and rows with NULL there are not published.
	KeyNull Code = "key-null"
	// KeyType: a column of KEY is an approximate number.
	KeyType Code = "key-type"
	// KeyIndex: the index that proves that KEY is unique cannot be read by.
	KeyIndex      Code = "key-index"
	ModifiedIndex Code = "modified-index"
	// NoModified: updates are published, and no column tells of them.
	NoModified Code = "no-modified"
	Engine     Code = "engine"
	// IDsReused: the table's next id is at or below the position.
	IDsReused Code = "ids-reused"
	// OtherDatabase: the rows that the bus has are those of another one.
	OtherDatabase Code = "other-database"
	// PositionAhead: the position is above every id of a table that does not tell its next id.
	PositionAhead Code = "position-ahead"
	// StrayID: the position is far above every id of the table, as a row inserted by mistake leaves
	// it.
	StrayID Code = "stray-id"
)

// StrayAbove is how many ids the position must be above the highest of the table for a stray id.
const StrayAbove = 1 << 20

// The sink.
const (
	SinkUnreachable Code = "sink-unreachable"
	SinkLogin       Code = "sink-login"
	// TopicUnreadable, StreamUnreadable: what was published cannot be read back.
	TopicUnreadable  Code = "topic-unreadable"
	StreamUnreadable Code = "stream-unreadable"
	NoTopic          Code = "no-topic"
	TopicGrant       Code = "topic-grant"
	TopicLeader      Code = "topic-leader"
	// TransactionGrant: the login may not use the transactional id. NoTransactions: the brokers
	// cannot do what exactly-once needs.
	TransactionGrant Code = "transaction-grant"
	NoTransactions   Code = "no-transactions"
	// StandbyGrant: the login cannot take part in the election of a standby group.
	StandbyGrant     Code = "standby-grant"
	TopicMessageSize Code = "topic-message-size"
	TopicCompacted   Code = "topic-compacted"
	// TopicHidden: whether a topic is compacted does not show to the login.
	TopicHidden Code = "topic-hidden"
	// TopicUncompacted, TopicPartitions: a topic that is to hold the last message of each key.
	TopicUncompacted Code = "topic-uncompacted"
	TopicPartitions  Code = "topic-partitions"
	NoJetStream      Code = "no-jetstream"
	NoStream         Code = "no-stream"
	StreamGrant      Code = "stream-grant"
	// NoAtomicBatches: the stream or its servers cannot do what exactly-once needs.
	NoAtomicBatches Code = "no-atomic-batches"
	StreamSubject   Code = "stream-subject"
	StreamUnusable  Code = "stream-unusable"
	// StreamDiffers: the stream keeps messages otherwise than the configuration says.
	StreamDiffers     Code = "stream-differs"
	StreamStorage     Code = "stream-storage"
	StreamPersistence Code = "stream-persistence"
	StreamDuplicates  Code = "stream-duplicates"
	StreamDiscards    Code = "stream-discards"
	StreamMessageSize Code = "stream-message-size"
	// StreamFull: a stream or an account takes no more messages, or will not one day.
	// StreamConsumers: it takes no more consumers, StreamCreation: no such stream.
	StreamFull      Code = "stream-full"
	StreamConsumers Code = "stream-consumers"
	StreamCreation  Code = "stream-creation"
	// StreamDomains: events of another domain may have the ids of ours.
	StreamDomains Code = "stream-domains"
)

// The checkpoint, and the configuration.
const (
	CheckpointNotWritable Code = "checkpoint-not-writable"
	CheckpointCorrupt     Code = "checkpoint-corrupt"
	CheckpointForeign     Code = "checkpoint-foreign"
	CheckpointNewer       Code = "checkpoint-newer"
	CheckpointOlder       Code = "checkpoint-older"
	CheckpointLocked      Code = "checkpoint-locked"
	// CheckpointOther: it holds streams or shards that are not configured.
	CheckpointOther Code = "checkpoint-other"
	// CheckpointMeaning: the state of a table was made with another configuration.
	CheckpointMeaning Code = "checkpoint-meaning"
	// SchemaChanged: events lack what those published last have under the same version.
	SchemaChanged Code = "schema-changed"
	// HTTPAddress: the address of the HTTP server cannot be listened on.
	HTTPAddress Code = "http-address"
	// HTTPToken: other hosts reach the HTTP server, and no token is set.
	HTTPToken Code = "http-token"
	// Setting is a remark about a variable.
	Setting Code = "setting"
)
