package ledger

// SavedBytes is the size of the parts of l in a checkpoint, without its head.
func (l *Ledger) SavedBytes() int {
	leaves := &l.state.missing.leaves
	leaves.seal()
	n := 0
	for i := range leaves.list {
		n += leaves.list[i].size
	}
	return n
}
