package standby_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/standby/standbytest"
	"example.org/bridge/tests/must"
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

// TestAFormerVersion lacks a setting in its claim, and is not refused for that.
func TestAFormerVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entries := new(standbytest.Entries)
		_, err := standbytest.NewRegister(entries).Put(t.Context(), standby.Work, []byte(`{"member":"former","settings":{"ONE":"1"}}`), 0)
		must.OK(t, err)
		m := standby.New(standby.Options{
			Elector: standby.NewLease(standbytest.NewRegister(entries), timeout), Member: "newer", Timeout: timeout, Ready: func() bool { return true },
			Settings: standby.Settings{"ONE": "1", "S_RECONCILE_MAX_DELETES": "2"}, Log: slog.New(slog.DiscardHandler), Fault: func(error) {},
		})
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		time.Sleep(timeout / 2)
		if s := m.Status(); s.Claim.Member != "former" || len(s.Differing) > 0 {
			t.Errorf("it differs by %v from %+v", s.Differing, s.Claim)
		}
		leave()
		must.OK(t, <-ended)
	})
}
