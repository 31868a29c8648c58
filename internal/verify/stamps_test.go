package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bridge/event"
	"bridge/internal/verify"
	"bridge/sink"
)

// stamped is a world whose messages have stamps of epoch 0x1f.
func stamped(t *testing.T, kind event.Kind) *world {
	t.Helper()
	w := newWorld(t, kind)
	w.stamp = sink.State{Epoch: 0x1f, Seq: 1, Hash: 7}
	return w
}

// rows publishes rows of names of their own.
func (w *world) rows(n int) {
	w.t.Helper()
	for range n {
		w.insert(fmt.Sprint("name-", len(w.bus.messages)), "first")
	}
}

// setState changes the state of a message.
func (w *world) setState(i int, change func(*sink.State)) {
	w.t.Helper()
	m := w.copyOf(i)
	state, err := sink.ParseState(m.Header[sink.HeaderState])
	if err != nil {
		w.t.Fatal(err)
	}
	change(&state)
	m.Header[sink.HeaderState] = string(sink.AppendState(nil, &state))
	w.bus.messages[i] = m
}

// examplesOf returns what the examples of a fault or reason say.
func examplesOf(r *verify.Report, of string) (list []verify.Example) {
	for _, s := range r.Streams {
		for _, f := range s.Faults {
			if string(f.Fault) == of {
				list = append(list, f.Examples...)
			}
		}
		for _, d := range s.Unjudged {
			if string(d.Reason) == of {
				list = append(list, d.Examples...)
			}
		}
		for _, x := range s.Repeated {
			if string(x.Repeat) == of {
				list = append(list, x.Examples...)
			}
		}
	}
	return list
}

// repeats lists the repeats of a report: "copy 1, again 2".
func repeats(r *verify.Report) string {
	var list []string
	for _, s := range r.Streams {
		for _, x := range s.Repeated {
			list = append(list, fmt.Sprintf("%s %d", x.Repeat, x.Count))
		}
	}
	return strings.Join(list, ", ")
}

func TestLostMessages(t *testing.T) {
	t.Run("none of a whole bus", func(t *testing.T) {
		w := stamped(t, event.Release)
		w.rows(2100)
		want(t, w.check(), "")
	})
	t.Run("are named by shard, epoch, term and number, though their rows are gone too", func(t *testing.T) {
		w := stamped(t, event.Release)
		w.rows(10)
		w.stamp.Term, w.stamp.Acked = 1, 0
		w.rows(10)
		for _, i := range []int{18, 7, 4, 3} {
			w.bus.cut(i)
			w.table.Delete(uint64(i + 1))
		}
		r := w.check()
		want(t, r, "lost 4")
		var got []verify.Lost
		for _, e := range examplesOf(r, "lost") {
			if e.Shard != "thing" {
				t.Errorf("shard %q", e.Shard)
			}
			got = append(got, *e.Lost)
		}
		if exact := []verify.Lost{{"1f", 0, 3, 4}, {"1f", 0, 7, 7}, {"1f", 1, 8, 8}}; !slices.Equal(got, exact) {
			t.Errorf("got %v, want %v", got, exact)
		}
		if e := examplesOf(r, "lost")[0]; e.What != "messages 3 to 4 of term 0 of epoch 1f are not there; the bus acknowledged 9, counted from 0" {
			t.Errorf("%q", e.What)
		}
	})
	t.Run("of an entity that has newer events", func(t *testing.T) {
		w := stamped(t, event.Capability)
		id := w.insert("a", "first")
		id = w.replace(id, "a", "second")
		w.replace(id, "a", "third")
		w.bus.cut(1)
		want(t, w.check(), "lost 1, brokenLink 1")
	})
	t.Run("are not those of a batch that the bus did not acknowledge", func(t *testing.T) {
		w := stamped(t, event.Release)
		w.rows(5)
		// Two of a batch of four arrived before a doubt, which ended the term.
		for i := 3; i < 5; i++ {
			w.setState(i, func(s *sink.State) { s.Acked, s.Index = 3, uint32(i-3)*2 })
		}
		w.stamp.Term, w.stamp.Acked, w.stamp.Seq = 1, 0, 20
		w.rows(3)
		want(t, w.check(), "")
	})
	t.Run("are not judged where the bus removes messages", func(t *testing.T) {
		for _, p := range []verify.Partition{{Name: "T/0", Expired: true}, {Name: "T/0", Thinned: true}} {
			w := stamped(t, event.Release)
			w.rows(10)
			for i := 3; i >= 0; i-- {
				w.bus.cut(i)
				w.table.Delete(uint64(i + 1))
			}
			w.bus.partition = p
			want(t, w.check(), " | removed 4")
		}
	})
	t.Run("are not those that come while the check runs", func(t *testing.T) {
		w := stamped(t, event.Release)
		w.rows(10)
		// Another partition was read before these were published.
		late := slices.Clone(w.bus.messages[3:5])
		w.bus.cut(3)
		w.bus.cut(3)
		reads := 0
		w.bus.before = func() {
			if reads++; reads == 2 {
				w.bus.messages = append(w.bus.messages, late...)
				w.rows(1)
				w.stamp.Acked++
				w.rows(1)
			}
		}
		want(t, w.check(func(o *verify.Options) { o.Rounds = 1 }), "")
	})
	t.Run("are not those that a dead letter stands for", func(t *testing.T) {
		w := stamped(t, event.Capability)
		w.insert("a", "first")
		w.insert("b", "first")
		w.insert("c", "first")
		state := w.bus.messages[1].Header[sink.HeaderState]
		w.refuse(1, 2)
		w.bus.messages[1].Header[sink.HeaderState] = state
		want(t, w.check(), "missing 1")
	})
	t.Run("are not judged where their numbers take too much memory", func(t *testing.T) {
		w := stamped(t, event.Release)
		w.rows(10)
		w.bus.cut(4)
		w.table.Delete(5)
		want(t, w.check(func(o *verify.Options) { o.Numbers = 500 }), " | uncounted 9")
		w.bus.read = 0
		want(t, w.check(func(o *verify.Options) { o.Numbers = 5000 }), "lost 1")
	})
	t.Run("without stamps are not named", func(t *testing.T) {
		w := newWorld(t, event.Release)
		w.rows(10)
		w.bus.cut(4)
		w.table.Delete(5)
		want(t, w.check(), "")
	})
}

func TestRepeatsWithStamps(t *testing.T) {
	for _, kind := range []event.Kind{event.Capability, event.Release} {
		t.Run("a copy has the stamp of an earlier message: "+string(kind), func(t *testing.T) {
			w := stamped(t, kind)
			w.rows(5)
			w.bus.messages = append(w.bus.messages, w.copyOf(3))
			r := w.check()
			want(t, r, "")
			if got := repeats(r); got != "copy 1" || r.Streams[0].Repeats != 1 {
				t.Errorf("repeats %q, %d in all", got, r.Streams[0].Repeats)
			}
			if e := examplesOf(r, "copy")[0]; e.Partition != "T/0" || e.At != 5 || e.Stamp != "1f 4" || e.Row != 4 || e.Key != "name-3" {
				t.Errorf("%+v", e)
			}
		})
		t.Run("a repeat after a restart has one of its own: "+string(kind), func(t *testing.T) {
			w := stamped(t, kind)
			w.rows(5)
			w.bus.messages = append(w.bus.messages, w.copyOf(3), w.copyOf(4))
			for i := range 2 {
				w.setState(5+i, func(s *sink.State) { s.Epoch, s.Seq, s.Acked = 0x2f, uint64(i), uint32(i) })
			}
			r := w.check()
			want(t, r, "")
			if got := repeats(r); got != "again 2" {
				t.Errorf("repeats %q", got)
			}
			if e := examplesOf(r, "again")[1]; e.Partition != "T/0" || e.At != 6 || e.Stamp != "2f 1" || e.Row != 5 {
				t.Errorf("%+v", e)
			}
		})
		t.Run("another event has no stamp that was used: "+string(kind), func(t *testing.T) {
			w := stamped(t, kind)
			w.rows(5)
			w.setState(4, func(s *sink.State) { s.Seq = 2 })
			r := w.check()
			want(t, r, "altered 1")
			if e := examplesOf(r, "altered")[0]; e.At != 4 || e.Stamp != "1f 2" || e.What != "another event has its stamp" {
				t.Errorf("%+v", e)
			}
		})
	}
	t.Run("a copy is one however long the history of its entity is", func(t *testing.T) {
		w := stamped(t, event.Capability)
		id := w.insert("a", "0")
		for i := range 40 {
			id = w.replace(id, "a", fmt.Sprint(i+1))
		}
		// The oldest event, and then all of the history.
		w.bus.messages = append(w.bus.messages, w.bus.messages...)
		for i := range w.bus.messages {
			w.bus.messages[i] = w.copyOf(i)
		}
		r := w.check()
		want(t, r, "")
		if got := repeats(r); got != "copy 41" {
			t.Errorf("repeats %q", got)
		}
	})
}

// copyOf returns a copy of a message.
func (w *world) copyOf(i int) *verify.Message {
	return clone(w.bus.messages[i])
}

func TestStatesThatCannotBeRead(t *testing.T) {
	w := stamped(t, event.Release)
	w.rows(3)
	w.bus.messages[1].Header[sink.HeaderState] = "2 a new form"
	w.bus.messages[2].Header[sink.HeaderState] = "1 1f 3 0.2"
	r := w.check()
	want(t, r, "altered 1 | newerForm 1")
	if e := examplesOf(r, "altered")[0]; !strings.Contains(e.What, "bridge-state") || e.Row != 3 || e.At != 2 {
		t.Errorf("%+v", e)
	}
}

func TestTheNewestMessageHasAnotherHash(t *testing.T) {
	hash := func(o *verify.Options) { o.Shards[0].Hash = 7 }
	w := stamped(t, event.Release)
	w.stamp.Hash = 6
	w.rows(2)
	w.stamp.Hash = 7
	w.rows(2)
	want(t, w.check(hash), "")
	// The newest message is that with the highest stamp, not the last one.
	w.bus.read = 0
	w.setState(1, func(s *sink.State) { s.Seq = 0x20 })
	r := w.check(hash)
	want(t, r, "otherKey 1")
	if e := examplesOf(r, "otherKey")[0]; e.At != 1 || e.Stamp != "1f 20" || !strings.Contains(e.What, "has the hash 6, the configuration 7") {
		t.Errorf("%+v", e)
	}
}

func TestMessagesOfOtherDomains(t *testing.T) {
	const foreign = "other.domain"
	ours := func(o *verify.Options) { o.Domain = "bridge" }
	w := stamped(t, event.Capability)
	w.insert("a", "first")
	w.insert("b", "first")
	own := w.bus.messages
	w.bus.messages, w.options.Domain = nil, foreign
	w.encoder, w.stamp.Acked = w.newEncoder(), 100
	clear(w.last)
	w.insert("a", "theirs")
	w.insert("c", "theirs")
	w.insert("d", "theirs")
	w.refuse(2, 5)
	for _, m := range w.bus.messages {
		m.Header[sink.HeaderDomain] = foreign
	}
	w.bus.messages = append(w.bus.messages, own...)
	for id := range uint64(3) {
		w.table.Delete(id + 3)
	}
	w.options.Domain = ""
	r := w.check(ours)
	want(t, r, "")
	if !slices.Equal(r.OtherDomains, []verify.OtherDomain{{Domain: foreign, Messages: 3}}) || r.Others != 0 {
		t.Errorf("%+v, %d others", r.OtherDomains, r.Others)
	}
	// A header of another domain does not hide an event of ours.
	w.bus.read = 0
	w.bus.messages[4].Header[sink.HeaderDomain] = foreign
	want(t, w.check(ours), "altered 1")
}

// TestLostMessagesOfTopicsOfTheirOwn has a topic for each table, one of which has expired, and one
// for dead letters.
func TestLostMessagesOfTopicsOfTheirOwn(t *testing.T) {
	for _, c := range []struct{ expired, found string }{
		{"", "lost 1, missing 1"}, {"d_1", "lost 1, missing 1"}, {"d_0", " | expired 1, removed 1"}, {"dead", "missing 1 | removed 1"},
	} {
		t.Run("expired is "+c.expired, func(t *testing.T) {
			w := newTables(t, true)
			w.put(0, "a", "first")
			w.put(0, "b", "first")
			w.put(1, "c", "first")
			w.put(1, "d", "first")
			w.apart()
			w.bus.cut(0)
			w.bus.partition = verify.Partition{Name: "d_0/0", Destination: "d_0"}
			w.bus.others = []verify.Partition{{Name: "d_1/0", Destination: "d_1"}, {Name: "dead/0", Destination: "dead"}}
			for _, p := range []*verify.Partition{&w.bus.partition, &w.bus.others[0], &w.bus.others[1]} {
				p.Expired = p.Destination == c.expired
			}
			want(t, w.compare(func(o *verify.Options) {
				for i := range o.Shards {
					o.Shards[i].Destinations = []string{o.Shards[i].Name}
				}
			}), c.found)
		})
	}
}
