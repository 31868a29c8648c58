package ledger

import (
	"cmp"
	"time"

	"example.org/bridge/internal/option"
	"example.org/bridge/source"
)

// GapPolicy says what the tail does at a gap.
type GapPolicy string

// The gap policies.
const (
	// GapLate goes on past a gap; a row that appears in it later is published as a late row.
	GapLate GapPolicy = "late"
	// GapHold waits at a gap until it is filled or has been vacant for the hot time, so that ids
	// are published in strictly ascending order.
	GapHold GapPolicy = "hold"
)

// Options describe a ledger. The zero value is a ledger of the late policy over one counter.
type Options struct {
	// HotFor is how long a vacant id is polled, counted from when it was first missed or last
	// pending. It should exceed the time that a statement may wait between allocating an id and
	// inserting the row: 1.2 times innodb_lock_wait_timeout. Defaults to 60 s.
	HotFor time.Duration
	// GapTTL is how long after it was first missed a vacant id is swept. A hot id is polled even
	// longer, and so is the front of a wide gap. Defaults to 24 h.
	GapTTL time.Duration
	// SweepEvery is the time between the beginnings of two sweeps over the cold ids. Defaults to
	// 1 minute.
	SweepEvery time.Duration
	// Policy defaults to GapLate. GapHold is refused with OrderSegmented.
	Policy GapPolicy
	// Order defaults to OrderStrict. With OrderSegmented vacant ids stay hot until GapTTL.
	Order source.IDOrder
	// MaxBytes bounds the memory of the parts that are saved, where Load is set. About 110 bytes a
	// part come on top, a few hundredths of its size. Defaults to 4 MiB; the least is 64 KiB.
	MaxBytes int
	// Load returns a part as it was saved last, for parts that are not in memory. Without it all
	// parts stay in memory. The goroutine that the ledger serves calls it.
	Load func(key uint64) ([]byte, error)
	// Away is how much time has passed since a restored ledger was saved, by the host's clock. Gaps
	// age by no more than that, whatever the database's clock says.
	Away time.Duration
	// MaxRanges bounds the ranges of a probe. Defaults to 256.
	MaxRanges int
	// MaxRows and MaxIDs bound how many ids that are not missing a probe reads, since neighbouring
	// gaps are merged: in its read of rows and its read of ids. Default to 1024 and 4096.
	MaxRows, MaxIDs int
}

const minLedgerBytes = 64 << 10

func (o *Options) complete() error {
	o.HotFor = cmp.Or(o.HotFor, time.Minute)
	o.GapTTL = cmp.Or(o.GapTTL, 24*time.Hour)
	o.SweepEvery = cmp.Or(o.SweepEvery, time.Minute)
	o.Policy = cmp.Or(o.Policy, GapLate)
	o.Order = cmp.Or(o.Order, source.OrderStrict)
	o.MaxBytes = max(cmp.Or(o.MaxBytes, 4<<20), minLedgerBytes)
	o.MaxRanges = cmp.Or(o.MaxRanges, 256)
	o.MaxRows = cmp.Or(o.MaxRows, 1024)
	o.MaxIDs = cmp.Or(o.MaxIDs, 4<<10)
	o.Away = max(o.Away, 0)
	switch {
	case o.Order == source.OrderNone:
		return option.Errorf("ids without an order have no tail and no gaps: %s=none goes by reconcile alone", option.IDOrder)
	case o.Policy == GapHold && o.Order == source.OrderSegmented:
		return option.Errorf("%s=hold would wait for whole blocks of ids: with %s=segmented use %s=late",
			option.GapPolicy, option.IDOrder, option.GapPolicy)
	}
	return nil
}
