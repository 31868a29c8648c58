package progress

// NextLow returns the low of the next change.
func (p *Progress) NextLow() uint64 { return p.low }
