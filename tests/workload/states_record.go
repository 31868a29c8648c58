package workload

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Condition says whether an entity has a row.
type Condition string

// The conditions.
const (
	// Live: its row is there.
	Live Condition = "live"
	// Tombstone: its row is there and says that it is deleted.
	Tombstone Condition = "tombstone"
	// Absent: it has no row.
	Absent Condition = "absent"
)

// Version is one state of an entity. Times are the host's, with a monotonic reading.
type Version struct {
	Condition Condition
	// State is the number of the state, which the column state holds as "s<number>"; 0 unless live.
	// An entity may come back to a state.
	State uint64
	// ID is the id of its row; 0 for an absent one. A row that got another id and kept its state is
	// no new version.
	ID uint64
	// CommitBegun is before the commit that brought the version, CommitEnded after it: when it was
	// found where the commit was not answered.
	CommitBegun, CommitEnded time.Time
}

// History holds the versions of an entity in the order in which they were committed. Each differs
// from the one before in its condition or its state. Between the CommitEnded of a version and the
// CommitBegun of the next one the entity was as the version says.
type History struct {
	// App and Name are the entity, the values of the key columns.
	App, Name string
	Versions  []Version
	// Doubtful are versions whose commit was not answered, which were not there afterwards or that
	// nobody could look for: a reader may have seen them. They differ from the version before.
	Doubtful []Version
}

// Existed reports whether the entity had a live row all the while from one moment to another,
// whatever its states were.
func (h History) Existed(from, to time.Time) bool {
	existed := false
	for _, v := range h.Versions {
		switch {
		case v.CommitBegun.After(to):
			return existed
		case v.Condition != Live && v.CommitEnded.After(from):
			return false
		case !v.CommitEnded.After(from):
			existed = v.Condition == Live
		}
	}
	return existed
}

// Histories returns copies of all histories, in the order of their entities.
func (w *Capabilities) Histories() []History {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]History, 0, len(w.histories))
	for _, h := range w.histories {
		list = append(list, History{App: h.App, Name: h.Name, Versions: slices.Clone(h.Versions), Doubtful: slices.Clone(h.Doubtful)})
	}
	slices.SortFunc(list, func(a, b History) int { return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Name, b.Name)) })
	return list
}

// note enters what one commit made of entities. Each is in its new condition already.
func (w *Capabilities) note(c commit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sums[c.change]++
	for _, e := range c.now {
		h := w.history(e)
		if v := e.version(c.begun); h.changes(v) {
			h.Versions = append(h.Versions, v)
		}
	}
}

// doubt enters commits that may not have happened, or that others may have seen and that have not
// lasted.
func (w *Capabilities) doubt(commits ...commit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range commits {
		w.interrupted.Doubtful++
		for _, e := range c.now {
			h := w.history(e)
			if v := e.version(c.begun); h.changes(v) {
				h.Doubtful = append(h.Doubtful, v)
			}
		}
	}
}

// Sums returns how often each change was made.
func (w *Capabilities) Sums() map[Change]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.sums)
}

// history returns the history of an entity. w.mu is held.
func (w *Capabilities) history(e *stateEntity) *History {
	key := e.app + "\x00" + e.name
	h := w.histories[key]
	if h == nil {
		h = &History{App: e.app, Name: e.name}
		w.histories[key] = h
	}
	return h
}

// version returns what an entity has become by a commit that ends just now.
func (e *stateEntity) version(begun time.Time) Version {
	v := Version{Condition: e.condition, CommitBegun: begun, CommitEnded: time.Now()}
	if e.condition != Absent {
		v.ID = e.id
	}
	if e.condition == Live {
		v.State = e.state
	}
	return v
}

// changes reports whether v differs from the last version.
func (h *History) changes(v Version) bool {
	if len(h.Versions) == 0 {
		return true
	}
	last := h.Versions[len(h.Versions)-1]
	return last.Condition != v.Condition || last.State != v.State
}

// Interruptions counts what a database that was away has kept a workload from.
type Interruptions struct {
	// Retries counts the changes that were given up, Found the commits without an answer that were
	// found afterwards, and Doubtful those that were not.
	Retries, Found, Doubtful int
}

// Interruptions returns the counts so far.
func (w *Capabilities) Interruptions() Interruptions {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.interrupted
}

func (w *Capabilities) count(change func(*Interruptions)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.interrupted)
}
