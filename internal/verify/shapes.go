package verify

import "hash/maphash"

// shapes are the shapes of events that have a member of no column. An event from before a column
// was dropped or renamed has company: others of its shape, or it is among the first. One alone,
// after events of the shape that the table has, was altered.
type shapes struct {
	strange map[uint64]*strangers
	// usual are the partitions where an event of the table's shape has come.
	usual map[int]bool
}

// strangers are the events of one shape.
type strangers struct {
	count uint64
	first Example
	// late says that the first of them came after an event of the table's shape.
	late bool
	// proven says that the meta.id of the first fits all the same.
	proven bool
}

// note takes in an event.
func (l *shapes) note(s *shard, m *Message, e *envelope, f finding) {
	if l.usual == nil {
		l.usual, l.strange = make(map[int]bool), make(map[uint64]*strangers)
	}
	if f.usual {
		l.usual[m.Partition] = true
	}
	if !f.strange {
		return
	}
	d := s.digest[:0]
	for _, member := range e.members {
		d = append(append(d, member.name...), 0)
	}
	s.digest = d
	shape := maphash.Bytes(seed1, d)
	found := l.strange[shape]
	if found == nil {
		found = &strangers{first: s.example(m, e, "it has a member of no column"), late: l.usual[m.Partition], proven: f.proof == proven}
		l.strange[shape] = found
	}
	found.count++
}

// strangers returns the events that were altered.
func (l *shapes) strangers() (altered []*strangers) {
	for _, found := range l.strange {
		if found.count == 1 && found.late {
			altered = append(altered, found)
		}
	}
	return altered
}
