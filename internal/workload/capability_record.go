package workload

import (
	"cmp"
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
	// State is the number of the state, which the column state holds as "s<number>"; 0 unless live. An entity may come back to a
	// state.
	State uint64
	// ID is the id of its row; 0 for an absent one. A row that got another id and kept its state is no new version.
	ID uint64
	// CommitBegun is before the commit that brought the version, CommitEnded after it.
	CommitBegun, CommitEnded time.Time
}

// History holds the versions of an entity in the order in which they were committed. Each differs from the one before in its condition
// or its state. Between the CommitEnded of a version and the CommitBegun of the next one the entity was as the version says.
type History struct {
	// App and Name are the entity, the values of the key columns.
	App, Name string
	Versions  []Version
}

// Existed reports whether the entity had a live row all the while from one moment to another, whatever its states were.
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
		list = append(list, History{App: h.App, Name: h.Name, Versions: slices.Clone(h.Versions)})
	}
	slices.SortFunc(list, func(a, b History) int { return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Name, b.Name)) })
	return list
}

// note enters what one commit made of entities. Each is in its new condition already.
func (w *Capabilities) note(change Change, begun time.Time, entities ...*stateEntity) {
	ended := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sums[change]++
	for _, e := range entities {
		key := e.app + "\x00" + e.name
		h := w.histories[key]
		if h == nil {
			h = &History{App: e.app, Name: e.name}
			w.histories[key] = h
		}
		v := Version{Condition: e.condition, CommitBegun: begun, CommitEnded: ended}
		if e.condition != Absent {
			v.ID = e.id
		}
		if e.condition == Live {
			v.State = e.state
		}
		if n := len(h.Versions); n > 0 {
			if last := h.Versions[n-1]; last.Condition == v.Condition && last.State == v.State {
				continue
			}
		}
		h.Versions = append(h.Versions, v)
	}
}
