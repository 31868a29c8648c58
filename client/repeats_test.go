package client

import "testing"

func TestRepeatsAreRememberedInAWindow(t *testing.T) {
	const room = 3
	r := newRepeats(room)
	for i := range byte(7) {
		r.add([16]byte{i})
		r.add([16]byte{i})
	}
	for i := range byte(7) {
		if got, want := r.has([16]byte{i}), i >= 4; got != want {
			t.Errorf("id %d is remembered: %v, want %v", i, got, want)
		}
	}
	if len(r.ids) != room {
		t.Errorf("%d ids are remembered", len(r.ids))
	}
}
