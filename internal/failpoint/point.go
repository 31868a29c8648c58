package failpoint

// Point is a point that the program passes.
type Point string

// The points, in the order in which a row passes them.
const (
	// OwnerTurn is passed on each round of the loop that owns a shard, before it polls.
	OwnerTurn Point = "OwnerTurn"
	// DatabaseClock is what source/mysql reads as the clock of the database. It can be shifted.
	DatabaseClock Point = "DatabaseClock"
	// BeforeRead and AfterRead are around the read of a page of the tail. An error is an outage of
	// the source, which is retried.
	BeforeRead Point = "BeforeRead"
	AfterRead  Point = "AfterRead"
	// BeforeReread and AfterReread are around the owner's reads of rows by id or by key. An error
	// is an outage of the source, which is retried.
	BeforeReread Point = "BeforeReread"
	AfterReread  Point = "AfterReread"
	// BeforeJournal and AfterJournal are around the save that makes the journal of a batch durable.
	BeforeJournal Point = "BeforeJournal"
	AfterJournal  Point = "AfterJournal"
	// BeforePublish and AfterPublish are around each call of the sink's Publish, also those for a
	// resent journal and for dead letters. They cannot fail: a sink retries by itself.
	BeforePublish Point = "BeforePublish"
	AfterPublish  Point = "AfterPublish"
	// BeforeAck and AfterAck are around the publisher's note that a batch is acknowledged.
	BeforeAck Point = "BeforeAck"
	AfterAck  Point = "AfterAck"
	// BeforeSave and AfterSave are around each save of a shard's state, also that of a journal. An
	// error before is an outage of the checkpoint, which is retried.
	BeforeSave Point = "BeforeSave"
	AfterSave  Point = "AfterSave"
	// StoreSync is where checkpoint/bolt makes the pages of a transaction durable. An error is a
	// sync that failed before the header page was written: the save is retried.
	StoreSync Point = "StoreSync"
	// StoreHeaderSync is where checkpoint/bolt makes the header page of a transaction durable.
	// After an error the state of the disk is unknown, and the process ends.
	StoreHeaderSync Point = "StoreHeaderSync"
)

// Points lists all points.
var Points = []Point{OwnerTurn, DatabaseClock, BeforeRead, AfterRead, BeforeReread, AfterReread, BeforeJournal, AfterJournal,
	BeforePublish, AfterPublish, BeforeAck, AfterAck, BeforeSave, AfterSave, StoreSync, StoreHeaderSync}
