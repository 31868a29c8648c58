package checkpoint

import (
	"cmp"
	"slices"

	"bridge/source/ledger"
)

// MergeStates returns the state whose save does what the saves of older and then newer do. It may
// share memory with both.
func MergeStates(older, newer State) State {
	if !newer.ReplaceLedger {
		newer.Ledger = ledger.MergeChunks(older.Ledger, newer.Ledger)
		newer.ReplaceLedger = older.ReplaceLedger
	}
	if !newer.ReplacePublished {
		newer.Published = ledger.MergeChunks(older.Published, newer.Published)
		newer.ReplacePublished = older.ReplacePublished
	}
	if newer.Meaning == nil {
		newer.Meaning = older.Meaning
	}
	newer.View = both(older.View, newer.View)
	// What was found and then given up again has been given up.
	newer.Found = both(Without(older.Found, newer.Given), newer.Found)
	newer.Given = both(older.Given, newer.Given)
	if newer.Keep > 0 {
		kept := slices.DeleteFunc(slices.Clone(older.Journals), func(j *Journal) bool {
			return j.Number < newer.Keep || slices.ContainsFunc(newer.Journals, func(n *Journal) bool { return n.Number == j.Number })
		})
		newer.Journals = slices.SortedFunc(slices.Values(slices.Concat(kept, newer.Journals)), byNumber)
		if older.Keep == 0 {
			newer.Keep = 0
		} else {
			newer.Keep = max(older.Keep, newer.Keep)
		}
	}
	return newer
}

func byNumber(a, b *Journal) int { return cmp.Compare(a.Number, b.Number) }

// both returns a slice of the elements of older and newer.
func both[E any](older, newer []E) []E {
	switch {
	case len(older) == 0:
		return newer
	case len(newer) == 0:
		return older
	}
	return slices.Concat(older, newer)
}
