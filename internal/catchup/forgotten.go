package catchup

import (
	"context"
	"time"
)

// setBack is by how much a clock may be set back: by more, it does not tell how much time has
// passed.
const setBack = time.Minute

// pair is how many offsets an event takes that says that an entity is gone, with its tombstone.
// Where less is left, such as the end of a transaction, none was removed.
const pair = 2

// compareAge has all TPs of a stream be read again from their beginnings where what is left to read
// of one may be so old that a compacted topic has removed a part of it: what says that an entity is
// gone (rule 30). The entity lives by its entry then, and nothing on the bus says otherwise. Of an
// entity that lives compaction leaves the last message.
//
// It counts by half of the time after which a topic forgets: the other half is for the reading, and
// for clocks that differ.
func (g *registrar) compareAge(ctx context.Context, s *stream, list []found) error {
	if s.Forgets == nil {
		return nil
	}
	now, least := time.Now(), -setBack
	if s.partitions() != nil {
		// This process has looked them up about once a minute, and may have failed to.
		least = 2 * g.opts.IdleEvery
	}
	type answer struct {
		after time.Duration
		does  bool
	}
	asked := make(map[string]answer)
	for i := range list {
		f := &list[i]
		// A wall clock: it goes on while a machine sleeps.
		away := now.Sub(time.UnixMilli(int64(f.was.Seen)))
		if f.was.Number == 0 || f.End < f.was.Next+pair || s.isReread(f) || away >= 0 && away < least {
			continue
		}
		a, found := asked[f.Destination]
		if !found {
			var err error
			if a.after, a.does, err = s.Forgets(ctx, f.Destination); err != nil {
				return err
			}
			asked[f.Destination] = a
		}
		if a.does && (away > a.after/2 || away < -min(setBack, a.after/2)) {
			outdate(list)
			return nil
		}
	}
	return nil
}

// outdate has all TPs of a stream be read again: an entity may have been in several.
func outdate(list []found) {
	for i := range list {
		if f := &list[i]; f.finding == same {
			f.finding = outdated
		}
	}
}

// isReread reports whether this process has registered the TP and has not read it to the end yet:
// to begin once more would never come to an end where the reading takes long.
func (s *stream) isReread(f *found) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.was.Next < s.rereads[f.was.Number]
}
