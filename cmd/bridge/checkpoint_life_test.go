package main

import (
	"encoding/json"
	"strings"
	"testing"

	"example.org/bridge/checkpoint/store"
)

// messages returns how many messages of the shop are on the bus.
func (s *shop) messages() int {
	s.t.Helper()
	got := outcome{}.call(s.env, "verify", "--json")
	var report struct{ Messages int }
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		s.t.Fatalf("%v, %+v", err, got)
	}
	return report.Messages
}

// wantMessages reconciles, and fails the test unless so many messages are on the bus then.
func (s *shop) wantMessages(behind string, want int) {
	s.t.Helper()
	s.call(exitFine, "orders orders", "reconcile")
	if got := s.messages(); got != want {
		s.t.Errorf("behind %s: %d messages, want %d", behind, got, want)
	}
}

func TestWhatCheckpointCommandsHavePublished(t *testing.T) {
	t.Parallel()
	for kind, key := range map[string]string{"capability": "name", "release": "id"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.env["BRIDGE_STREAM_ORDERS_KIND"], s.env["BRIDGE_STREAM_ORDERS_KEY"] = kind, key
			s.wantMessages("the start", 60)
			s.call(exitFine, "next start reads the bus", "checkpoint rebuild orders")
			s.wantMessages("rebuild", 60)
			s.call(exitFine, "id 60 is now id 50, no gaps", "checkpoint set orders orders 50")
			want := 70
			if kind == "release" {
				// The bus drops the same facts as duplicates.
				want = 60
			}
			s.wantMessages("set", want)
			inStore(t, strings.TrimPrefix(s.env["BRIDGE_CHECKPOINT_URL"], "file:"), func(kept store.Store) {
				p, _, err := kept.Progress(t.Context(), store.Key{Stream: "orders", Shard: "orders"})
				if err != nil || p.Position != 60 || p.Since == 0 {
					t.Errorf("%+v, %v", p, err)
				}
			})
			s.exec("INSERT INTO orders (id, name, total) VALUES (70, 'new', 1)")
			s.exec("DELETE FROM orders WHERE id = 60")
			s.env["BRIDGE_STREAM_ORDERS_START"] = "latest"
			s.call(exitFine, "removed the checkpoint of 1 shard", "checkpoint reset orders")
			s.wantMessages("reset", want)
			s.exec("INSERT INTO orders (id, name, total) VALUES (71, 'newer', 1)")
			s.exec("DELETE FROM orders WHERE id = 59")
			s.call(exitFine, "", "reconcile")
			if kind == "release" {
				want--
			}
			if got := s.messages(); got != want+2 {
				t.Errorf("at the end: %d messages, want %d", got, want+2)
			}
		})
	}
}
