package acceptance

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/tests/testall"
)

// timesVariable sets times of the faulty program.
const timesVariable = "BRIDGE_TEST_TIMES"

// hotTime is how long vacant ids are hot, sweepTime how often cold ones are looked for, in the
// programs of tailBriefly: a row that only a sweep finds mostly comes after more than world.Slack.
// The soak waits for the times that users have with MariaDB's defaults.
var hotTime, sweepTime = func() (hot, sweep time.Duration) {
	if world.Soak {
		return time.Minute, time.Minute
	}
	return 8 * time.Second, 16 * time.Second
}()

// tailBriefly is tail with hotTime and sweepTime; where more sets BRIDGE_GAP_TTL it is the hot
// time, too.
func tailBriefly(l *world.World, b *world.Bus, name string, more world.Env) *world.Publisher {
	l.T.Helper()
	if world.Soak {
		return l.Tail(b, name, more)
	}
	times := fmt.Sprintf("hot_time=%s,sweep=%s", hotTime, sweepTime)
	if more["BRIDGE_GAP_TTL"] != "" {
		times += fmt.Sprintf(",gap_ttl=%s", hotTime)
	}
	return l.TailFaulty(b, name, world.Env{timesVariable: times}.With(more))
}

func TestTimesForTests(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	t.Run("are not in the program", func(t *testing.T) {
		for _, c := range []struct {
			path string
			want bool
		}{{world.Binary(t, false), false}, {world.Faulty(t), true}} {
			program, err := os.ReadFile(c.path)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(program), timesVariable); got != c.want {
				t.Errorf("%s names %s: %v", c.path, timesVariable, got)
			}
		}
	})
	t.Run("that cannot be read end the program with status 2 and the variable's name", func(t *testing.T) {
		shop := newSmallShop(t)
		d := world.NewDaemon(t, world.Faulty(t), shop.env.With(world.Env{timesVariable: "hot_time=soon"}))
		d.Start()
		_ = d.Wait()
		if status := d.Cmd.ProcessState.ExitCode(); status != 2 || !strings.Contains(d.Log.String(), timesVariable) {
			t.Errorf("exit status %d:\n%s", status, d.Log)
		}
	})
}
