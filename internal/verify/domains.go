package verify

import (
	"cmp"
	"slices"
)

// mostDomains bounds how many other domains are named.
const mostDomains = 10

// domains counts the messages of other domains on the same topics or streams.
type domains map[string]uint64

// add counts a message. Beyond mostDomains it counts for the empty name.
func (d *domains) add(name string) {
	if *d == nil {
		*d = make(domains)
	}
	if _, known := (*d)[name]; !known && len(*d) >= mostDomains {
		name = ""
	}
	(*d)[name]++
}

// list returns the counts, the highest first.
func (d domains) list() []OtherDomain {
	list := make([]OtherDomain, 0, len(d))
	for name, n := range d {
		list = append(list, OtherDomain{Domain: name, Messages: n})
	}
	slices.SortFunc(list, func(a, b OtherDomain) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Domain, b.Domain))
	})
	return list
}
