package shard

import (
	"maps"
	"slices"
	"strings"

	"bridge/sink"
)

// offsets advances the offsets of one shard. New ones wait until all topics of the shard are read
// back, see [Recalls]; they may wait longer than one attempt to run the shard. It serves one
// goroutine at a time.
type offsets struct {
	opts *Options
	// waiting are offsets that are not to be saved yet, by topic-partition.
	waiting map[string]sink.Offset
}

func newOffsets(opts *Options) *offsets {
	return &offsets{opts: opts, waiting: make(map[string]sink.Offset)}
}

// advance moves reached, the offsets to be saved, to the fresh ones and to those that have waited,
// and reports whether it did.
func (o *offsets) advance(reached map[string]sink.Offset, fresh []sink.Offset) bool {
	for _, one := range fresh {
		put(o.waiting, one)
	}
	if len(o.waiting) == 0 {
		return false
	}
	for _, some := range []map[string]sink.Offset{reached, o.waiting} {
		for tp := range some {
			if !o.opts.Recalls.settled(tp) {
				return false
			}
		}
	}
	for _, one := range o.waiting {
		put(reached, one)
	}
	clear(o.waiting)
	return true
}

// put puts an offset among others, unless it is lower than the one that is there.
func put(list map[string]sink.Offset, one sink.Offset) {
	if old, ok := list[one.TP]; !ok || old.Incarnation != one.Incarnation || one.Last > old.Last {
		list[one.TP] = one
	}
}

func byTP(list []sink.Offset) map[string]sink.Offset {
	offsets := make(map[string]sink.Offset, len(list))
	for _, one := range list {
		offsets[one.TP] = one
	}
	return offsets
}

func sorted(list map[string]sink.Offset) []sink.Offset {
	return slices.SortedFunc(maps.Values(list), func(a, b sink.Offset) int { return strings.Compare(a.TP, b.TP) })
}
