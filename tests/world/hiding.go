package world

import (
	"fmt"

	"bridge/tests/workload"
)

// Hiding says that the settings of a stream hide rows and a column of a table of
// workload.Capabilities.
type Hiding bool

// Env returns the variables of the stream.
func (h Hiding) Env() Env {
	if !h {
		return nil
	}
	return Env{"FILTER": fmt.Sprintf("n %% %d <> 0", hiddenEvery), "MASK": redacted + ":redact"}
}

const (
	// hiddenEvery: a state whose number it divides does not match the condition.
	hiddenEvery = 7
	// redacted is the column that is masked.
	redacted = "note"
)

// filtered is the condition of an entity whose row does not match.
const filtered workload.Condition = "filtered"

func (h Hiding) hides(state uint64) bool { return bool(h) && workload.NumberOf(state)%hiddenEvery == 0 }

// histories makes of histories, which are the caller's, what consumers see.
func (h Hiding) histories(list []workload.History) []workload.History {
	for _, one := range list {
		for _, versions := range [][]workload.Version{one.Versions, one.Doubtful} {
			for i := range versions {
				if v := &versions[i]; v.Condition == workload.Live && h.hides(v.State) {
					v.Condition = filtered
				}
			}
		}
	}
	return list
}

// table makes of the fold of a table what consumers see.
func (h Hiding) table(f Fold) Fold {
	for key, e := range f {
		var state uint64
		if _, err := fmt.Sscanf(e.members["state"], "s%d", &state); err == nil && h.hides(state) {
			delete(f, key)
		} else if _, there := e.members[redacted]; there && bool(h) {
			e.members[redacted] = "****"
		}
	}
	return f
}
