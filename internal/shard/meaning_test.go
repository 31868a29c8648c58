package shard_test

import (
	"strings"
	"testing"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/internal/shard"
)

// TestAnotherMeaningStopsTheShard: what a checkpoint says was made with a configuration, and is read with another one.
func TestAnotherMeaningStopsTheShard(t *testing.T) {
	release := func() *checkpoint.Meaning {
		return &checkpoint.Meaning{Kind: "release", Table: "shop.items", ID: "id", Key: []string{"id"}}
	}
	capability := func() *checkpoint.Meaning {
		m := release()
		m.Kind = "capability"
		return m
	}
	const (
		reset = "bridge checkpoint reset items"
		goOn  = "bridge checkpoint set items items 10"
	)
	for name, c := range map[string]struct {
		was, is *checkpoint.Meaning
		change  func(*checkpoint.Meaning)
		// wants are in the error, lacks is not; none where nothing stops.
		wants []string
		lacks string
	}{
		"the same":                       {was: release(), is: release()},
		"none: an older version made it": {was: nil, is: release()},
		"a release stream that was a capability stream": {capability(), release(), nil, []string{"KIND was capability and is release", reset}, goOn},
		"a capability stream that was a release stream": {release(), capability(), nil, []string{"KIND was release and is capability", reset}, goOn},
		"another database":                   {release(), release(), func(m *checkpoint.Meaning) { m.Table = "crm.items" }, []string{"TABLE was shop.items and is crm.items", reset, goOn}, ""},
		"another key":                        {release(), release(), func(m *checkpoint.Meaning) { m.Key = []string{"name"} }, []string{"KEY was id and is name", reset, goOn}, ""},
		"another key of a capability stream": {capability(), capability(), func(m *checkpoint.Meaning) { m.Key = []string{"name"} }, []string{"KEY was id and is name", reset}, goOn},
		"another id":                         {release(), release(), func(m *checkpoint.Meaning) { m.ID = "seq" }, []string{"ID was id and is seq", reset}, goOn},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			kind := func(m *checkpoint.Meaning) {
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
				if state, err := b.store.Load(t.Context(), key); err != nil || state.Meaning == nil || len(state.Meaning.Differences(c.is)) > 0 {
					t.Errorf("the meaning is %+v, %v", state.Meaning, err)
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
			if n := len(b.ids(topic)); n != 10 {
				t.Errorf("%d messages were published, want 10", n)
			}
			stop()

			// What bridge checkpoint reset does.
			if _, err := b.store.Delete(t.Context(), key.Stream); err != nil {
				t.Fatal(err)
			}
			b.run(t)
			eventually(t, "the table is published again", func() bool { return len(b.ids(topic)) == 21 })
		})
	}
}
