package checkpoint_test

import (
	"testing"

	"bridge/checkpoint"
)

// BenchmarkDecodeChange reads a change as a backlog has them.
func BenchmarkDecodeChange(b *testing.B) {
	c := checkpoint.Change{Entity: []byte("9e3779b97f4a7c159e3779b97f4a7c15"), Known: checkpoint.Known{Row: 1_000_000, Fate: checkpoint.Live}}
	form := checkpoint.AppendChange(nil, c)
	for b.Loop() {
		if _, _, err := checkpoint.DecodeChange(form); err != nil {
			b.Fatal(err)
		}
	}
}
