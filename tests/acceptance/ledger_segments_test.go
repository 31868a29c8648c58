package acceptance

import (
	"fmt"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/workload"
)

// TestSegmentWriters draws ids from blocks of 5,000 that several containers hold.
func TestSegmentWriters(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	length := 30 * time.Second
	if world.Soak {
		length = 10 * time.Minute
	}
	for i, containers := range []int{3, 10} {
		for j, rate := range []float64{1, 500} {
			t.Run(fmt.Sprintf("%d containers at %v rows a second", containers, rate), func(t *testing.T) {
				t.Parallel()
				if rate > 1 {
					occupy(t, 1)
				}
				l := newRows(t, testenv.MariaDB(t), workload.Options{
					IDs: workload.Segments{Containers: containers}, Writers: 8, Rate: rate, Commits: int(rate * length.Seconds()),
					Hold: workload.Hold{Short: 5 * time.Millisecond, Long: 2 * time.Second, LongShare: 0.001},
					// An entity that is written again has the lower id as often as not.
					Mix: workload.Mix{Rollback: 0.01, Replace: 0.25}, Seed: uint64(10 + i*2 + j),
				})
				b := []*world.Bus{world.KafkaBus(testenv.Kafka(t)), world.NATSBus(testenv.NATS(t))}[(i+j)%2]
				window := time.Duration(i) * time.Second
				d := l.Tail(b, "segments", world.Env{"BRIDGE_ID_ORDER": "segmented", "BRIDGE_STABILITY_WINDOW": window.String()})
				l.Run()
				d.Complete(world.Orders, time.Minute)
				a := d.MustMatch(world.Orders, world.Expect{Steady: true})
				d.Bounded("all", a.Delay(), 0.99, window+world.Slack)
				if rate > 1 && a.Late() == 0 {
					t.Error("no row was late: the test shows nothing")
				}
			})
		}
	}
}
