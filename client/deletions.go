package client

import "time"

const (
	// rememberFor is for how long a deletion is remembered, in seconds from when it was read. What
	// a former process of bridge sends after its successor is late by its timeouts: minutes.
	rememberFor = int64(time.Hour / time.Second)
	// fewDeletions are always remembered; above that no more than there are entities.
	fewDeletions = 100_000
)

// deletions remembers where entities were deleted, so that an older message in another TP does not
// bring them back. It forgets the oldest ones: after an hour, and where there are more than
// max(100,000, entities).
type deletions struct {
	last map[string]deletion
	// few are remembered however few entities there are.
	few int
	// queue has them by age; one whose number is another one by now was deleted again later.
	queue  []deleted
	head   int
	number uint64
	// forgotten counts those that made room for others within the hour.
	forgotten uint64
}

type deletion struct {
	at     position
	number uint64
}

type deleted struct {
	key    string
	number uint64
	when   int64
}

func newDeletions() deletions { return deletions{last: make(map[string]deletion), few: fewDeletions} }

func (d *deletions) lookup(key []byte) (position, bool) {
	one, known := d.last[string(key)]
	return one.at, known
}

// add remembers a deletion. entities is how many there are.
func (d *deletions) add(key []byte, at position, now int64, entities int) {
	name := string(key)
	d.number++
	d.last[name] = deletion{at, d.number}
	d.queue = append(d.queue, deleted{name, d.number, now})
	most := max(d.few, entities)
	for d.head < len(d.queue) {
		oldest := &d.queue[d.head]
		current := d.last[oldest.key].number == oldest.number
		full := len(d.last) > most
		if current && !full && now-oldest.when < rememberFor {
			break
		}
		if current {
			delete(d.last, oldest.key)
			if full {
				d.forgotten++
			}
		}
		*oldest = deleted{}
		d.head++
	}
	if d.head > len(d.queue)/2 && d.head > d.few/10 {
		d.queue = append([]deleted(nil), d.queue[d.head:]...)
		d.head = 0
	}
}

func (d *deletions) remove(key string) { delete(d.last, key) }
