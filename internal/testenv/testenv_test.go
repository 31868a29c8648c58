package testenv

import "testing"

func TestNoFreePortIsGivenTwice(t *testing.T) {
	given := make(map[int]bool)
	// Of so many the kernel gives some twice.
	for range 1000 {
		port := FreePort(t)
		if given[port] {
			t.Fatalf("%d was given before", port)
		}
		given[port] = true
	}
}
