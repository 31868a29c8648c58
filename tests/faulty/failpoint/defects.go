package failpoint

import "sync"

// MutantVariable is the environment variable that names the defect of a mutant.
const MutantVariable = "BRIDGE_TEST_MUTANT"

// Defect is a deliberate defect. A program with one is a mutant: tests show that they find it.
type Defect string

const (
	// DropOne drops one message of a thousand and counts it as published.
	DropOne Defect = "drop-one"
	// AlterOne changes a value in one event of a thousand.
	AlterOne Defect = "alter-one"
	// MessageLate sends the last message of a batch after the next batch.
	MessageLate Defect = "a-batch-late"
	// SaveBeforePublish saves the position after a batch before it sends the batch.
	SaveBeforePublish Defect = "save-before-publish"
	// SkipCatchUp believes the store and reads nothing from the bus.
	SkipCatchUp Defect = "skip-catch-up"
	// OffsetAhead saves offsets that are 40 messages ahead of what the store has.
	OffsetAhead Defect = "offset-ahead"
	// SkipOne leaves out one message of ten that catch-up reads.
	SkipOne Defect = "skip-one"
	// SeqTwice gives the first message of a batch the stamp of the message before it.
	SeqTwice Defect = "seq-twice"
	// OlderWins applies a message of another topic-partition that is older than the entry.
	OlderWins Defect = "older-wins"
	// MovedByShard publishes a row from a shard while the entity lives in another table.
	MovedByShard Defect = "moved-by-shard"
	// TrustTheScan makes every read by key find nothing, so that rows that a scan missed are
	// deleted.
	TrustTheScan Defect = "trust-the-scan"
	// BrokenReadIsWhole accepts a result that breaks off in the middle as the whole result.
	BrokenReadIsWhole Defect = "broken-read-is-whole"
	// OtherIDAgain gives an event that is encoded again a second later another meta.id.
	OtherIDAgain Defect = "other-id-again"
	// ReadUncommitted reads rows of transactions that have not committed.
	ReadUncommitted Defect = "read-uncommitted"
	// NoLedger forgets an id that commits below the position.
	NoLedger Defect = "no-ledger"
	// StaleState makes reconcile publish a row as its scan read it 2 s ago.
	StaleState Defect = "stale-state"
	// KafkaErrorIsAck counts a batch as acknowledged that Kafka refused or did not answer.
	KafkaErrorIsAck Defect = "kafka-error-is-ack"
	// NATSErrorIsAck counts a message as acknowledged that JetStream refused or did not answer.
	NATSErrorIsAck Defect = "nats-error-is-ack"
	// EndIsAck counts messages in flight at a cancelled publish as acknowledged.
	EndIsAck Defect = "end-is-ack"
	// NoFence reads the bus without initialising the producer first, at a start and after an
	// unknown outcome.
	NoFence Defect = "no-fence"
	// FenceAgain makes a superseded process take over again.
	FenceAgain Defect = "fence-again"
	// AbortInEpoch aborts a transaction without a new epoch though a batch had no answer.
	AbortInEpoch Defect = "abort-in-epoch"
	// NoLookBack misses changes that commit behind the second cursor.
	NoLookBack Defect = "no-look-back"
	// NoClaim publishes atomic batches to JetStream without the condition on the claim.
	NoClaim Defect = "no-claim"
	// ByStore makes the view decide by the store and ignore claims.
	ByStore Defect = "by-store"
	// KeepsClaims makes the view keep released claims.
	KeepsClaims Defect = "keeps-claims"
	// AnyOrder lets an acknowledged message replace a newer one in the view.
	AnyOrder Defect = "any-order"
	// NoRepeat makes the view use an old lookup of an entry that has changed since.
	NoRepeat Defect = "no-repeat"
	// NoReserve makes the view skip the reservation of an entity that moves.
	NoReserve Defect = "no-reserve"
)

var Defects = []Defect{DropOne, AlterOne, MessageLate, SaveBeforePublish, SkipCatchUp, OffsetAhead, SkipOne, SeqTwice, OlderWins, MovedByShard,
	TrustTheScan, BrokenReadIsWhole, OtherIDAgain, ReadUncommitted, NoLedger, StaleState, KafkaErrorIsAck, NATSErrorIsAck, EndIsAck,
	NoFence, FenceAgain, AbortInEpoch, NoLookBack, NoClaim, ByStore, KeepsClaims, AnyOrder, NoRepeat, NoReserve}

// Kept is where mutants keep what they use later, by keys of their own.
var Kept sync.Map
