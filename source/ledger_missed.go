package source

import "time"

// MissedAt returns when the missing id was first missed, by the ledger's own time, which goes on across restarts: the same id has
// the same answer for as long as it is missing. It is false for an id that is not missing.
func (l *Ledger) MissedAt(id uint64) (time.Time, bool) {
	j, ok := l.missing.find(id)
	if !ok {
		return time.Time{}, false
	}
	return time.UnixMicro(l.missing.open[j].missed).UTC(), true
}

// Open reports whether any id is missing.
func (l *Ledger) Open() bool {
	l.missing.seal()
	return len(l.missing.leaves) > 0
}
