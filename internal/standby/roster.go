package standby

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// roster is what a member knows of those that wait. They keep one entry of the bus together, for
// people: nothing is decided by it.
type roster struct {
	members []Claim
	// looked is when the entry was looked at last, beats what it said of each member, since when.
	looked time.Time
	beats  map[string]beat
}

// beat is a count that a member advances each time it shows that it lives.
type beat struct {
	count uint64
	since time.Time
}

// listed is a member in the entry.
type listed struct {
	Claim
	Beat uint64 `json:"beat"`
}

// looks there are a timeout.
const looks = 4

// update reads the entry now and then, and shows a member that waits in it. One that was not heard
// of for a timeout, by the clock of this host, is left out. An error keeps what is known: it is the
// election that shows and names faults of the bus.
func (r *roster) update(ctx context.Context, register Register, self *Claim, timeout time.Duration) {
	if time.Since(r.looked) < timeout/looks {
		return
	}
	r.looked = time.Now()
	text, revision, err := register.Get(ctx, WaitingMembers)
	if err != nil {
		return
	}
	var all map[string]listed
	if json.Unmarshal(text, &all) != nil || all == nil {
		all = make(map[string]listed)
	}
	r.observe(all, timeout)
	if !self.Since.IsZero() {
		delete(all, self.Member)
		r.members = claimsOf(all)
		return
	}
	all[self.Member] = listed{*self, all[self.Member].Beat + 1}
	r.members = claimsOf(all)
	// It holds nothing that fails to be encoded.
	text, _ = json.Marshal(all)
	if _, err = register.Put(ctx, WaitingMembers, text, revision); errors.Is(err, ErrConflict) {
		// Another member was faster: with the next step.
		r.looked = time.Time{}
	}
}

// observe drops those that were not heard of for the timeout.
func (r *roster) observe(all map[string]listed, timeout time.Duration) {
	beats := make(map[string]beat, len(all))
	for name := range all {
		b, known := r.beats[name]
		if !known || b.count != all[name].Beat {
			b = beat{all[name].Beat, r.looked}
		}
		beats[name] = b
		if r.looked.Sub(b.since) >= timeout {
			delete(all, name)
		}
	}
	r.beats = beats
}

func claimsOf(all map[string]listed) []Claim {
	claims := make([]Claim, 0, len(all))
	for name := range all {
		claims = append(claims, all[name].Claim)
	}
	return claims
}
