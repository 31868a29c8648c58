package failpoint

// Variable is the environment variable that holds the list.
const Variable = "BRIDGE_TEST_FAILPOINTS"

// Point is a place in the program.
type Point string

// The points, in the way of a row. All can kill, sleep and hang.
const (
	// OwnerTurn is passed whenever the owner's loop of a shard turns, before it polls or takes what is nominated.
	OwnerTurn Point = "OwnerTurn"
	// DatabaseClock is what source/mysql reads as the database's clock. It can be shifted.
	DatabaseClock Point = "DatabaseClock"
	// BeforeRead and AfterRead are around the read of a page of the tail. An error is a fault of the source, which is retried.
	BeforeRead Point = "BeforeRead"
	AfterRead  Point = "AfterRead"
	// BeforeReread and AfterReread are around the owner's read of rows by id or by key: late records, what was modified, what was
	// nominated. An error is a fault of the source, which is retried.
	BeforeReread Point = "BeforeReread"
	AfterReread  Point = "AfterReread"
	// BeforeJournal and AfterJournal are around the save that makes the journal of a batch durable.
	BeforeJournal Point = "BeforeJournal"
	AfterJournal  Point = "AfterJournal"
	// BeforePublish and AfterPublish are around each call of the sink's Publish, those of a resent journal and of dead letters
	// too. They cannot fail: a sink waits out by itself whatever heals.
	BeforePublish Point = "BeforePublish"
	AfterPublish  Point = "AfterPublish"
	// BeforeAck and AfterAck are around the publisher's note that a batch is acknowledged.
	BeforeAck Point = "BeforeAck"
	AfterAck  Point = "AfterAck"
	// BeforeSave and AfterSave are around each save of a shard's state, that of a journal too. An error before is a fault of the
	// checkpoint, which is retried.
	BeforeSave Point = "BeforeSave"
	AfterSave  Point = "AfterSave"
	// StoreSync is where checkpoint/bolt makes the pages of a transaction durable. An error is a sync that failed before the header
	// page was written: the former state holds, and the save is retried.
	StoreSync Point = "StoreSync"
	// StoreHeaderSync is where checkpoint/bolt makes the header page durable that makes a transaction count. An error is a sync that
	// failed after the page was written: nobody knows what the disk holds, and the process ends.
	StoreHeaderSync Point = "StoreHeaderSync"
)

// known reports whether there is such a point.
func (p Point) known() bool {
	switch p {
	case OwnerTurn, DatabaseClock, BeforeRead, AfterRead, BeforeReread, AfterReread, BeforeJournal, AfterJournal,
		BeforePublish, AfterPublish, BeforeAck, AfterAck, BeforeSave, AfterSave, StoreSync, StoreHeaderSync:
		return true
	}
	return false
}

// fails reports whether the point can fail.
func (p Point) fails() bool {
	switch p {
	case BeforeRead, AfterRead, BeforeReread, AfterReread, BeforeSave, StoreSync, StoreHeaderSync:
		return true
	}
	return false
}

// shifts reports whether the point is a clock.
func (p Point) shifts() bool { return p == DatabaseClock }
