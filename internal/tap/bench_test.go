package tap

import (
	"testing"

	"bridge/sink"
)

// BenchmarkOffer is what a batch of 2,000 events costs its publisher: nobody listens, a listener is
// full, or one keeps up.
func BenchmarkOffer(b *testing.B) {
	value := make([]byte, 500)
	offerTo := func(t *Tap) {
		t.Offer("a", 2000, func(int) Event { return Event{Message: sink.Message{Value: append([]byte(nil), value...)}} })
	}
	b.Run("nobody", func(b *testing.B) {
		var t Tap
		for b.Loop() {
			if t.Listened() {
				offerTo(&t)
			}
		}
	})
	for name, drains := range map[string]bool{"full": false, "drained": true} {
		b.Run(name, func(b *testing.B) {
			var t Tap
			l, err := t.Listen("")
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				offerTo(&t)
				if drains {
					l.Drain()
				}
			}
		})
	}
}
