package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bridge/internal/backoff"
	"bridge/source"
)

const (
	pageRows  = 2000
	pageBytes = 8 << 20
	// retryFor is how long one outage of a source may last.
	retryFor = 30 * time.Second
	// mostWindow bounds how long a stability window is waited for.
	mostWindow = time.Minute
)

// run is one check.
type run struct {
	Options
	shards []*shard
	fold   *fold
	tables []*table
	scopes []*scope
	page   source.Page
	// unfit are the streams with a table that cannot be read, or whose rows make no events.
	unfit []Unfit
}

// Run compares the tables with the bus. An error says that it could not: what it found is in the
// report alone.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &run{Options: o.withDefaults()}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	if err := r.readBus(ctx); err != nil {
		return nil, err
	}
	if err := r.each(func(t *table) error { return t.scan(ctx) }); err != nil {
		return nil, err
	}
	for _, c := range r.scopes {
		c.findExtra()
	}
	// What was acknowledged before the bus is read again must be there then.
	again := r.fold.stamps.suspected()
	for round := 1; round <= r.Rounds && (again || r.suspected() > 0); round++ {
		again = false
		if err := r.recheck(ctx, round == r.Rounds); err != nil {
			return nil, err
		}
	}
	return r.report(ctx)
}

// prepare learns the shapes of the tables, without which events cannot be judged.
func (r *run) prepare(ctx context.Context) error {
	tallies, newests := make(map[string]*tally), make(map[string]*newest)
	for _, o := range r.Options.Shards {
		if tallies[o.Stream] == nil {
			tallies[o.Stream], newests[o.Stream] = newTally(r.Examples), new(newest)
		}
		r.tables = append(r.tables, &table{run: r, shard: newShard(o, r.Domain, tallies[o.Stream], newests[o.Stream])})
	}
	if err := r.each(func(t *table) error {
		r.Progress(Step{What: "looking at " + t.shard.Name})
		return t.read(ctx, source.Query{Limit: 1})
	}); err != nil {
		return err
	}
	for _, t := range r.tables {
		if err := r.join(t); err != nil {
			return err
		}
		r.shards = append(r.shards, t.shard)
	}
	r.fold = newFold(r.shards, r.unfit, &r.Options)
	return nil
}

// each calls do for all tables. Where it fails for good, the stream of the table is not judged; an
// error is returned where none is left, or the source cannot be reached.
func (r *run) each(do func(*table) error) error {
	var failed []error
	for _, t := range slices.Clone(r.tables) {
		if r.isUnfit(t.shard.Stream) {
			continue
		}
		err := do(t)
		if err == nil {
			continue
		}
		unfit, ok := errors.AsType[*unfitError](err)
		if !ok {
			return err
		}
		failed = append(failed, err)
		r.unfit = append(r.unfit, Unfit{Stream: t.shard.Stream, Shard: t.shard.Name, What: t.shard.text(unfit.error)})
		r.tables = slices.DeleteFunc(r.tables, func(t *table) bool { return r.isUnfit(t.shard.Stream) })
		r.scopes = slices.DeleteFunc(r.scopes, func(c *scope) bool { return r.isUnfit(c.tables[0].shard.Stream) })
	}
	if len(r.tables) == 0 {
		return errors.Join(failed...)
	}
	return nil
}

func (r *run) isUnfit(stream string) bool {
	return slices.ContainsFunc(r.unfit, func(u Unfit) bool { return u.Stream == stream })
}

// readBus takes in what the bus has got since the last time.
func (r *run) readBus(ctx context.Context) error {
	return r.Bus.Read(ctx, r.fold.add, func(done, total uint64) {
		r.Progress(Step{What: "reading the bus", Done: done, Total: total})
	})
}

// suspected counts what is to be looked at again.
func (r *run) suspected() int {
	n := 0
	for _, t := range r.tables {
		n += len(t.suspects)
	}
	for _, c := range r.scopes {
		n += len(c.extra)
	}
	return n
}

// recheck reads the bus on and then the rows that did not fit; the last time, what still does not
// is reported.
func (r *run) recheck(ctx context.Context, last bool) error {
	r.Progress(Step{What: fmt.Sprintf("waiting to look again at %d rows", r.suspected())})
	if err := backoff.Pause(ctx, r.pause()); err != nil {
		return err
	}
	r.fold.stamps.expect()
	if err := r.readBus(ctx); err != nil {
		return err
	}
	if err := r.each(func(t *table) error { return t.again(ctx, last) }); err != nil {
		return err
	}
	// A row may have moved to another table, so all tables are read first.
	return r.each(func(t *table) error {
		c := t.shard.scope
		if c == nil || c.tables[0] != t {
			return nil
		}
		if err := c.rereadExtra(ctx); err != nil {
			return err
		}
		c.extraAgain(last)
		return nil
	})
}

// pause is the time before a round: all rounds together outlast the stability windows.
func (r *run) pause() time.Duration {
	window := time.Duration(0)
	for _, s := range r.shards {
		window = max(window, s.Window)
	}
	return max(r.Pause, (min(window, mostWindow)+2*r.Pause)/time.Duration(r.Rounds))
}

// report sums up.
func (r *run) report(ctx context.Context) (*Report, error) {
	report := &Report{
		Messages: r.fold.messages, Others: r.fold.others, DeadLetters: r.fold.deadLetters,
		OtherDomains: r.fold.domains.list(),
		Unfit:        append([]Unfit{}, r.unfit...),
		Foreign:      Finding{Fault: Foreign, Examples: []Example{}}, Partitions: []PartitionReport{},
	}
	partitions := r.Bus.Partitions()
	for _, p := range partitions {
		report.Partitions = append(report.Partitions, PartitionReport{Partition: p.Name, First: p.First, Next: p.Next, Expired: p.Expired, Thinned: p.Thinned})
	}
	r.fold.stamps.finish(partitions, r.shards)
	r.fold.tombstones.finish(partitions)
	at := make(map[string]int)
	for _, t := range r.tables {
		s := t.shard
		if _, known := at[s.Stream]; !known {
			at[s.Stream] = len(report.Streams)
			report.Streams = append(report.Streams, Stream{Stream: s.Stream, Kind: s.Kind})
			s.tally.deliveries.finish(s.tally)
		}
		s.finish()
		if s.facts != nil {
			r.fold.homes.finish(s.facts.strays)
		}
		if err := t.finishFacts(ctx); err != nil {
			return nil, err
		}
		t.sum(&report.Streams[at[s.Stream]])
	}
	for _, c := range r.scopes {
		c.finishLinks(partitions)
		r.fold.homes.finish(c.strays)
		report.Streams[at[c.tables[0].shard.Stream]].Live += c.live()
	}
	for _, t := range r.tables {
		t.shard.head.finish(t.shard)
		t.shard.tally.report(&report.Streams[at[t.shard.Stream]])
	}
	if found := r.fold.foreign.wrong[Foreign]; found != nil {
		report.Foreign = *found
	}
	if err := r.complete(ctx, report, partitions); err != nil {
		return nil, err
	}
	report.summarize()
	return report, nil
}

// complete fills in the names of partitions, and from the bus what the examples of entities do not
// hold.
func (r *run) complete(ctx context.Context, report *Report, partitions []Partition) error {
	lists := [][]Example{report.Foreign.Examples}
	for _, s := range report.Streams {
		for _, f := range slices.Concat(s.Faults, s.Healed) {
			lists = append(lists, f.Examples)
		}
		for _, d := range s.Unjudged {
			lists = append(lists, d.Examples)
		}
		for _, r := range s.Repeated {
			lists = append(lists, r.Examples)
		}
	}
	for _, list := range lists {
		for i := range list {
			if err := r.completeOne(ctx, &list[i], partitions); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) completeOne(ctx context.Context, e *Example, partitions []Partition) error {
	if e.partition < 0 {
		return nil
	}
	e.Partition = partitions[e.partition].Name
	if e.Event != "" || e.Shard == "" {
		return nil
	}
	m, err := r.Bus.Fetch(ctx, e.partition, e.At)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// It has expired since: the example is poorer for it.
		return nil
	}
	var v envelope
	if v.read(m, r.fold.named[[2]string{m.Header.Stream, m.Header.Shard}]) != nil {
		return nil
	}
	e.Event = string(v.id)
	for _, s := range r.shards {
		if e.Key == "" && r.fold.owners[identity(v.uri, v.database, v.table)] == s {
			s.spread(&v, s.live)
			e.Key = s.keyText(v.row)
		}
	}
	return nil
}
