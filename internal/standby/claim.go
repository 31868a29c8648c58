package standby

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Claim is what a member says of itself to the others.
type Claim struct {
	// Member names the process, and no other one. It is empty in the claim of nobody.
	Member string `json:"member"`
	// Host is for people.
	Host string `json:"host,omitempty"`
	// Addr is host:port of the member's HTTP server, as other hosts may reach it. It is empty where
	// the member has none.
	Addr string `json:"addr,omitempty"`
	// TLS says that the member speaks TLS there.
	TLS bool `json:"tls,omitempty"`
	// Since is when the member began to work, by the clock of a host; zero while it waits. It is
	// for people: nothing is decided by it.
	Since time.Time `json:"since,omitzero"`
	// Ready says that the member has read what the bus holds, so that it can go on at once.
	Ready bool `json:"ready,omitempty"`
	// Refused says that the member must not be elected: its settings differ from those of a member
	// that works, or did a moment ago.
	Refused bool `json:"refused,omitempty"`
	// Left says that the member works no more and left in order.
	Left bool `json:"left,omitempty"`
	// Settings must be the same for all members.
	Settings Settings `json:"settings,omitempty"`
}

// Settings has a hash of each setting that members must agree on, by its variable. One that is not
// there has its default.
type Settings map[string]string

// Differing returns the variables that differ, sorted.
func (s Settings) Differing(other Settings) []string {
	all := maps.Clone(s)
	if all == nil {
		all = make(Settings)
	}
	maps.Copy(all, other)
	maps.DeleteFunc(all, func(name, _ string) bool { return s[name] == other[name] })
	return slices.Sorted(maps.Keys(all))
}

// Encode returns the claim as the bus keeps it.
func (c *Claim) Encode() []byte {
	// Nothing in it can fail to be encoded.
	text, _ := json.Marshal(c)
	return text
}

// DecodeClaim is the inverse of Encode. Members that are not known are passed over: a later version
// may have written them.
func DecodeClaim(text []byte) (c Claim, err error) {
	return c, json.Unmarshal(text, &c)
}
