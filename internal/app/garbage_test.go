package app

import (
	"runtime/metrics"
	"testing"
)

func TestGCPercent(t *testing.T) {
	percent := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := percent()
	undo := setGCPercent()
	if got := percent(); got != gcPercent {
		t.Errorf("the percent is %d, want %d", got, gcPercent)
	}
	undo()
	if got := percent(); got != before {
		t.Errorf("the percent is %d at the end, it was %d", got, before)
	}
	for _, variable := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(variable+" counts instead", func(t *testing.T) {
			t.Setenv(variable, "70MiB")
			defer setGCPercent()()
			if got := percent(); got != before {
				t.Errorf("the percent is %d, it was %d", got, before)
			}
		})
	}
}
