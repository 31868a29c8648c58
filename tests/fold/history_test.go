package fold

import "sync"

// condition says what a table has of an entity.
type condition uint8

const (
	absent condition = iota
	live
	tombstone
	// filtered: its row does not match FILTER.
	filtered
)

// version is what one commit has made of an entity.
type version struct {
	condition condition
	state     string
}

func (v version) String() string {
	return map[condition]string{absent: "absent", live: "live ", tombstone: "tombstone", filtered: "filtered"}[v.condition] + v.state
}

// record is what the writers of a stream have committed. It is safe for concurrent use.
type record struct {
	mu        sync.Mutex
	histories map[string]*history
}

// history has the versions of one entity in the order of their commits. Those before the one that
// was met last are dropped.
type history struct{ versions []version }

func newRecord() *record { return &record{histories: make(map[string]*history)} }

// add enters what a commit has made of an entity.
func (r *record) add(key string, v version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.histories[key]
	if h == nil {
		h = &history{versions: []version{{}}}
		r.histories[key] = h
	}
	if h.versions[len(h.versions)-1] != v {
		h.versions = append(h.versions, v)
	}
}

// present returns the states of the entities that have a live row.
func (r *record) present() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	states := make(map[string]string)
	for key, h := range r.histories {
		if v := h.versions[len(h.versions)-1]; v.condition == live {
			states[key] = v.state
		}
	}
	return states
}

// pass drops the versions of an entity before the first one that fits, and returns false where none
// does.
func (r *record) pass(key string, fits func(version) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.histories[key]
	if h == nil {
		return false
	}
	for i, v := range h.versions {
		if fits(v) {
			h.versions = h.versions[i:]
			return true
		}
	}
	return false
}

// of returns the versions of an entity that are left.
func (r *record) of(key string) []version {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.histories[key]; h != nil {
		return append([]version(nil), h.versions...)
	}
	return nil
}
