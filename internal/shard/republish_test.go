package shard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// request has the store have a request to publish again. No process runs.
func (b *bench) request(t testing.TB, r *stream.Republish) {
	t.Helper()
	r.Asked, r.State = time.Now(), stream.Republishing
	r.Behind(nil)
	batch := &store.Batch{Shards: []store.ShardChange{r.Change(key, time.Now())}}
	if err := b.store.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
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
	_, _, stop := newPublishedBench(t, b)
	stop()
	b.request(t, &stream.Republish{From: 120, To: 137})
	failOver := sync.OnceFunc(func() { b.fails(127, "second"); write(b.table, "new", 1, 40) })
	b.hook = func(q source.Query) error {
		if q.Through == 137 {
			failOver()
		}
		return nil
	}
	s, _ := b.run(t)
	if why := stopped(t, s); !strings.Contains(why, shard.ErrIDsReused.Error()) {
		t.Errorf("it stopped for %s", why)
	}
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
	b.request(t, &stream.Republish{Keys: keys})
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
	b.request(t, &stream.Republish{Keys: keys, Cursor: 31})
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
			b.request(t, &stream.Republish{From: 1, To: 10, Where: "sleep(1) = 0"})
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
			if err := p.feed.ChangeRepublish(t.Context(), []string{key.Shard}, cancel); err != nil {
				t.Fatal(err)
			}
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
	b.request(t, &stream.Republish{From: 1, To: 6})
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
