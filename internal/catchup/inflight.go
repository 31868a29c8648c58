package catchup

import "slices"

// InFlight is what this process has handed to the sink and has no outcome of (rule 4): a reader
// that meets such a message stops before it, because its acknowledgement covers it. A message of
// our epoch that is not in flight is read like any other.
//
// The zero value is empty. It has no lock: it is changed under the lock that Coverage is called
// under. A batch is added before it is handed over, and removed after Coverage has its outcome.
type InFlight struct {
	// batches are ranges of seqs, one for each batch; few.
	batches []seqs
}

type seqs struct{ first, n uint64 }

// Add adds the batch with the seqs first to first+n-1.
func (f *InFlight) Add(first, n uint64) { f.batches = append(f.batches, seqs{first, n}) }

// Remove removes the batch that begins with first: it was acknowledged, or it was cancelled and its
// messages are to be read (rule 9).
func (f *InFlight) Remove(first uint64) {
	f.batches = slices.DeleteFunc(f.batches, func(b seqs) bool { return b.first == first })
}

// Has reports whether the message of our epoch with seq is in flight.
func (f *InFlight) Has(seq uint64) bool {
	return slices.ContainsFunc(f.batches, func(b seqs) bool { return seq >= b.first && seq-b.first < b.n })
}
