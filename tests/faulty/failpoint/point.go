package failpoint

import (
	"path/filepath"
	"strings"
)

// Point is a point that the program passes.
type Point = string

// The points, in the order in which a row passes them, and those of catch-up.
const (
	// OwnerLoop is passed in each round of the loop of an owner, before it polls.
	OwnerLoop Point = "OwnerLoop"
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
	// BeforePublish and AfterPublish are around each call of the sink's Publish, also those for
	// dead letters. They cannot fail: a sink retries by itself.
	BeforePublish Point = "BeforePublish"
	AfterPublish  Point = "AfterPublish"
	// BeforeAck and AfterAck are around what the publisher does about a batch that the bus has
	// acknowledged.
	BeforeAck Point = "BeforeAck"
	AfterAck  Point = "AfterAck"
	// BeforeSave and AfterSave are around the commit of a batch, with the offsets that cover it. An
	// error before is an outage of the store, which is retried. What is committed is in memory:
	// after a kill it is read from the bus.
	BeforeSave Point = "BeforeSave"
	AfterSave  Point = "AfterSave"
	// TransactionAdded is passed when the coordinator has added partitions to a transaction,
	// TransactionSent when the leaders have the batches; TransactionEnds and TransactionEnded are
	// around the request to commit. Only a sink with transactions passes them. They cannot fail.
	TransactionAdded Point = "TransactionAdded"
	TransactionSent  Point = "TransactionSent"
	TransactionEnds  Point = "TransactionEnds"
	TransactionEnded Point = "TransactionEnded"
	// StoreSync is where the store makes a file durable. After an error the store writes another
	// one.
	StoreSync Point = "StoreSync"
	// ManifestSync is where the store makes the list of its files durable. After an error the state
	// of the disk is unknown, and the process ends.
	ManifestSync Point = "ManifestSync"
	// BeforeCatchUp and AfterCatchUp are around each commit of what catch-up has read.
	BeforeCatchUp Point = "BeforeCatchUp"
	AfterCatchUp  Point = "AfterCatchUp"
)

// SyncOf returns the point that is passed where a file of the store is made durable.
func SyncOf(name string) Point {
	if strings.HasPrefix(filepath.Base(name), "MANIFEST") {
		return ManifestSync
	}
	return StoreSync
}
