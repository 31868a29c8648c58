package acceptance

import (
	"strings"
	"testing"
	"time"

	"bridge/tests/world"
)

// TestAWrongClock is for the soak: every package is compiled again for it, and `make torture` sets
// the clock wrong as well.
func TestAWrongClock(t *testing.T) {
	if !world.Soak {
		t.Skip("compiles everything again: part of `make soak` (BRIDGE_TEST_SOAK=1)")
	}
	t.Parallel()
	for _, c := range []struct {
		value       string
		first, last time.Duration
	}{
		{"", 0, 0},
		{"1h", time.Hour, time.Hour},
		{"-1h", -time.Hour, -time.Hour},
		{"1h@2s", 0, time.Hour},
		{"-1h@2s", 0, -time.Hour},
	} {
		t.Run("of "+c.value+" shows and does no harm", func(t *testing.T) {
			t.Parallel()
			shop := newSmallShop(t)
			shop.insert(1)
			d := world.NewDaemon(t, world.Program{WrongClock: true}.Build(t), shop.env.With(world.Env{world.ClockVariable: c.value, "BRIDGE_STABILITY_WINDOW": "100ms"}))
			d.Start()
			prints(t, d, 1)
			world.Pause(3 * time.Second)
			shop.insert(1)
			prints(t, d, 2)
			if code, body := d.Get("/livez"); code != 200 {
				t.Errorf("/livez %d: %s", code, body)
			}
			if status, took := d.Term(); status != 0 {
				t.Errorf("exit status %d after %s", status, took)
			}
			read := d.Logged()
			if len(read) < 2 {
				t.Fatalf("the log has %d times:\n%s", len(read), d.Log)
			}
			for i, want := range map[int]time.Duration{0: c.first, len(read) - 1: c.last} {
				if wrong := time.Until(read[i]); (wrong - want).Abs() > time.Minute {
					t.Errorf("line %d is wrong by %s, want %s:\n%s", i, wrong, want, d.Log)
				}
			}
		})
	}
	t.Run("with an unreadable time ends the program", func(t *testing.T) {
		t.Parallel()
		d := world.NewDaemon(t, world.Program{WrongClock: true}.Build(t), world.Env{world.ClockVariable: "soon"})
		d.Start()
		_ = d.Wait()
		if !strings.Contains(d.Log.String(), world.ClockVariable) {
			t.Errorf("the log does not name the variable:\n%s", d.Log)
		}
	})
}
