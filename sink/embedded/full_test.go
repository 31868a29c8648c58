package embedded_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bridge/sink"
)

func TestJetStreamSwitchedOffIsSwitchedOnAgain(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), "a")
	mustPublish(t, s, message("a", "1"))
	// It may be switched on again before Ready is called.
	for tries, ready := 0, true; ready; tries++ {
		if tries == 20 {
			t.Fatal("ready without JetStream")
		}
		if err := s.SwitchOff(); err != nil {
			t.Fatal(err)
		}
		ready = s.Ready(deadline(t)) == nil
	}
	mustPublish(t, s, message("a", "2"))
	if got := read(t, s, "a"); len(got) != 2 {
		t.Errorf("the stream holds %d messages, want 2", len(got))
	}
	if err := s.Ready(deadline(t)); err != nil {
		t.Error(err)
	}
}

// TestFullDisk wants a folder on a small disk of its own, of 8 MiB or so, in
// BRIDGE_TEST_SMALL_DISK.
func TestFullDisk(t *testing.T) {
	disk := os.Getenv("BRIDGE_TEST_SMALL_DISK")
	if disk == "" {
		t.Skip("needs a small disk: mount -t tmpfs -o size=8m tmpfs <folder>, BRIDGE_TEST_SMALL_DISK=<folder>")
	}
	dir := filepath.Join(disk, "nats")
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := open(t, dir, "a")
	filler := filepath.Join(disk, "filler")
	t.Cleanup(func() { _ = os.Remove(filler) })
	mustPublish(t, s, message("a", "first"))
	// As much as fits.
	_ = os.WriteFile(filler, make([]byte, 64<<20), 0o600)

	var batch []sink.Message
	for i := range 300 {
		m := message("a", fmt.Sprint(i))
		m.Value = fmt.Appendf(nil, `{"pad":"%08192d"}`, i)
		batch = append(batch, m)
	}
	stuck, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	if out, err := s.Publish(stuck, batch); err == nil {
		t.Fatalf("%d messages fit on a full disk", out.Acked())
	}
	t.Log("ready on a full disk:", s.Ready(deadline(t)))
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	mustPublish(t, s, batch...)
	ids := make(map[string]int)
	for _, r := range read(t, s, "a") {
		ids[r.ID]++
	}
	if len(ids) != len(batch)+1 {
		t.Errorf("the stream holds %d different messages, want %d", len(ids), len(batch)+1)
	}
	if err := s.Ready(deadline(t)); err != nil {
		t.Error(err)
	}
}
