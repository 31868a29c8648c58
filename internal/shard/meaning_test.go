package shard_test

import (
	"strings"
	"testing"
	"time"

	"bridge/checkpoint/store"
	"bridge/event"
	"bridge/internal/progress"
	"bridge/internal/shard"
)

// TestAnotherMeaningStopsTheShard: the store was written with one configuration, and is read with
// another.
func TestAnotherMeaningStopsTheShard(t *testing.T) {
	release := func() *store.Meaning {
		return &store.Meaning{Kind: "release", Table: "shop.items", ID: "id", Key: []string{"id"}}
	}
	capability := func() *store.Meaning {
		m := release()
		m.Kind = "capability"
		return m
	}
	const (
		reset = "bridge checkpoint reset items"
		goOn  = "bridge checkpoint set items items 10"
	)
	for name, c := range map[string]struct {
		was, is *store.Meaning
		change  func(*store.Meaning)
		// wants are in the error, lacks is not; none where nothing stops.
		wants []string
		lacks string
	}{
		"the same":      {was: release(), is: release()},
		"none is saved": {was: nil, is: release()},
		"a release stream that was a capability stream": {capability(), release(), nil, []string{"KIND was capability and is release", reset}, goOn},
		"a capability stream that was a release stream": {release(), capability(), nil, []string{"KIND was release and is capability", reset}, goOn},
		"another database":                   {release(), release(), func(m *store.Meaning) { m.Table = "crm.items" }, []string{"TABLE was shop.items and is crm.items", reset, goOn}, ""},
		"another key":                        {release(), release(), func(m *store.Meaning) { m.Key = []string{"name"} }, []string{"KEY was id and is name", reset, goOn}, ""},
		"another key of a capability stream": {capability(), capability(), func(m *store.Meaning) { m.Key = []string{"name"} }, []string{"KEY was id and is name", reset}, goOn},
		"another id":                         {release(), release(), func(m *store.Meaning) { m.ID = "seq" }, []string{"ID was id and is seq", reset}, goOn},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			kind := func(m *store.Meaning) {
				if b.opts.Meaning = m; m != nil {
					b.opts.Kind = event.Kind(m.Kind)
				}
			}
			kind(c.was)
			b.insert(10)
			_, stop := b.run(t)
			eventually(t, "saved", func() bool { return b.position(t) == 10 })
			stop()
			if c.change != nil {
				c.change(c.is)
			}
			kind(c.is)
			b.insert(1)
			s, stop := b.run(t)
			if c.wants == nil {
				eventually(t, "the shard goes on", func() bool { return b.position(t) == 11 })
				stop()
				if saved, err := store.LoadMeaning(t.Context(), b.store, key); err != nil || saved == nil || len(saved.Differences(c.is)) > 0 {
					t.Errorf("the meaning is %+v, %v", saved, err)
				}
				return
			}
			eventually(t, "stopped", func() bool { return s.Status().State == shard.Stopped })
			got := s.Status().LastError
			for _, want := range append(c.wants, shard.ErrOtherMeaning.Error()) {
				if !strings.Contains(got, want) {
					t.Errorf("last error lacks %q: %s", want, got)
				}
			}
			if c.lacks != "" && strings.Contains(got, c.lacks) {
				t.Errorf("last error names %q: %s", c.lacks, got)
			}
			if n := b.count(topic); n != 10 {
				t.Errorf("%d messages were published, want 10", n)
			}
			stop()

			// What bridge checkpoint reset does.
			b.apply(t, func(image *store.Image) *store.Batch {
				return progress.Reset{Stream: key.Stream, Epoch: progress.NextEpoch(image, time.Now()), Now: time.Now()}.Batch(image)
			})
			b.run(t)
			eventually(t, "the table is published again", func() bool { return b.count(topic) == 21 })
		})
	}
}
