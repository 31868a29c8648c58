package model

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"example.org/bridge/tests/testall"
)

// The mutants of shares (decision 24).
const (
	highestOffset   = "a share reads on from the highest offset of the copies that it takes"
	deletesPeers    = "a share deletes the copies of others"
	peerSupersedes  = "a higher epoch of another share supersedes"
	peerCounts      = "a message of another share of the same row counts as published"
	fencesFirst     = "former shares are shut out before the next number is proposed"
	opensAtOnce     = "the next number is in force before former shares are shut out"
	decidesAnyway   = "a process of a former number decides where a table begins"
	neverAsks       = "a process does not look whether its number still holds once it has its epoch"
	asksBeforeEpoch = "a process looks whether its number still holds before it takes over its share"
	passesFlight    = "an offset passes over a message that is acknowledged and not in the store"
	passesUnknown   = "an offset passes over a message of unknown outcome"
	passesOwn       = "a process that reads its message before that is acknowledged does not count it"
	passesBlindly   = "an offset passes over messages of another process of the share"
)

// A fleet is processes that share four tables, in one TP. Their number changes. A table begins at
// its latest row when it is decided for the first time; only copies and folders know where.
type fleet struct {
	rng *rand.Rand
	// once says that a process publishes only while it has the fence of its share.
	once bool
	// passes says that what is on the bus is not read while a process runs, as of a release stream.
	passes bool
	// rows is the highest row of each table; began where it was decided first, -1 before.
	rows, began []int
	log         []said
	clock       int
	generations []generation
	copies      map[slot]sharedStore
	fences      map[shareOf]*member
	// entered are the epochs of the processes of a share that may have published.
	entered map[slot][]int
	folders map[shareOf]sharedStore
	members []*member
	faults  []string
}

type (
	// shareOf is a share: index and number.
	shareOf struct{ index, number int }
	slot    struct {
		generation int
		shareOf
	}
	generation struct {
		number int
		open   bool
	}
	// said is a message. The generation is of the one that sent it, which no message tells.
	said struct{ table, row, epoch, generation int }
)

func (p shareOf) has(table int) bool { return table%p.number == p.index }

// flight is a message that was sent. The bus has it when it is stored.
type flight struct {
	said
	stored bool
}

// sharedStore is what a share keeps: of each table how far it is published, -1 where it is not
// decided, and the offset below which it has read the TP.
type sharedStore struct {
	published map[int]int
	offset    int
	epoch     int
}

func (s sharedStore) clone() sharedStore {
	s.published = maps.Clone(s.published)
	return s
}

// member is a process. Its steps are in the order of what it does when it starts.
type member struct {
	shareOf
	step       int
	generation int
	sharedStore
	flight        *flight
	ended, paused bool
	// unknown says that the outcome of a message is unknown, and the TP was not read behind it.
	unknown bool
	// floor is where the TP ended, and open what was in flight, when that was noted. before are
	// those that had entered the share when the process began.
	floor  int
	open   *flight
	before []int
	// shut says that it has shut out others, for a mutant.
	shut bool
}

const fleetTables = 4

func newFleet(seed uint64) *fleet {
	f := &fleet{rng: rand.New(rand.NewPCG(seed, 2)), once: seed%2 == 0, passes: seed%4 > 1, copies: map[slot]sharedStore{}, fences: map[shareOf]*member{}, entered: map[slot][]int{}, folders: map[shareOf]sharedStore{},
		generations: []generation{{1, true}}}
	for range fleetTables {
		f.rows, f.began = append(f.rows, 0), append(f.began, -1)
	}
	f.start(1)
	return f
}

func (f *fleet) start(number int) {
	for _, i := range f.rng.Perm(number) {
		f.members = append(f.members, &member{shareOf: shareOf{i, number}})
	}
}

func (f *fleet) last() (int, generation) {
	n := len(f.generations) - 1
	return n, f.generations[n]
}

// binds reports whether what a process decides is known to those that follow: no other one of its
// share has loaded what was decided before.
func (f *fleet) binds(m *member) bool {
	other := func(o *member) bool { return o != m && o.shareOf == m.shareOf && o.step > 2 }
	return m.generation >= f.open() && f.copies[slot{m.generation, m.shareOf}].epoch <= m.epoch && !slices.ContainsFunc(f.members, other)
}

func (f *fleet) open() (last int) {
	for n, g := range f.generations {
		if g.open {
			last = n
		}
	}
	return last
}

func (f *fleet) act(m *member) {
	switch m.step {
	case 0:
		f.join(m)
		return
	case 1:
		m.before = slices.Clone(f.entered[slot{m.generation, m.shareOf}])
		f.fences[m.shareOf] = m
		if mutant == asksBeforeEpoch && !f.holds(m) {
			return
		}
	case 2:
		f.load(m)
	case 3:
		f.read(m)
		m.epoch = max(m.epoch, f.clock) + 1
		f.clock = m.epoch
	case 4:
		at := slot{m.generation, m.shareOf}
		f.entered[at] = append(f.entered[at], m.epoch)
		if mutant != neverAsks && mutant != asksBeforeEpoch && !f.holds(m) {
			return
		}
	default:
		f.work(m)
		return
	}
	m.step++
}

// holds ends a process of a former number.
func (f *fleet) holds(m *member) bool {
	n, _ := f.last()
	m.ended = m.ended || m.generation != n
	return !m.ended
}

func (f *fleet) join(m *member) {
	n, last := f.last()
	switch {
	case last.number == m.number && (last.open || mutant == opensAtOnce):
		m.generation, m.step = n, 1
		if mutant == opensAtOnce && !last.open && m.index == 0 {
			f.generations[n].open = true
		}
	case m.index != 0:
	case last.number == m.number:
		if mutant != fencesFirst {
			f.shutOut(n)
		}
		f.generations[n].open = true
	default:
		if mutant == fencesFirst && !m.shut {
			f.shutOut(n + 1)
			m.shut = true
			return
		}
		f.generations = append(f.generations, generation{number: m.number})
	}
}

// shutOut takes the fences of all shares of generations below n, from the one that was open last.
func (f *fleet) shutOut(n int) {
	for n--; n >= 0; n-- {
		for i := range f.generations[n].number {
			f.fences[shareOf{i, f.generations[n].number}] = nil
		}
		if f.generations[n].open {
			return
		}
	}
}

// load goes on from the folder, and takes from the copies what that lacks.
func (f *fleet) load(m *member) {
	own := slot{m.generation, m.shareOf}
	folder, kept := f.folders[m.shareOf]
	if m.sharedStore = folder.clone(); !kept {
		m.sharedStore = sharedStore{published: map[int]int{}}
		if c, has := f.copies[own]; has {
			m.sharedStore = c.clone()
		}
	}
	offset := -1
	for table := range fleetTables {
		if _, has := m.published[table]; has || !m.has(table) {
			continue
		}
		c, found := f.owner(table, m.generation)
		if at, has := c.published[table]; found && has {
			m.published[table] = at
			if offset < 0 || c.offset < offset || mutant == highestOffset && c.offset > offset {
				offset = c.offset
			}
			m.epoch = max(m.epoch, c.epoch)
		}
	}
	if !kept && offset >= 0 {
		m.offset = offset
	}
}

// owner returns the copy of who had a table last.
func (f *fleet) owner(table, generation int) (c sharedStore, found bool) {
	best := slot{generation: -1}
	for s, one := range f.copies {
		if s.generation <= generation && s.has(table) && s.generation > best.generation {
			best, c, found = s, one, true
		}
	}
	return c, found
}

// read applies the TP from the offset to its end. It ends a process that meets another one of its
// share.
func (f *fleet) read(m *member) {
	for ; m.offset < len(f.log); m.offset++ {
		s := f.log[m.offset]
		mine := m.has(s.table)
		if mutant == passesOwn && m.flight != nil && s == m.flight.said {
			continue
		}
		if m.step > 3 && s.epoch > m.epoch && (mine || mutant == peerSupersedes) {
			if s.generation < m.generation {
				f.faults = append(f.faults, "a process of a former number supersedes")
			}
			m.ended = true
			return
		}
		if m.step == 3 && mine {
			m.epoch = max(m.epoch, s.epoch)
		}
		table := s.table
		if mutant == peerCounts && !mine {
			table = m.index
		}
		if at, decided := m.published[table]; decided && (mine || mutant == peerCounts) {
			m.published[table] = max(at, s.row)
		}
	}
}

func (f *fleet) work(m *member) {
	switch n := f.rng.IntN(8); {
	case n == 0:
		f.holds(m)
	case n == 1:
		f.copy(m)
	case n == 2 && f.passes:
		if f.isAlone(m) || mutant == passesBlindly {
			f.pass(m)
		} else {
			f.read(m)
		}
	case m.unknown:
		// Before the next message.
		if m.ended = f.once && f.fences[m.shareOf] != m; !m.ended {
			f.read(m)
			m.unknown = false
		}
	case n == 2:
		// Also while its message is held.
		f.read(m)
	case n == 3:
		f.folders[m.shareOf] = m.sharedStore.clone()
	case m.flight != nil:
		f.arrives(m)
	default:
		table := f.rng.IntN(fleetTables)
		if !m.has(table) {
			return
		}
		at, decided := m.published[table]
		switch {
		case !decided && mutant != decidesAnyway && !f.holds(m):
		case !decided:
			// The copy is there before the first row is read.
			m.published[table] = f.rows[table]
			if f.copy(m); f.began[table] < 0 && f.binds(m) {
				f.began[table] = f.rows[table]
			}
		case at < f.rows[table]:
			m.flight = &flight{said: said{table, at + 1, m.epoch, m.generation}}
		}
	}
}

// arrives has the message in flight be on the bus, and then be acknowledged and in the store, or
// have an unknown outcome.
func (f *fleet) arrives(m *member) {
	s := m.flight
	switch {
	case !s.stored && f.once && f.fences[m.shareOf] != m:
		m.flight, m.ended = nil, true
	case !s.stored:
		f.log = append(f.log, s.said)
		s.stored = true
	case f.rng.IntN(6) == 0:
		m.flight, m.unknown = nil, true
	default:
		m.flight, m.published[s.table] = nil, max(m.published[s.table], s.row)
	}
}

// isAlone reports whether nobody else has entered the share since a process began, by its number or
// by another one.
func (f *fleet) isAlone(m *member) bool {
	n, _ := f.last()
	return n == m.generation && !slices.ContainsFunc(f.entered[slot{n, m.shareOf}], func(epoch int) bool {
		return epoch != m.epoch && (epoch > m.epoch || !slices.Contains(m.before, epoch))
	})
}

// pass moves the offset to where the TP ended the time before, once the store has the outcome of
// what was in flight then.
func (f *fleet) pass(m *member) {
	isOpen := m.open != nil && m.flight == m.open
	if (!isOpen || mutant == passesFlight) && (!m.unknown || mutant == passesUnknown) {
		m.offset = max(m.offset, m.floor)
	}
	m.floor, m.open = len(f.log), m.flight
}

func (f *fleet) copy(m *member) {
	own := slot{m.generation, m.shareOf}
	if f.copies[own].epoch <= m.epoch {
		// Keys have the epoch in them: a process that was superseded replaces nothing.
		f.copies[own] = m.sharedStore.clone()
	}
	for s := range f.copies {
		needed := s.generation >= m.generation
		for table := range fleetTables {
			_, has := f.copies[s].published[table]
			_, later := f.copies[slot{m.generation, shareOf{table % m.number, m.number}}]
			needed = needed || has && !later
		}
		if s != own && (!needed || mutant == deletesPeers) {
			delete(f.copies, s)
		}
	}
}

func (f *fleet) harm() {
	m := f.members[f.rng.IntN(len(f.members))]
	switch f.rng.IntN(9) {
	case 0, 1:
		f.kill(m)
		f.members = append(f.members, &member{shareOf: m.shareOf})
	case 2:
		f.kill(m)
		delete(f.folders, m.shareOf)
		f.members = append(f.members, &member{shareOf: m.shareOf})
	case 3, 4, 5:
		m.paused = !m.paused
	case 6:
		if _, last := f.last(); last.open {
			// Former processes may go on, or stand still.
			number := 1 + f.rng.IntN(3)
			for _, m := range slices.Clone(f.members) {
				if f.rng.IntN(2) == 0 {
					f.kill(m)
				}
			}
			f.start(number)
		}
	}
}

// kill ends a process. What it has in flight arrives or not.
func (f *fleet) kill(m *member) {
	if m.flight != nil && !m.flight.stored && f.rng.IntN(2) == 0 {
		f.arrives(m)
	}
	m.ended = true
	f.members = slices.DeleteFunc(f.members, func(o *member) bool { return o == m })
}

func runFleet(seed uint64) []string {
	f := newFleet(seed)
	for range 60 + int(seed%400) {
		f.members = slices.DeleteFunc(f.members, func(m *member) bool { return m.ended })
		switch n := f.rng.IntN(40); {
		case n < 4:
			f.rows[f.rng.IntN(fleetTables)]++
		case n < 6 && len(f.members) > 0:
			f.harm()
		case len(f.members) == 0:
			f.start(1 + f.rng.IntN(3))
		default:
			if m := f.members[f.rng.IntN(len(f.members))]; !m.paused {
				f.act(m)
			}
		}
	}
	return f.finish()
}

// finish has the shares of one number publish all, and compares the bus with the tables.
func (f *fleet) finish() (faults []string) {
	for _, m := range slices.Clone(f.members) {
		f.kill(m)
	}
	f.start(1 + f.rng.IntN(3))
	all, more := false, 1
	if len(f.log)%4 == 0 {
		// Behind what has to be published, too much might be.
		more = 200
	}
	for n := 0; n < 3000 && more > 0; n++ {
		if all = all || n%32 == 0 && f.published(); all {
			more--
		}
		f.act(f.members[f.rng.IntN(len(f.members))])
		f.members = slices.DeleteFunc(f.members, func(m *member) bool { return m.ended })
		if len(f.members) == 0 {
			return []string{"all processes have ended"}
		}
	}
	faults = f.faults
	times := map[said]int{}
	for _, s := range f.log {
		times[said{s.table, s.row, 0, 0}]++
	}
	for table, rows := range f.rows {
		for row := 1; row <= rows; row++ {
			switch n := times[said{table, row, 0, 0}]; {
			case n == 0 && f.began[table] >= 0 && row > f.began[table]:
				faults = append(faults, "a row is lost")
			case n > 1 && f.once:
				faults = append(faults, "a row is there twice")
			}
		}
	}
	return faults
}

// published reports whether nothing is left to do: each process has published its tables, and has
// read what the others have.
func (f *fleet) published() bool {
	for _, m := range f.members {
		if m.step < 5 || m.flight != nil || m.unknown || m.offset < len(f.log) {
			return false
		}
		for table, rows := range f.rows {
			if at, decided := m.published[table]; m.has(table) && (!decided || at < rows) {
				return false
			}
		}
	}
	return true
}

func TestSharesHold(t *testing.T) { holds(t, testall.Cases(4000, 30_000), runFleet) }

func TestMutantsOfSharesAreFound(t *testing.T) {
	from := map[string]uint64{fencesFirst: 18_000, decidesAnyway: 25_000, passesBlindly: 21_000}
	for _, name := range []string{highestOffset, deletesPeers, peerSupersedes, peerCounts, fencesFirst, opensAtOnce, decidesAnyway, neverAsks, asksBeforeEpoch, passesFlight, passesUnknown, passesOwn, passesBlindly} {
		t.Run(name, func(t *testing.T) { found(t, name, from[name], runFleet) })
	}
}
