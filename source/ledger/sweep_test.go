package ledger_test

import (
	"testing"
	"time"

	"bridge/source/ledger"
)

func TestSweepsBegin(t *testing.T) {
	for name, c := range map[string]struct{ set, every time.Duration }{
		"every minute":                    {0, time.Minute},
		"as often as the options want it": {7 * time.Second, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			l := mustLedger(t, ledger.Options{SweepEvery: c.set}, 0)
			l.Advance(3, []uint64{3}, base)
			cold := 2 * time.Minute
			pollWith(l, after(cold))
			sweep(l, after(cold))
			if due := l.Sweep(after(cold + c.every - time.Millisecond)); len(due) > 0 {
				t.Errorf("sweeps for %v sooner than after %s", due, c.every)
			}
			if due := l.Sweep(after(cold + c.every)); len(due) == 0 {
				t.Errorf("does not sweep after %s", c.every)
			}
		})
	}
}
