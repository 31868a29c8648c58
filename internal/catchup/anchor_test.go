package catchup_test

import (
	"testing"
	"time"
)

// TestALossThatIsReadOver: the bus loses the tail of a TP, others refill it, and the hole behind
// the lost messages is read before anchors are compared the next time (rule 20).
func TestALossThatIsReadOver(t *testing.T) {
	for name, single := range map[string]bool{"several messages": false, "one message": true} {
		bubble(t, name, func(t *testing.T) {
			b, batches := filled(t, nil)
			r := newRig(t, b, batches, nil, "s").start()
			r.run()
			r.pass(time.Second)
			b.lose("d", 2)
			b.other("1")
			b.other("2")
			if !single {
				b.other("3")
			}
			m := r.sends("d")
			if err := r.acknowledge(m, b.says(m)); err != nil {
				t.Fatal(err)
			}
			r.pass(5 * time.Minute)
			if g := r.registration("s", "d"); g.Number != 2 || g.Next != b.end("d") || !r.feeds["s"].due {
				t.Errorf("registration %+v, a reconcile is due: %v", g, r.feeds["s"].due)
			}
		})
	}
	bubble(t, "another stream reads the TP from its beginning, and over that loss", func(t *testing.T) {
		b, _ := filled(t, nil)
		r := newRig(t, b, nil, nil, "o", "s").start()
		r.run()
		r.pass(time.Second)
		b.lose("d", 2)
		b.other("1")
		b.other("2")
		m := r.sends("d")
		if err := r.acknowledge(m, b.says(m)); err != nil {
			t.Fatal(err)
		}
		former := r.registration("s", "d").Number
		r.pass(5 * time.Minute)
		for _, stream := range []string{"o", "s"} {
			if g := r.registration(stream, "d"); g.Number <= former || g.Next != b.end("d") || !r.feeds[stream].due {
				t.Errorf("registration %+v, a reconcile is due: %v", g, r.feeds[stream].due)
			}
		}
	})
	bubble(t, "nothing was lost, and the message at the anchor has expired", func(t *testing.T) {
		b, batches := filled(t, nil)
		r := newRig(t, b, batches, nil, "s").start()
		r.run()
		for range 5 {
			b.other("x")
			b.expire("d", 3)
			m := r.sends("d")
			if err := r.acknowledge(m, b.says(m)); err != nil {
				t.Fatal(err)
			}
			r.pass(5 * time.Minute)
		}
		if g := r.registration("s", "d"); g.Number != 1 || g.Next != b.end("d") {
			t.Errorf("registration %+v", g)
		}
	})
}
