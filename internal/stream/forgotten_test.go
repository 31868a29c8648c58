package stream_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// stay is after what time the bus forgets what says that an entity is gone: long is more than half
// of it, short less.
const (
	stay  = 24 * time.Hour
	long  = 13 * time.Hour
	short = 11 * time.Hour
)

// forgetting has streams on the topics d and e, which forget what says that an entity is gone.
func forgetting(o *stream.Options) {
	for i := range o.Streams {
		o.Streams[i].Destinations = []string{"d", "e"}
		o.Streams[i].Forgets = forgets(stay, true, nil)
	}
}

// forgets answers the same of every topic.
func forgets(after time.Duration, does bool, err error) func(context.Context, string) (time.Duration, bool, error) {
	return func(context.Context, string) (time.Duration, bool, error) { return after, does, err }
}

// forgotten is a bus with a store that has read a and b, of the topic d, and nothing of e.
type forgotten struct {
	*bus
	batches []store.Batch
}

func newForgotten(t *testing.T) *forgotten {
	t.Helper()
	f := &forgotten{bus: newBus("d", "e")}
	f.says(ours("a", 5, 1))
	f.says(ours("b", 5, 2))
	f.start(t)
	return f
}

// start starts a process on the store.
func (f *forgotten) start(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, f.bus, f.batches, forgetting, "s").start()
	f.batches, _ = r.disk.applied()
	return r
}

// startOf makes a process whose bus answers this about what the topics forget.
func (f *forgotten) startOf(t *testing.T, after time.Duration, does bool, err error) *rig {
	return newRig(t, f.bus, f.batches, func(o *stream.Options) {
		forgetting(o)
		o.Streams[0].Forgets = forgets(after, does, err)
	}, "s")
}

// goes says in a topic that a is gone, and compaction removes that with all else of a. c follows.
func (f *forgotten) goes(topic string) {
	gone := ours("a", 5, 3)
	gone.digest = 0
	f.remove(topic, f.append(topic, gone.stored()))
	f.remove("d", 0)
	f.append(topic, ours("c", 5, 4).stored())
}

// pass lets time pass, in a bubble.
func (f *forgotten) pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := backoff.Pause(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// setBack has the store be of a clock that was set back since.
func (f *forgotten) setBack(by time.Duration) {
	for i := range f.batches {
		for j := range f.batches[i].Registrations {
			f.batches[i].Registrations[j].Seen += uint64(by.Milliseconds())
		}
	}
}

// wantDisputed fails the test unless these entities are disputed, and a reconcile decides them.
func (r *rig) wantDisputed(want string) {
	r.t.Helper()
	if got := r.disputed(); got != want || r.feeds["s"].due != (want != "") {
		r.t.Errorf("disputed are %q, want %q, a reconcile is due: %v", got, want, r.feeds["s"].due)
	}
}

// wantNumber fails the test unless d and e have these registrations.
func (r *rig) wantNumber(d, e uint32) {
	r.t.Helper()
	if got := [2]uint32{r.registration("s", "d").Number, r.registration("s", "e").Number}; got != [2]uint32{d, e} {
		r.t.Errorf("the registrations are %v, want %d and %d", got, d, e)
	}
}

// TestWhatCompactionRemovedUnread (rule 30): a store has read a, and compaction has removed all
// that the bus had of it, also that it is gone.
func TestWhatCompactionRemovedUnread(t *testing.T) {
	bubble(t, "it is read again from the beginning, once", func(t *testing.T) {
		f := newForgotten(t)
		f.pass(t, long)
		f.goes("d")
		r := f.start(t)
		r.wantDisputed("a")
		r.wantSeen("s", "b c")
		r.wantNumber(3, 4)
		f.pass(t, short)
		f.says(ours("b", 5, 5))
		f.says(ours("c", 5, 6))
		f.start(t).wantNumber(3, 4)
	})
	bubble(t, "also where that lay in another topic than what the entry is of", func(t *testing.T) {
		f := newForgotten(t)
		f.pass(t, long)
		f.goes("e")
		f.start(t).wantDisputed("a")
	})
	bubble(t, "and where one topic was read lately", func(t *testing.T) {
		f := newForgotten(t)
		f.pass(t, short)
		f.says(ours("b", 5, 5))
		f.start(t).wantDisputed("")
		f.pass(t, short)
		f.goes("e")
		f.start(t).wantDisputed("a")
	})
	bubble(t, "and where the bus does not show it at first", func(t *testing.T) {
		f := newForgotten(t)
		f.pass(t, long)
		f.goes("d")
		hidden := f.logs["d"]
		delete(f.logs, "d")
		r := f.start(t)
		f.logs["d"] = hidden
		r.run()
		r.pass(2 * time.Minute)
		r.wantDisputed("a")
	})
	bubble(t, "a start that is killed leaves the next one less to read", func(t *testing.T) {
		f := newForgotten(t)
		f.pass(t, long)
		f.goes("d")
		due := false
		for starts := 0; ; starts++ {
			r := newRig(t, f.bus, f.batches, forgetting, "s")
			r.disk.left = 2
			err := r.c.Start(t.Context())
			due = due || r.feeds["s"].due
			if f.batches, _ = r.disk.applied(); err == nil {
				if got := r.disputed(); got != "a" || !due {
					t.Errorf("disputed are %q, a reconcile was due: %v", got, due)
				}
				r.wantNumber(3, 4)
				return
			}
			if !errors.Is(err, errKilled) || starts > 10 {
				t.Fatalf("start %d: %v", starts, err)
			}
			f.pass(t, time.Hour)
		}
	})
	bubble(t, "kills in a reading give no more time than one", func(t *testing.T) {
		f := newForgotten(t)
		// They are of a younger process, so none is late: each start reads a part, and is killed.
		for i := range uint64(5000) {
			f.says(ours(fmt.Sprint(i), 1<<50, 10+i))
		}
		for range 2 {
			r := newRig(t, f.bus, f.batches, forgetting, "s")
			r.disk.left = 1
			if err := r.c.Start(t.Context()); !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			f.batches, _ = r.disk.applied()
			if next := r.registration("s", "d").Next; next == 2 || next == 5002 {
				t.Fatalf("it has read up to %d", next)
			}
			f.pass(t, 7*time.Hour)
		}
		f.goes("d")
		f.start(t).wantDisputed("a")
	})
	bubble(t, "a process that could not read for long reads it again", func(t *testing.T) {
		f := newForgotten(t)
		r := f.start(t)
		f.pass(t, long)
		f.goes("d")
		if err := r.c.Resolve(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		r.wantDisputed("a")
	})
	bubble(t, "a clock that was set back tells nothing", func(t *testing.T) {
		f := newForgotten(t)
		f.pass(t, short)
		f.goes("d")
		f.setBack(stay)
		f.start(t).wantDisputed("a")
	})
}

// TestWhatIsNotReadAgain (rule 30).
func TestWhatIsNotReadAgain(t *testing.T) {
	for name, happens := range map[string]func(t *testing.T, f *forgotten){
		"a topic with one new offset, less than an event with its tombstone takes": func(t *testing.T, f *forgotten) {
			f.pass(t, 3*stay)
			f.other("the end of a transaction")
		},
		"a topic that was read lately": func(t *testing.T, f *forgotten) {
			f.pass(t, short)
			f.says(ours("c", 5, 4))
			f.says(ours("b", 5, 5))
		},
		"a topic behind a clock that was set back a little": func(_ *testing.T, f *forgotten) {
			f.says(ours("c", 5, 4))
			f.says(ours("b", 5, 5))
			f.setBack(30 * time.Second)
		},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newForgotten(t)
			happens(t, f)
			f.start(t).wantNumber(1, 2)
		})
	}
	bubble(t, "by a process that runs, a topic that was quiet", func(t *testing.T) {
		f := newForgotten(t)
		r := f.start(t)
		r.run()
		r.pass(long)
		f.other("new")
		f.other("new")
		r.pass(5 * time.Minute)
		r.wantNumber(1, 2)
		r.wantNext("s", "d", 4)
	})
	bubble(t, "by a process that runs, a topic that forgets at once", func(t *testing.T) {
		f := newForgotten(t)
		r := f.startOf(t, 0, true, nil).start()
		r.run()
		for range 5 {
			f.other("new")
			f.other("new")
			r.pass(time.Minute)
		}
		r.wantNumber(1, 2)
	})
	bubble(t, "a topic that takes long to read", func(t *testing.T) {
		f := newForgotten(t)
		f.pass(t, long)
		f.goes("d")
		// It is late, and so the last one that is read.
		f.says(ours("b", 4, 9))
		var slow atomic.Bool
		slow.Store(true)
		f.fails(func(span sink.Span) error {
			if slow.Load() && span.To > span.From+1 {
				f.pass(t, long)
				f.other("new")
				f.other("new")
			}
			return nil
		})
		r := newRig(t, f.bus, f.batches, forgetting, "s")
		ended := r.starting()
		// A round is never short, and behind it something is left.
		f.pass(t, 10*long)
		slow.Store(false)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		r.wantNumber(3, 4)
	})
	for name, err := range map[string]error{"a topic that forgets nothing": nil, "a topic of which the bus does not tell what it forgets": sink.ErrClosed} {
		bubble(t, name, func(t *testing.T) {
			f := newForgotten(t)
			f.pass(t, 10*stay)
			f.goes("d")
			r := f.startOf(t, 0, false, err).start()
			if got := r.stopOf("s"); !errors.Is(got, err) {
				t.Errorf("got %v", got)
			}
			r.wantDisputed("")
		})
	}
}
