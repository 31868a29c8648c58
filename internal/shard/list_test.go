package shard_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// list runs a process until a full list has ended.
func (b *bench) list(t *testing.T, rate int64) *stream.Republish {
	t.Helper()
	b.request(t, stream.ListName, &stream.Republish{Rate: rate})
	p := b.process(t)
	defer b.runProcess(t, p)()
	eventually(t, "the list has ended", func() bool { list := p.feed.Lists().Last(); return list != nil && !list.Running() })
	return p.feed.Lists().Last()
}

func TestFullListOfTopicsThatAreSlowToLookAt(t *testing.T) {
	instantly(t, "two", func(t *testing.T) {
		b := newViewBench(t, false)
		b.opts.Lists = []string{topic, deadTopic}
		b.reader = slowEnds{b.bus}
		b.table.Insert("a", "1", "0")
		b.runTo(t, 1)
		if list := b.list(t, 0); list.State != stream.RepublishDone || b.count(topic) != 4 || b.count(deadTopic) != 2 {
			t.Errorf("%+v, %d and %d messages", list, b.count(topic), b.count(deadTopic))
		}
	})
}

// slowEnds takes six seconds to tell the ends of a topic.
type slowEnds struct{ sink.Reader }

func (s slowEnds) TPs(ctx context.Context, destinations []string) ([]sink.TP, error) {
	if _, bounded := ctx.Deadline(); bounded {
		timer := time.NewTimer(6 * time.Second)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.Reader.TPs(ctx, destinations)
}

// TestFullListOfARefusedEntityThatSharesItsID: the rows of the entities a and b, which have one id,
// are gone, and the bus has refused the only event of a.
func TestFullListOfARefusedEntityThatSharesItsID(t *testing.T) {
	for _, rate := range []int64{1, 2, 0} {
		instantly(t, fmt.Sprintf("at the rate %d", rate), func(t *testing.T) {
			b := newChangesBench(t, 0)
			b.opts.Lists, b.source = []string{topic}, newPairedSource(b.table)
			s := b.play(t, "dead-letters; refuse large; row a large 0 now; row b 1 0 now; run; said Added b=1; dead 1; stop; accept; delete 1 2")
			list := b.list(t, rate)
			if own := must.Get(stream.LoadRepublish(t.Context(), b.store, key))(t); list.State != stream.RepublishDone || own.Refused != 1 || own.Rows != 1 {
				t.Errorf("%+v, of the table %+v", list, own)
			}
			s.play("count 4")
		})
	}
}

// TestFullListOfEntitiesThatShareAnIDFromASlowBus: the last messages of those that share an id are
// read together, however long that takes.
func TestFullListOfEntitiesThatShareAnIDFromASlowBus(t *testing.T) {
	instantly(t, "gone", func(t *testing.T) {
		b := newChangesBench(t, 0)
		b.opts.Lists, b.source = []string{topic}, newPairedSource(b.table)
		s := b.play(t, "row a 1 0 now; row b 1 0 now; run; said Added a=1, Added b=1; stop; accept; delete 1 2")
		b.reader = slowMessages{b.bus}
		list := b.list(t, 0)
		if own := must.Get(stream.LoadRepublish(t.Context(), b.store, key))(t); list.State != stream.RepublishDone || own.Rows != 2 {
			t.Errorf("%+v, of the table %+v", list, own)
		}
		s.play("count 6")
	})
}

// slowMessages takes six seconds to give a message.
type slowMessages struct{ sink.Reader }

func (s slowMessages) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (uint64, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return s.Reader.Read(ctx, span, each)
	}
	if err := backoff.Pause(ctx, 6*time.Second); err != nil {
		return span.From, err
	}
	span.To = span.From + 1
	return s.Reader.Read(ctx, span, each)
}
