package stream

import (
	"crypto/md5"
	"fmt"
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
)

// publish publishes what was decided about x, under an id of all that a meta.id is made of, and
// returns the id and the message.
func (k *desk) publish(c *Claims, d *Decision) ([16]byte, []Message) {
	k.t.Helper()
	id := md5.Sum(fmt.Append(nil, c.shard, d.Entity, d.ID, d.Op, d.Digest, d.Previous()))
	d.Publish(id)
	facts := k.facts(c)
	if err := k.Apply(k.t.Context(), facts, nil, c, k.commit); err != nil {
		k.t.Fatal(err)
	}
	return id, facts
}

// TestAnEventThatTheBusForgot: x is added, perhaps modified, and hidden by the condition. Where
// compaction has removed these events, a later process with an older checkpoint, or none, publishes
// the same fact under the same id. Where they are read, no id comes again.
func TestAnEventThatTheBusForgot(t *testing.T) {
	for name, c := range map[string]struct {
		// copied: the store is a copy from when x was added, else empty. read: the bus has the
		// events. modified: x was modified. shown: the row matches the condition again.
		copied, read, modified, shown bool
		// news is whether something is published, again whether its id is that of a former event.
		news, again bool
	}{
		"a copy, forgotten, the row is hidden":           {copied: true, news: true, again: true},
		"a copy, forgotten, the row is back":             {copied: true, shown: true, news: true},
		"a copy, forgotten, the row is back as modified": {copied: true, modified: true, shown: true, news: true, again: true},
		"a copy, read, the row is back as modified":      {copied: true, read: true, modified: true, shown: true, news: true},
		"a copy, read, the row is hidden":                {copied: true, read: true},
		"a copy, read, the row is back":                  {copied: true, read: true, shown: true, news: true},
		"no store, forgotten, hidden":                    {},
		"no store, forgotten, the row is back":           {shown: true, news: true, again: true},
		"no store, read, the row is hidden":              {read: true},
		"no store, read, the row is back":                {read: true, shown: true, news: true},
	} {
		t.Run(name, func(t *testing.T) {
			shown, hidden := Row{ID: 7, Digest: stateA}, Row{ID: 7, Deleted: true, Silent: true}
			former := newDesk(t)
			claims := former.begin("a")
			id, facts := former.publish(claims, former.decideRow(claims, shown))
			copied, published := former.stored(), map[[16]byte]bool{id: true}
			rows := []Row{hidden}
			if c.modified {
				shown.Digest = stateB
				rows = []Row{shown, hidden}
			}
			for _, row := range rows {
				claims = former.begin("a")
				id, more := former.publish(claims, former.decideRow(claims, row))
				published[id], facts = true, append(facts, more...)
			}

			// The topic was registered again, to be read from its beginning.
			k := &desk{View: NewView("s", memory.New(), func(uint32) uint32 { return 2 }), t: t, tp: 2, next: 10}
			if c.copied {
				k.put(copied)
			}
			if c.read {
				for i := range facts {
					facts[i].At.TP = 2
				}
				p, err := k.prepareFacts(t.Context(), facts)
				if err == nil {
					err = k.Apply(t.Context(), facts, p, nil, k.commit)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			row := hidden
			if c.shown {
				row = shown
			}
			claims = k.begin("a")
			d := k.decideRow(claims, row)
			if d.News != c.news {
				t.Fatalf("%+v", d)
			}
			if !d.News {
				return
			}
			if id, _ = k.publish(claims, d); published[id] != c.again {
				t.Errorf("%s behind %x, as before: %t", d.Op, d.Previous(), published[id])
			}
			if e := k.stored(); e.Disputed || e.State == store.Unknown {
				t.Errorf("%+v", e)
			}
		})
	}
}
