package ledger

import "fmt"

// store has the forms of leaves, so that not all of them need memory.
type store struct {
	// load returns the saved part with a key; nil where there is no store.
	load func(key uint64) ([]byte, error)
	// handed are the parts that were handed out to be saved, by the number of the save; calls
	// counts the saves.
	handed map[uint64]uint64
	calls  uint64
	// err is why a part could not be read.
	err error
}

func (b *store) size() int { return len(b.handed) * 24 }

// form returns the form of leaf i, nil where it cannot be read; store.err then says why.
func (s *leafList) form(i int) []byte {
	l := &s.list[i]
	if l.form != nil {
		return l.form
	}
	b, err := s.store.load(l.key)
	if err == nil {
		// The gaps were checked when they were written: the checksum is enough.
		_, err = openForm(b)
	}
	if err != nil {
		if s.store.err == nil {
			s.store.err = fmt.Errorf("read part %d of the gap ledger: %w", l.key, err)
		}
		return nil
	}
	return b
}

// handOut notes that the changed parts are about to be saved.
func (s *leafList) handOut() {
	s.store.calls++
	if s.store.load == nil {
		return
	}
	if s.store.handed == nil {
		s.store.handed = make(map[uint64]uint64)
	}
	for key := range s.changed {
		s.store.handed[key] = s.store.calls
	}
}

// saveDone notes that the store can give back what the first n saves handed out, and trims the
// forms to most bytes.
func (s *leafList) saveDone(n uint64, most int) {
	for key, call := range s.store.handed {
		if call <= n {
			delete(s.store.handed, key)
		}
	}
	s.trim(most)
}

// trim frees forms that are in the store, those of the lowest ids first, until the others take at
// most most bytes.
func (s *leafList) trim(most int) {
	if s.store.load == nil || s.forms <= most {
		return
	}
	s.seal()
	for i := range s.list {
		if s.forms <= most*3/4 {
			return
		}
		key := s.list[i].key
		_, changed := s.changed[key]
		_, handed := s.store.handed[key]
		if s.list[i].form != nil && !changed && !handed && i != s.at {
			s.free(i)
		}
	}
}
