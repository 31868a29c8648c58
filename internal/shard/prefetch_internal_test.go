package shard

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"bridge/event"
	"bridge/internal/outage"
	"bridge/source"
	"bridge/source/memory"
)

// slowTable is a table of which a page takes until free is closed.
type slowTable struct {
	*memory.Table
	t    *testing.T
	free chan struct{}
	busy bool
}

func (s *slowTable) begin() {
	if s.busy {
		s.t.Error("two goroutines use the source")
	}
}

func (s *slowTable) Read(ctx context.Context, q source.Query, p *source.Page) error {
	s.begin()
	s.busy = true
	defer func() { s.busy = false }()
	<-s.free
	return s.Table.Read(ctx, q, p)
}

func (s *slowTable) ReadIDs(ctx context.Context, ranges []source.Range, uncommitted bool, limit int, ids *source.IDs) error {
	s.begin()
	return s.Table.ReadIDs(ctx, ranges, uncommitted, limit, ids)
}

func (s *slowTable) ReadChanges(ctx context.Context, q source.ChangeQuery, c *source.Changes) error {
	s.begin()
	return s.Table.ReadChanges(ctx, q, c)
}

func (s *slowTable) NextID(ctx context.Context) (uint64, error) {
	s.begin()
	return s.Table.NextID(ctx)
}

func (s *slowTable) Traits(ctx context.Context) (source.Traits, error) {
	s.begin()
	return s.Table.Traits(ctx)
}

func (s *slowTable) ReadHead(context.Context, time.Duration, *source.Page) (bool, error) {
	s.begin()
	return false, nil
}

// prefetching returns a shard that reads the page behind row 2 ahead, of a table of rows with these
// names, until free is called.
func prefetching(t *testing.T, limits *StreamLimits, names ...string) (s *Shard, free func()) {
	table := &slowTable{t: t, free: make(chan struct{}), Table: memory.NewTable(
		source.Spec{Table: "items", ID: "id", Modified: "modified"},
		source.Column{Name: "id", Kind: source.Int},
		source.Column{Name: "name", Kind: source.Text},
		source.Column{Name: "modified", Kind: source.DateTime})}
	for _, name := range names {
		table.Insert(name)
	}
	encoder, err := event.NewEncoder(event.Options{Stream: "items", Shard: "items", Kind: event.Release, Source: "db", Table: "items"})
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	s = New(Options{
		Stream: "items", Name: "items", Source: table, IDs: table, Limits: limits, Encoder: encoder,
		Faults: outage.New(logger), Metrics: NewMetrics(prometheus.NewRegistry(), true), Logger: logger, BatchRows: 2, Zone: time.UTC,
	})
	s.reader.prefetch(t.Context(), s.reader.pageAfter(2), nil)
	if s.reader.ahead == nil {
		t.Fatal("nothing is read")
	}
	synctest.Wait()
	return s, func() { close(table.free) }
}

func TestTheSourceServesOneAtATime(t *testing.T) {
	for what, use := range map[string]func(ctx context.Context, s *Shard) error{
		"a read": func(ctx context.Context, s *Shard) error {
			_, err := s.reader.page(ctx, source.Query{Limit: 1})
			return err
		},
		"a read of ids": func(ctx context.Context, s *Shard) error {
			return s.reader.ids(ctx, []source.Range{{First: 1, Last: 2}}, true, new(idList))
		},
		"a look for changes": func(ctx context.Context, s *Shard) error {
			return s.reader.changes(ctx, source.ChangeQuery{Limit: 1}, new(source.Changes))
		},
		"a question for an id": func(ctx context.Context, s *Shard) error {
			return (&idWatch{opts: &s.opts, reader: s.reader}).refuse(ctx, 1)
		},
		"a question for traits": func(ctx context.Context, s *Shard) error { return s.server.refresh(ctx) },
		"a read of the head": func(ctx context.Context, s *Shard) error {
			_, err := s.newOwner(nil, nil).head(ctx)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, free := prefetching(t, NewLimits(1<<20, 1, 2).Stream(), "a", "b", "c")
				ended := make(chan error)
				go func() { ended <- use(t.Context(), s) }()
				synctest.Wait()
				free()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if s.reader.ahead != nil {
					t.Error("the page is kept, though it is not what was read last")
				}
			})
		})
	}
}

func TestWhoWaitsForMemoryHoldsNoneForAPage(t *testing.T) {
	bound := func(t *testing.T) (context.Context, func()) { return context.WithTimeout(t.Context(), time.Minute) }
	t.Run("the share of the page is enough to go on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			limits := NewLimits(1<<20, 1, 2).Stream()
			defer limits.Leave(1)()
			s, free := prefetching(t, limits, "a", "b", "c")
			free()
			ctx, cancel := bound(t)
			defer cancel()
			held, err := s.reader.reserve(ctx)
			if err != nil {
				t.Fatal(err)
			}
			limits.release(&held)
		})
	})
	t.Run("a large row waits for another alone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			limits := NewLimits(1<<20, 1, 2).Stream()
			s, free := prefetching(t, limits, "a", "b", "c")
			free()
			var held hold
			if err := limits.reserveBig(t.Context(), &held); err != nil {
				t.Fatal(err)
			}
			var second hold
			ended := make(chan error)
			go func() { ended <- s.reader.reserveBig(t.Context(), &second) }()
			synctest.Wait()
			if got := limits.InFlight(); got != 0 {
				t.Errorf("%d bytes are held meanwhile", got)
			}
			limits.release(&held)
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	})
}

func TestALargePageIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, free := prefetching(t, NewLimits(64<<10, 1, 2).Stream(), "a", "b", strings.Repeat("x", 20_000), "d")
		p := s.reader.ahead
		free()
		<-p.done
		if p.page.Bytes > 0 || len(p.page.Rows) > 0 {
			t.Errorf("%d bytes wait", p.page.Bytes)
		}
		if used, _, err := s.reader.pageAhead(p.query); used != nil || err != nil || s.opts.Limits.InFlight() != 0 {
			t.Errorf("it was used: %v, %v, %d bytes in flight", used != nil, err, s.opts.Limits.InFlight())
		}
	})
}

func TestAPageThatWasReadAheadIsAsOldAsItsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, free := prefetching(t, NewLimits(1<<20, 1, 2).Stream(), "a", "b", "c")
		asked := time.Now()
		<-time.After(500 * time.Millisecond)
		free()
		synctest.Wait()
		got := time.Now()
		<-time.After(2 * time.Second)
		p, held, err := s.reader.pageAhead(s.reader.pageAfter(2))
		if err != nil {
			t.Fatal(err)
		}
		if p == nil {
			t.Fatal("it is not used")
		}
		defer s.opts.Limits.release(&held)
		if !p.asked.Equal(asked) || !p.got.Equal(got) {
			t.Errorf("asked %s and got %s after it was", p.asked.Sub(asked), p.got.Sub(got))
		}
		if poll := s.Status().LastPoll; !poll.Equal(got) {
			t.Errorf("the last poll was %s after the source answered", poll.Sub(got))
		}
		if born := p.bornAt(p.Rows[0]); !born.Equal(got) {
			t.Errorf("a row that was there at the read is %s younger", born.Sub(got))
		}
	})
}

func TestAPageIsUsedWithinAFewSeconds(t *testing.T) {
	for waited, want := range map[time.Duration]bool{prefetchAge: true, prefetchAge + time.Millisecond: false} {
		t.Run(waited.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, free := prefetching(t, NewLimits(1<<20, 1, 2).Stream(), "a", "b", "c")
				// How long the read takes is of no account.
				<-time.After(time.Minute)
				free()
				synctest.Wait()
				<-time.After(waited)
				p, held, err := s.reader.pageAhead(s.reader.ahead.query)
				if err != nil {
					t.Fatal(err)
				}
				if ok := p != nil; ok != want {
					t.Errorf("it is used: %v", ok)
				}
				s.opts.Limits.release(&held)
			})
		})
	}
}

func TestAPageIsUsedForItsOwnQueryAlone(t *testing.T) {
	for what, change := range map[string]func(q *source.Query){
		"another row":            func(q *source.Query) { q.After = 1 },
		"a bound":                func(q *source.Query) { q.Through = 9 },
		"fewer rows":             func(q *source.Query) { q.Limit = 1 },
		"another bound of bytes": func(q *source.Query) { q.MaxBytes++ },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, free := prefetching(t, NewLimits(1<<20, 1, 2).Stream(), "a", "b", "c")
				free()
				q := s.reader.pageAfter(2)
				change(&q)
				if p, _, err := s.reader.pageAhead(q); p != nil || err != nil {
					t.Error("it is used", err)
				}
				if got := s.opts.Limits.InFlight(); got != 0 {
					t.Errorf("%d bytes are still reserved", got)
				}
			})
		})
	}
}
