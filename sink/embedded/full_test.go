package embedded_test

import (
	"testing"
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
