package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/event"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// Options say what to compare.
type Options struct {
	// Shards are the tables, those of a stream side by side.
	Shards []Shard
	// Unfit are streams that cannot be judged, whatever becomes of their tables.
	Unfit []Unfit
	// Bus is read, and not closed.
	Bus *Bus
	// Examples is how many examples of each finding are kept. Defaults to 10; a negative number is
	// none.
	Examples int
	// Rounds is how often what does not fit is looked at again before it is reported, Pause the
	// time before each round. They default to 3 and 1 s; a stability window makes the pause longer,
	// so that all rounds together outlast it, up to a minute.
	Rounds int
	Pause  time.Duration
	// Domain is the event domain: messages of another one are passed over. Empty: any.
	Domain string
	// Numbers is the memory for the numbers of messages, in bytes: one bit for each, where those
	// around it have not been read yet. Events of former tables have as much. Defaults to 64 MiB.
	Numbers int
	// Progress is called now and then with the work that is done. Optional.
	Progress func(Step)
}

// Step says how far a run is.
type Step struct {
	// What is being done, as a verb phrase.
	What string
	// Done of Total are done; Total is 0 where it is not known.
	Done, Total uint64
}

// Shard is one table with what its events look like.
type Shard struct {
	// Stream and Name are the stream's and the shard's names.
	Stream, Name string
	Kind         event.Kind
	// Source reads the table. The tables of a Database are away together.
	Source   source.Shard
	Database string
	// Encoder encodes its rows; it is the check's own.
	Encoder *event.Encoder
	// Zone is the zone of DATETIME columns. Defaults to UTC.
	Zone *time.Location
	// Window is the stability window.
	Window time.Duration
	// Latest and After are START: rows that were there before are not expected on the bus.
	Latest bool
	After  uint64
	// Apart says that the entities of a capability shard are its own, as without a KEY: an id in
	// another table is another entity. Else the tables of a stream share their entities.
	Apart bool
	// Hash is the hash of kind, key columns and scope, as sink.State has it. 0: not compared.
	Hash uint32
	// Destinations are the topics of the shard; unused for a bus without them.
	Destinations []string
	// Text returns what a finding says of an error of Encoder. Defaults to its Error.
	Text func(error) string
}

type run struct {
	Options
	report   *Report
	streams  []*stream
	entities []*entities
	page     source.Page
	// tables are the judged tables; all has the tables of unfit streams, too.
	tables, all []*table

	named    map[[2]string]*table
	stamps   stamps
	homes    homes
	envelope envelope
	// domains counts the messages of other domains, of at most mostDomains by their names.
	domains map[string]uint64
	// formers are the events of release streams under names of shards that are not configured.
	formers map[formerShard]map[uint64]uint64
	// formersLeft is the memory for them, in bytes.
	formersLeft int
	// deletions are the deleted events read last, by partition, and orphans the tombstones that
	// follow none.
	deletions map[int]deletion
	orphans   map[orphan]*Finding
}

// Run compares the tables with the bus. An error says that it could not: what it found is in the
// report alone.
func Run(ctx context.Context, o Options) (*Report, error) {
	o.Examples = max(cmp.Or(o.Examples, 10), 0)
	o.Rounds = cmp.Or(max(o.Rounds, 0), 3)
	o.Pause = cmp.Or(o.Pause, time.Second)
	o.Numbers = cmp.Or(o.Numbers, 64<<20)
	if o.Progress == nil {
		o.Progress = func(Step) {}
	}
	r := &run{
		Options: o,
		report:  &Report{Unfit: slices.Concat([]Unfit{}, o.Unfit), OtherDomains: []OtherDomain{}, Foreign: Finding{Fault: foreign, Examples: []Example{}}},
		named:   make(map[[2]string]*table), domains: make(map[string]uint64), formers: make(map[formerShard]map[uint64]uint64),
		formersLeft: o.Numbers,
		stamps:      stamps{left: o.Numbers, terms: make(map[termID]*term), runs: make(map[uint64]*term)}, homes: newHomes(o.Bus.Partitions),
		deletions: make(map[int]deletion), orphans: make(map[orphan]*Finding),
	}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	if err := r.readBus(ctx); err != nil {
		return nil, err
	}
	if err := r.each(func(t *table) error { return t.scan(ctx) }); err != nil {
		return nil, err
	}
	for _, l := range r.entities {
		for _, n := range l.index {
			if !n.seen && !n.dead && !n.shard.isFormer() {
				l.extra[n] = true
			}
		}
	}
	// What was acknowledged before the bus is read again must be there then.
	again := r.stamps.suspected()
	for round := 1; round <= r.Rounds && (again || r.suspected() > 0); round++ {
		again = false
		if err := r.recheck(ctx, round == r.Rounds); err != nil {
			return nil, err
		}
	}
	return r.report, r.finish(ctx)
}

// prepare learns the columns of the tables, without which events cannot be judged.
func (r *run) prepare(ctx context.Context) error {
	of := make(map[string]*stream)
	for _, o := range r.Options.Shards {
		if r.isUnfit(o.Stream) {
			continue
		}
		if of[o.Stream] == nil {
			of[o.Stream] = &stream{
				report: Stream{Stream: o.Stream, Kind: o.Kind}, origins: make(map[origin][]*table), formers: make(map[string]*table),
				tally:      tally{most: r.Examples, found: make(map[Code]*Finding), past: make(map[Code]*Finding)},
				deliveries: deliveries{once: make(map[uint64]bool), repeats: make(map[repeatID]*repeatedRows)},
			}
			r.streams = append(r.streams, of[o.Stream])
		}
		of[o.Stream].report.Shards++
		r.tables = append(r.tables, r.newTable(o, of[o.Stream]))
	}
	if err := r.each(func(t *table) error {
		r.Progress(Step{What: "looking at " + t.Name})
		_, err := t.read(ctx, source.Query{Limit: 1})
		return err
	}); err != nil {
		return err
	}
	for _, t := range r.tables {
		if t.Kind != event.Release {
			at := slices.IndexFunc(r.entities, func(l *entities) bool { return l.tables[0].Stream == t.Stream && !t.Apart })
			if at < 0 {
				at = len(r.entities)
				r.entities = append(r.entities, &entities{
					index: make(map[key]*entity), extra: make(map[*entity]bool), awaited: make(map[*entity]await), late: make(map[*entity]uint64),
				})
			}
			t.entities = r.entities[at]
			t.tables = append(t.tables, t)
		}
		r.named[[2]string{t.Stream, t.Name}] = t
		at := origin{t.Encoder.Source(), t.Encoder.Table()}
		t.origins[at] = append(t.origins[at], t)
	}
	r.all = slices.Clone(r.tables)
	return nil
}

// each calls do for all tables. Where it fails for good, the stream of the table is not judged, and
// where a database cannot be reached none that has a table there; an error is returned where none
// is left.
func (r *run) each(do func(*table) error) error {
	var failed []error
	for _, t := range slices.Clone(r.tables) {
		if r.isUnfit(t.Stream) {
			continue
		}
		err := do(t)
		unfit, ok := errors.AsType[*unfitError](err)
		switch {
		case err == nil:
			continue
		case !ok:
			return err
		}
		for _, other := range r.tables {
			if other != t && !(unfit.away && other.Database == t.Database) || r.isUnfit(other.Stream) {
				continue
			}
			u := Unfit{Stream: other.Stream, Shard: other.Name, What: unfit.Error()}
			if t.Text != nil {
				u.What = t.Text(unfit.error)
			}
			r.report.Unfit = append(r.report.Unfit, u)
		}
		failed = append(failed, err)
		r.tables = slices.DeleteFunc(r.tables, func(t *table) bool { return r.isUnfit(t.Stream) })
		r.entities = slices.DeleteFunc(r.entities, func(l *entities) bool { return r.isUnfit(l.tables[0].Stream) })
	}
	if len(r.tables) == 0 {
		return errors.Join(failed...)
	}
	return nil
}

func (r *run) isUnfit(stream string) bool {
	return slices.ContainsFunc(r.report.Unfit, func(u Unfit) bool { return u.Stream == stream })
}

// at returns the index of a stream, -1 for one that is not configured.
func (r *run) at(name string) int {
	return slices.IndexFunc(r.streams, func(of *stream) bool { return of.report.Stream == name })
}

func (r *run) readBus(ctx context.Context) error {
	return r.Bus.Read(ctx, r.add, func(done, total uint64) {
		r.Progress(Step{What: "reading the bus", Done: done, Total: total})
	})
}

// suspected counts the differences that have to be read again.
func (r *run) suspected() int {
	n := 0
	for _, t := range r.tables {
		n += len(t.suspects)
	}
	for _, l := range r.entities {
		n += len(l.extra)
	}
	return n
}

// recheck reads the bus on and then the rows that did not fit; the last time, what still does not
// is reported. All rounds together outlast the stability windows.
func (r *run) recheck(ctx context.Context, last bool) error {
	r.Progress(Step{What: fmt.Sprintf("waiting to look again at %d rows", r.suspected())})
	window := time.Duration(0)
	for _, s := range r.tables {
		window = max(window, s.Window)
	}
	if err := backoff.Pause(ctx, max(r.Pause, (min(window, mostWindow)+2*r.Pause)/time.Duration(r.Rounds))); err != nil {
		return err
	}
	for _, t := range r.stamps.terms {
		// All numbers that were acknowledged by now are there once the bus is read again.
		t.due = t.acked
	}
	if err := r.readBus(ctx); err != nil {
		return err
	}
	for _, t := range r.tables {
		for _, s := range t.suspects {
			if s.entity != nil {
				s.entity.seen, s.entity.double = false, false
			}
		}
	}
	if err := r.each(func(t *table) error { return t.recheck(ctx, last) }); err != nil {
		return err
	}
	// A row may have moved to another table, so all tables are read first.
	return r.each(func(t *table) error {
		t.concludeShared()
		if l := t.entities; l != nil && l.tables[0] == t {
			return l.recheckExtra(ctx, last)
		}
		return nil
	})
}

func (r *run) finish(ctx context.Context) error {
	report, partitions := r.report, r.Bus.Partitions
	report.Partitions = partitions
	r.finishBus(partitions)
	r.homes.finish()
	err := r.each(func(t *table) error {
		t.finish()
		if t.facts == nil {
			return nil
		}
		next, err := t.Source.NextID(ctx)
		if err != nil {
			return t.failed(ctx, err)
		}
		t.finishFacts(next)
		t.report.Live += uint64(len(t.byRow))
		return nil
	})
	if err != nil {
		return err
	}
	for _, l := range r.entities {
		l.finish(partitions)
		for _, n := range l.index {
			if !n.dead && !n.shard.isFormer() {
				l.tables[0].report.Live++
			}
		}
	}
	report.Good = report.Foreign.Count == 0 && len(report.Unfit) == 0
	for _, s := range r.streams {
		if r.isUnfit(s.report.Stream) {
			continue
		}
		s.deliveries.finish(&s.tally)
		s.head.finish()
		s.fill(&s.report)
		report.Streams = append(report.Streams, s.report)
		report.Good = report.Good && len(s.report.Faults) == 0
	}
	return r.complete(ctx)
}

// complete fills in the names of partitions, and from the bus what the examples of entities do not
// hold.
func (r *run) complete(ctx context.Context) error {
	all := []Finding{r.report.Foreign}
	for _, s := range r.report.Streams {
		all = slices.Concat(all, s.Faults, s.Healed, s.Unjudged, s.Repeated)
	}
	for _, f := range all {
		for i := range f.Examples {
			e := &f.Examples[i]
			if e.partition < 0 {
				continue
			}
			e.Partition = r.report.Partitions[e.partition].Name
			if e.Event != "" || e.Shard == "" {
				continue
			}
			m, err := r.Bus.fetch(ctx, e.partition, e.At)
			if err != nil && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			var v envelope
			if err != nil || m == nil {
				// It has expired since: the example is poorer for it.
				continue
			}
			s := r.named[[2]string{m.header[sink.HeaderStream], m.header[sink.HeaderShard]}]
			if s == nil {
				continue
			}
			if s.asRow(m); v.read(m, s.Kind) != nil {
				continue
			}
			if e.Event = string(v.id); e.Key == "" {
				judged := s.prove(m, &v, &stamp{})
				e.Key = string(judged.key)
			}
		}
	}
	return nil
}
