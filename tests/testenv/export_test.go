package testenv

// Lost returns how many open connections have lost data.
func (p *Proxy) Lost() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.lost {
			n++
		}
	}
	return n
}
