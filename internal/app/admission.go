package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/check"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/lineage"
	"example.org/bridge/internal/panics"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
)

// admissions say before a table is published whether it may be. They compare the databases with the
// bus.
type admissions struct {
	*parts
	cfg     *config.Config
	streams []*appStream
	// phases are by turn, nil where the bus cannot be read.
	phases map[bool]*entitlement
	// known has by stream the progress of its tables: one that has caught up knows all names.
	mu    sync.Mutex
	known map[string]map[store.Key]store.Progress
}

func newAdmissions(cfg *config.Config, p *parts, streams []*appStream) *admissions {
	a := &admissions{parts: p, cfg: cfg, streams: streams, known: make(map[string]map[store.Key]store.Progress)}
	if a.reader == nil {
		a.sources.gated = false
		return a
	}
	a.phases = map[bool]*entitlement{false: a.newEntitlement(), true: a.newEntitlement()}
	return a
}

// admission is the Recovery of a shard that waits until its table may be published, too.
type admission struct {
	shard.Recovery
	*admissions
	table string
}

func (a admission) Wait(ctx context.Context, stream string) error {
	if err := a.Recovery.Wait(ctx, stream); err != nil {
		return err
	}
	d, _ := a.sources.of(a.table)
	if err := a.compareLater(ctx, stream, d); err != nil {
		return err
	}
	return a.refuseRenamed(ctx, stream, a.table)
}

// confirm is Confirm of catch-up: it compares the databases of a stream with the bus. Where there
// are several it does not wait for one that is away: the tables of that wait, which are compared
// when it answers. But one of all has to be the one that the bus has rows of: before that this
// process must not take over.
func (a *admissions) confirm(ctx context.Context, stream string, turn bool) error {
	entitled, dbs := a.phases[turn], a.sources.ofStream(a.cfg.Stream(stream))
	errs := a.sources.each(func(d *database) error {
		if !slices.Contains(dbs, d) {
			return nil
		}
		return a.compareFirst(ctx, stream, d, entitled.checks[d])
	})
	err := errors.Join(errs...)
	if err == nil && a.sources.gated {
		err = entitled.wait(ctx)
	}
	if err == nil {
		entitled.forget(stream)
	}
	return err
}

// compareFirst compares a database with the bus for a stream. Among several one that is away, or
// another one than the bus has rows of, concerns its own tables: they ask again.
func (a *admissions) compareFirst(ctx context.Context, stream string, d *database, check *lineage.Check) error {
	up, cancel := a.sources.while(ctx, d, true)
	defer cancel()
	err := check.Stream(up, stream)
	switch {
	case panics.Is(err):
		// It shows nothing, and must not end the other streams.
		a.logger.Error("the tables of the stream could not be compared with the bus", append(panics.LogArgs(err), "stream", stream)...)
		err = nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case a.sources.gated && (errors.Is(err, errAway) || errors.Is(err, errOneServer) || errors.Is(err, lineage.ErrOtherDatabase) || up.Err() != nil):
		a.sources.admit(stream, d, false)
		return nil
	}
	a.sources.admit(stream, d, err == nil)
	return err
}

// entitlement waits, where there are several databases, until one of them is the one that the bus
// has rows of. Without it a process that has the wrong ones, or reaches none, would take over from
// the one that publishes.
type entitlement struct {
	of   *admissions
	scan scanner
	// forget drops what was scanned of a stream: nobody waits for it any more.
	forget func(stream any)
	// checks are those of the streams, which may have seen it already.
	checks map[*database]*lineage.Check
	// checking is held by who compares. ended and err are the result.
	checking chan struct{}
	ended    bool
	err      error
}

func (a *admissions) newEntitlement() *entitlement {
	e := &entitlement{of: a, checks: make(map[*database]*lineage.Check), checking: make(chan struct{}, 1)}
	e.scan, e.forget = a.scanOnce()
	for _, d := range a.sources.all {
		e.checks[d] = a.newLineage(d, e.scan, func(stream string) bool { return a.recovery.CatchesUp(stream) }, true)
	}
	return e
}

// wait returns nil when this process may take over, else an error that wraps ErrOtherDatabase.
func (e *entitlement) wait(ctx context.Context) error {
	for _, check := range e.checks {
		if survived, _ := check.Evidence(); survived {
			return nil
		}
	}
	release, err := backoff.Acquire(ctx, e.checking)
	if err != nil {
		return err
	}
	defer release()
	pause := backoff.Backoff{Max: 5 * time.Second}
	for !e.ended {
		var err error
		switch e.ended, err = e.compare(ctx); {
		case e.ended:
			e.err = err
		case err != nil:
			return err
		default:
			if err := pause.Wait(ctx); err != nil {
				return err
			}
		}
	}
	return e.err
}

// Rows that survived outweigh those of another database, which outweigh a database that says
// neither. Databases of which the bus has nothing do not count, unless that is all of them: one has
// to answer. What was read of the bus is not all, so another database is not the last word while
// one does not answer. It ends at once where rows have survived, and to begin again where a
// database is back: a topic that does not answer keeps neither waiting.
func (e *entitlement) compare(ctx context.Context) (ended bool, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	for _, d := range e.of.sources.all {
		var cancel context.CancelFunc
		ctx, cancel = e.of.sources.while(ctx, d, false)
		defer cancel()
	}
	var mu sync.Mutex
	var survived, answered, reached, unseen, away bool
	knows := func(d *database) bool { return len(lineageStreams(e.of.cfg, d.Source)) > 0 }
	blind := !slices.ContainsFunc(e.of.sources.all, knows)
	others := e.of.sources.each(func(d *database) error {
		up, cancel := e.of.sources.while(ctx, d, true)
		defer cancel()
		if !knows(d) {
			// Patterns, or the progress on the bus, tell its tables later: they are compared then.
			failed := d.probe.Ready(up)
			mu.Lock()
			defer mu.Unlock()
			reached = reached || failed == nil
			answered, away = answered || blind && failed == nil, away || blind && failed != nil
			return nil
		}
		check := e.of.newLineage(d, e.scan, nil, true)
		found, has := check.All(up), false
		one, compared := check.Evidence()
		if one {
			end()
		}
		gone := errors.Is(found, errAway) || errors.Is(found, errOneServer) || up.Err() != nil || found == nil && !compared && d.probe.Ready(up) != nil
		if gone {
			has, found = check.HasRows(ctx)
		}
		mu.Lock()
		defer mu.Unlock()
		survived, reached, unseen = survived || one, reached || !gone, unseen || gone
		switch {
		case has:
			away = true
		case errors.Is(found, lineage.ErrOtherDatabase):
			return found
		case panics.Is(found):
			// It shows nothing. The stream has logged it.
			answered = true
		case found != nil:
			err = found
		default:
			answered = answered || compared
		}
		return nil
	})
	another := errors.Join(others...)
	switch {
	case survived, answered && another == nil && ctx.Err() == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, nil
	case err != nil, away, !reached, unseen && another != nil:
		return false, err
	}
	return true, another
}

// compareLater compares a database with the bus that was away when the stream began: all its
// streams, since a row of any shows that it is the same.
func (a *admissions) compareLater(ctx context.Context, stream string, d *database) error {
	if a.sources.isAdmitted(stream, d) {
		return nil
	}
	release, err := backoff.Acquire(ctx, d.comparing)
	if err != nil {
		return err
	}
	defer release()
	if a.sources.isAdmitted(stream, d) || d.another != nil {
		return d.another
	}
	err = a.newLineage(d, nil, nil, false).All(ctx)
	if panics.Is(err) {
		a.logger.Error("the tables of the source could not be compared with the bus", append(panics.LogArgs(err), "source", d.Name)...)
		err = nil
	}
	if errors.Is(err, lineage.ErrOtherDatabase) {
		d.another = err
	}
	if err == nil {
		for i := range a.cfg.Streams {
			a.sources.admit(a.cfg.Streams[i].Name, d, true)
		}
	}
	return err
}

// compareAway has the databases that were away when their streams began be compared with the bus,
// whether tables of them are read or are stopped since before a reload: until then nothing is
// concluded about their entities, nor about which tables they have.
func (a *admissions) compareAway(ctx context.Context) error {
	if !a.sources.gated {
		return nil
	}
	a.sources.each(func(d *database) error {
		var all sync.WaitGroup
		for _, s := range a.streams {
			if !slices.Contains(a.sources.ofStream(s.Stream), d) {
				continue
			}
			all.Go(func() {
				if a.recovery.Wait(ctx, s.Name) != nil {
					return
				}
				pause := backoff.Backoff{Max: 10 * time.Second}
				// Shards that wait for it, and probes, say why it is not compared.
				_ = pause.Retry(ctx, func() error { return a.compareLater(ctx, s.Name, d) }, func(err error) bool {
					return !errors.Is(err, lineage.ErrOtherDatabase)
				})
			})
		}
		all.Wait()
		return nil
	})
	return nil
}

// refuseRenamed returns an error where a table of which nothing is known may be one that was
// published under a name that the stream does not have any more ([check.FormerName]).
func (a *admissions) refuseRenamed(ctx context.Context, stream, table string) error {
	key := store.Key{Stream: stream, Shard: table}
	if p, _, err := a.store.Progress(ctx, key); p.Started || err != nil {
		return unread(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	all, loaded := a.known[stream]
	if !loaded {
		image, err := a.store.Load(ctx)
		if err != nil {
			return unread(err)
		}
		// Of thousands of streams each would keep the tables of all.
		all = make(map[store.Key]store.Progress)
		for key, p := range image.Shards {
			if key.Stream == stream {
				all[key] = p
			}
		}
		a.known[stream] = all
	}
	former := check.FormerName(a.cfg, a.cfg.Stream(stream), table, all)
	if former == nil {
		return nil
	}
	return fmt.Errorf("%w: the table %s. %s: %s", shard.ErrOtherMeaning, former.What, former.Do, former.Statement)
}

// unread has what could not be read of the checkpoint be read again, unless that is damaged.
func unread(err error) error {
	if err == nil || errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w: %w", stream.ErrUnread, err, stream.ErrReadBack)
}
