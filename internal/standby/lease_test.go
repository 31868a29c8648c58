package standby_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/standby/standbytest"
)

const timeout = 10 * time.Second

// TestLease runs the suite by a clock of its own, with writes that are lost and with answers that
// are lost.
func TestLease(t *testing.T) {
	for name, deaf := range map[string]bool{"nothing arrives": false, "answers are lost": true} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			entries := make(map[string]*standbytest.Entries)
			ways := make(map[standby.Elector]*standbytest.Register)
			standbytest.Run(t, standbytest.Options{
				Timeout: timeout,
				Elector: func(_ *testing.T, group string) standby.Elector {
					mu.Lock()
					defer mu.Unlock()
					if entries[group] == nil {
						entries[group] = new(standbytest.Entries)
					}
					r := standbytest.NewRegister(entries[group])
					l := standby.NewLease(r, timeout)
					ways[l] = r
					return l
				},
				Cut: func(e standby.Elector, cut bool) {
					mu.Lock()
					defer mu.Unlock()
					ways[e].Cut(cut, deaf)
				},
				Bubble: func(t *testing.T, test func(*testing.T)) { synctest.Test(t, test) },
			})
		})
	}
}
