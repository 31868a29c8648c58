package shard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	sourcememory "example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
)

// TestOriginOfMovedRows has an entity get another row below the one that was published, so that it
// is nominated.
func TestOriginOfMovedRows(t *testing.T) {
	const moved = "at 20 a 1 0; run; said Added a=1; delete 20; at 5 a 2 0;"
	viewScripts(t, false, map[string]string{"one that fills a gap is late": moved + "said Modified a=2; event 1 row=5 origin=late; stop"})
	instantly(t, "one that the tail has yet to reach is not late", func(t *testing.T) {
		b := newViewBench(t, false)
		var byKey atomic.Int32
		b.hook = func(q source.Query) error {
			// Movers reads the key first. Before the owner does, the entity gets a new row.
			if len(q.Keys) > 0 && byKey.Add(1) == 2 {
				b.table.Delete(5)
				b.table.InsertAt(21, "c", "1", "0")
				b.table.InsertAt(22, "a", "3", "0")
			}
			return nil
		}
		b.play(t, moved+`said Modified a=3, Added c=1; event 1 row=22 origin=reconcile; event 2 row=21 origin=tail;
			saved 22; polls 3; stop; said`)
	})
}

// TestNominationsThatTheirCallerLeaves: what waits for an entity that nobody can publish ends with
// the one who nominated it.
func TestNominationsThatTheirCallerLeaves(t *testing.T) {
	b := newViewBench(t, false)
	b.table.Insert("a", "1", "0")
	b.table.Insert("b", "1", "0")
	b.hook = func(q source.Query) error {
		if q.Keys != nil && q.Limit == 10_000 {
			// Movers cannot read.
			return source.ErrUnfit
		}
		return nil
	}
	s, _ := b.run(t)
	b.expectSaid(t, "Added a=1", "Added b=1")
	b.table.Delete(1)
	nominate := func() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := s.Nominate(ctx, reconcile.Nomination{Entities: [][]byte{[]byte("a")}}); err == nil {
			t.Error("the entity was published")
		}
	}
	nominate()
	before := runtime.NumGoroutine()
	const times = 40
	for range times {
		nominate()
	}
	eventually(t, "nobody waits any more", func() bool { return runtime.NumGoroutine() < before+times/2 })
}

// TestNominationsThatWaitForAnotherDatabase: who nominates an entity waits for a database that is
// away as long as it may be back soon. The entity is published once it is. The lag counts what
// waits for whatever reason.
func TestNominationsThatWaitForAnotherDatabase(t *testing.T) {
	waits := func(t *testing.T, fault, want error, others ...string) {
		b := newViewBench(t, false)
		b.opts.Shared, b.queue = true, 4
		b.table.Insert("a", "1", "0")
		var away atomic.Bool
		b.hook = func(q source.Query) error {
			if away.Load() && q.Keys != nil && q.Limit == 10_000 {
				return fault
			}
			return nil
		}
		p := b.process(t)
		s := p.shard
		b.runProcess(t, p)
		b.expectSaid(t, "Added a=1")
		away.Store(true)
		b.table.Delete(1)
		for _, other := range others {
			p.movers.Nominate("items_1", []byte(other))
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := s.Nominate(ctx, reconcile.Nomination{Entities: [][]byte{[]byte("a")}})
		if took := time.Since(began); !errors.Is(err, want) || took < reconcile.AwayLimit || took > time.Minute {
			t.Errorf("after %s: %v", took, err)
		}
		if lag := s.Status().LagSeconds; len(others) > 0 {
			return
		} else if lag == nil || *lag < reconcile.AwayLimit.Seconds()-2 {
			t.Errorf("the lag is %v", lag)
		}
		away.Store(false)
		b.expectSaid(t, "Added a=1", "Deleted a")
	}
	instantly(t, "that is away", func(t *testing.T) { waits(t, fmt.Errorf("b %w", stream.ErrAway), stream.ErrAway) })
	instantly(t, "that is away, where others fill the queue", func(t *testing.T) {
		waits(t, fmt.Errorf("b %w", stream.ErrAway), stream.ErrAway, "x", "y")
	})
	instantly(t, "that is slow", func(t *testing.T) { waits(t, errors.New("b is slow"), context.DeadlineExceeded) })
}

// TestNominationsThatWaitForATableThatStopped: who nominates an entity that a table has which can
// be read, and whose shard has stopped, waits no longer than for a database that is away.
func TestNominationsThatWaitForATableThatStopped(t *testing.T) {
	instantly(t, "of two", func(t *testing.T) {
		b := newViewBench(t, false)
		b.second = newViewBench(t, false).table
		row := b.second.Insert("a", "1", "0")
		p := b.process(t)
		b.runProcess(t, p)
		b.expectSaid(t, "Added a=1")
		p.shards[1].Stop(errors.New("a row cannot be published"))
		stopped(t, p.shards[1])
		b.second.Update(row, "a", "2", "0")
		other := b.table.Insert("a", "9", "0")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := p.shard.Nominate(ctx, reconcile.Nomination{Rows: []source.Range{{First: other, Last: other}}})
		if !errors.Is(err, stream.ErrAway) {
			t.Errorf("%v", err)
		}
	})
}

// TestNominationsOfMoreThanTheQueueHolds: who waits for what is nominated drops nothing of it, so
// that no reconcile has another one follow.
func TestNominationsOfMoreThanTheQueueHolds(t *testing.T) {
	b := newViewBench(t, false)
	b.queue = 4
	var all [][]byte
	for i := range 20 {
		key := fmt.Sprintf("a%d", i)
		all = append(all, []byte(key))
		b.table.Insert(key, "1", "0")
	}
	s, _ := b.run(t)
	eventually(t, "all are published", func() bool { return b.count(topic) == 20 })
	for id := range uint64(20) {
		b.table.Delete(id + 1)
	}
	got := nominate(t, s, reconcile.Nomination{Entities: all})
	if _, due := s.ReconcileDue(); due || got != (reconcile.Verdict{Deleted: 20}) {
		t.Errorf("%+v, a reconcile is due: %t", got, due)
	}
}

// Two large rows of one key: the page with the key is cut behind the first one.
func TestTwoLargeRowsOfOneKey(t *testing.T) {
	b := newViewBench(t, false)
	b.opts.Limits = shard.NewLimits(48<<10, 1, 4).Stream() // a page takes 1 KiB
	big := func(c string) string { return strings.Repeat(c, 2000) }
	r1 := b.table.Insert("a", big("x"), "0")
	r2 := b.table.Insert("a", big("y"), "0")
	s, _ := b.run(t)
	eventually(t, "both", func() bool { return b.count(topic) == 2 })
	// Row 1 nominates the entity, and meanwhile row 2 has changed.
	b.table.Update(r2, "a", big("z"), "0")
	nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: r1, Last: r1}}})
	wait(t, 100*time.Millisecond)
	if all := b.said(t); !strings.HasPrefix(all[len(all)-1].text, "Modified a=zzz") {
		t.Errorf("the bus ends with %.20q", all[len(all)-1].text)
	}
}

const stamp = "2006-01-02 15:04:05.000000"

// newViewBench is a bench with a capability shard: name identifies, value is the state, deleted is
// the tombstone column, modified says when.
func newViewBench(t *testing.T, modified bool) *bench {
	b := newBench(t)
	spec := source.Spec{Table: "items", ID: "id", Key: []string{"name"}, UniqueKey: true, Deleted: "deleted"}
	if modified {
		spec.Modified = "modified"
	}
	b.table = sourcememory.NewTable(spec,
		source.Column{Name: "id", Kind: source.Int},
		source.Column{Name: "name", Kind: source.Text},
		source.Column{Name: "value", Kind: source.Text},
		source.Column{Name: "deleted", Kind: source.Int},
		source.Column{Name: "modified", Kind: source.DateTime, Precision: 6})
	b.opts.Kind = event.Capability
	return b
}

func now() string { return time.Now().UTC().Format(stamp) }

// say is what an event says, in short: "Added a=1" or "Deleted a".
type said struct {
	text, id, predecessor, reason string
	row                           uint64
	origin                        sink.Origin
}

// said returns what the events on the bus say, in order.
func (b *bench) said(t testing.TB) []said {
	t.Helper()
	return b.saidOn(t, topic)
}

func (b *bench) saidOn(t testing.TB, topic string) []said {
	t.Helper()
	var all []said
	for _, m := range b.bus.Messages(topic) {
		var e struct {
			Meta  struct{ ID, Type string }
			Data  struct{ Name, Value, Reason string }
			Links []struct{ Type, Target string }
		}
		if err := json.Unmarshal(m.Value, &e); err != nil {
			t.Fatalf("%v: %s", err, m.Value)
		}
		one := said{id: e.Meta.ID, reason: e.Data.Reason, row: m.RowID, origin: m.Origin}
		one.text = strings.TrimSuffix(strings.TrimPrefix(e.Meta.Type, "Items"), "Event") + " " + e.Data.Name
		if e.Data.Value != "" {
			one.text += "=" + e.Data.Value
		}
		for _, link := range e.Links {
			one.predecessor = link.Target
		}
		all = append(all, one)
	}
	return all
}

func texts(all []said) []string {
	var list []string
	for _, one := range all {
		list = append(list, one.text)
	}
	return list
}

// expectSaid waits until the bus says want, and fails where it says something else.
func (b *bench) expectSaid(t testing.TB, want ...string) []said {
	t.Helper()
	eventually(t, fmt.Sprintf("%d events, there are %v", len(want), texts(b.said(t))), func() bool { return b.count(topic) >= len(want) })
	all := b.said(t)
	if got := texts(all); !slices.Equal(got, want) {
		t.Fatalf("the bus says %v, want %v", got, want)
	}
	return all
}

func entity(name string) []byte { return []byte(name) }

func nominate(t testing.TB, s *shard.Shard, n reconcile.Nomination) reconcile.Verdict {
	t.Helper()
	eventually(t, "the shard reaches", func() bool { _, ok := s.Reach(); return ok })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v := must.Get(s.Nominate(ctx, n))(t)
	return v
}

func TestNominations(t *testing.T) {
	viewScripts(t, false, map[string]string{"what is gone is deleted, what is there is not": `
		row a 1 0; row b 1 0; row c 1 0; run; said Added a=1, Added b=1, Added c=1;
		update 3 c 1 1; nominate 3-3 = deleted=1; delete 1 3; nominate a b c never = deleted=1;
		said Deleted c, Deleted a; event 4 reason=ABSENT_IN_SNAPSHOT previous=0 row=1 origin=reconcile; nominate a b c never =;
		at 1 a 1 0; nominate 1-1 = added=1; said Added a=1; event 5 unlike=0 previous=4`})
	rowScripts(t, map[string]string{"of a release shard only ids that were not published are, once, also after a restart": `
		gives-up; insert 3; run; saved 3; at 10 name old; unpolled 6; at 7 name old; nominate 2-10 = missed=1;
		times 2 nominate 2-10 = | stop | run | unpolled 5; stop; ids 1-3 10 7`})
}

// request has the store have a request to publish a table again, or with ListName for a full list.
// No process runs.
func (b *bench) request(t testing.TB, table string, r *stream.Republish) {
	t.Helper()
	r.Asked, r.State = time.Now(), stream.Republishing
	r.Behind(nil)
	batch := &store.Batch{Shards: []store.ShardChange{r.Change(store.Key{Stream: key.Stream, Shard: table}, time.Now())}}
	must.OK(t, b.store.Apply(t.Context(), batch))
}

// asked waits until a request of a shard is in a state.
func asked(t testing.TB, s *shard.Shard, state stream.RepublishState) *shard.RepublishStatus {
	t.Helper()
	eventually(t, "what was asked is "+string(state), func() bool { r := s.Republish(); return r != nil && r.State == state })
	return s.Republish()
}

// TestRepublishAfterAFailover: another server answers for the first page that is published again,
// and has other rows under its ids.
func TestRepublishAfterAFailover(t *testing.T) {
	b := newBench(t)
	newPublished(t, b).stop()
	b.request(t, key.Shard, &stream.Republish{From: 120, To: 137})
	failOver := sync.OnceFunc(func() { b.fails(127, "second"); write(b.table, "new", 1, 40) })
	b.hook = func(q source.Query) error {
		if q.Through == 137 {
			failOver()
		}
		return nil
	}
	b.play(t, "run; stopped; error "+shard.ErrIDsReused.Error())
	for _, m := range b.bus.Messages(topic) {
		if m.Origin == sink.FromRepublish || strings.Contains(string(m.Value), "new-") {
			t.Errorf("row %d is published again as %s", m.RowID, m.Value)
		}
	}
}

// TestRepublishKeysWithinTheirBytes: keys whose rows do not fit into a page are read in parts.
func TestRepublishKeysWithinTheirBytes(t *testing.T) {
	b := newViewBench(t, false)
	b.opts.Limits = shard.NewLimits(1<<20, 1, 2).Stream()
	var keys []string
	for i := range 30 {
		keys = append(keys, fmt.Sprint("k", i))
		b.table.Insert(keys[i], strings.Repeat("x", 4000), "0", now())
	}
	b.runTo(t, 30)
	b.request(t, key.Shard, &stream.Republish{Keys: keys})
	b.hook = func(q source.Query) error {
		if len(q.Keys) > 1 && q.MaxBytes == 0 {
			t.Errorf("%d keys are read without a bound", len(q.Keys))
		}
		return nil
	}
	s, stop := b.run(t)
	if r := asked(t, s, stream.RepublishDone); r.Rows != 30 || r.Cursor != 30 || b.count(topic) != 60 {
		t.Errorf("%+v, %d messages", r, b.count(topic))
	}
	stop()
	// What a version has saved that took ids for numbers of keys ends.
	b.request(t, key.Shard, &stream.Republish{Keys: keys, Cursor: 31})
	s, _ = b.run(t)
	asked(t, s, stream.RepublishDone)
}

// TestRepublishWithAConditionThatIsNotAnswered: the tail goes on, and the request ends once the
// source has failed to answer several times, or as soon as it is cancelled.
func TestRepublishWithAConditionThatIsNotAnswered(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		t.Run(fmt.Sprintf("it hangs: %t", hangs), func(t *testing.T) {
			b := newBench(t)
			write(b.table, "old", 1, 10)
			b.runTo(t, 10)
			b.request(t, key.Shard, &stream.Republish{From: 1, To: 10, Where: "sleep(1) = 0"})
			hung := make(chan struct{})
			b.opts.Matcher = func(string) source.Shard { return &unanswered{Shard: b.table, hangs: hangs, hung: hung} }
			p := b.process(t)
			b.runProcess(t, p)
			if !hangs {
				write(b.table, "new", 1, 10)
				b.saved(t, 20)
				if r := asked(t, p.shard, stream.RepublishFailed); !strings.Contains(string(r.Error), "max_statement_time exceeded") {
					t.Errorf("%+v", r)
				}
				return
			}
			<-hung
			cancel := func(_ string, r *stream.Republish) (*stream.Republish, error) { r.Cancel(time.Now()); return r, nil }
			must.OK(t, p.feed.ChangeRepublish(t.Context(), []string{key.Shard}, cancel))
			p.shard.Republishes()
			write(b.table, "new", 1, 10)
			b.saved(t, 20)
			asked(t, p.shard, stream.RepublishCancelled)
		})
	}
}

// unanswered is a table whose reads fail, or hang until their context ends.
type unanswered struct {
	source.Shard
	hangs bool
	hung  chan struct{}
}

func (u *unanswered) Read(ctx context.Context, _ source.Query, _ *source.Page) error {
	if !u.hangs {
		return errors.New("Error 1969 (70100): Query execution was interrupted (max_statement_time exceeded)")
	}
	close(u.hung)
	<-ctx.Done()
	return ctx.Err()
}

// TestRepublishFromASlowBus: a bus that gives few messages in time gives those of fewer entities at
// once; a message that it never gives is replaced by what the row says.
func TestRepublishFromASlowBus(t *testing.T) {
	b := newViewBench(t, false)
	b.opts.LastWithin = 20 * time.Millisecond
	for i := range 6 {
		b.table.Insert(fmt.Sprint("k", i), "old", "0", now())
	}
	b.runTo(t, 6)
	b.request(t, key.Shard, &stream.Republish{From: 1, To: 6})
	b.reader = &slowReader{Reader: b.bus, most: 4, never: 1}
	s, _ := b.run(t)
	r := asked(t, s, stream.RepublishDone)
	if r.Rows != 5 || r.Changed != 1 || b.count(topic) != 12 {
		t.Errorf("%+v, %d messages", r, b.count(topic))
	}
}

// slowReader gives no answer in time where more than so many messages are asked for at once, or
// one at an offset.
type slowReader struct {
	sink.Reader
	most, never uint64
}

func (s *slowReader) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (uint64, error) {
	_, bounded := ctx.Deadline()
	if bounded && (span.To-span.From > s.most || span.From <= s.never && s.never < span.To) {
		<-ctx.Done()
		return span.From, ctx.Err()
	}
	return s.Reader.Read(ctx, span, each)
}
