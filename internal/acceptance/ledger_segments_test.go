package acceptance

import (
	"fmt"
	"testing"
	"time"

	"bridge/internal/testenv"
	"bridge/internal/workload"
)

// TestSegmentWriters draws ids from blocks of 5,000 that several containers hold.
func TestSegmentWriters(t *testing.T) {
	t.Parallel()
	length := 30 * time.Second
	if soak {
		length = 10 * time.Minute
	}
	for i, containers := range []int{3, 10} {
		for j, rate := range []float64{1, 500} {
			t.Run(fmt.Sprintf("%d containers at %v rows a second", containers, rate), func(t *testing.T) {
				t.Parallel()
				if rate > 1 {
					occupy(t, 1)
				}
				l := newLoad(t, testenv.MariaDB(t), workload.Options{
					IDs: workload.Segments{Containers: containers}, Writers: 8, Rate: rate, Commits: int(rate * length.Seconds()),
					Hold: workload.Hold{Short: 5 * time.Millisecond, Long: 2 * time.Second, LongShare: 0.001},
					// An entity that is written again has the lower id as often as not.
					Mix: workload.Mix{Rollback: 0.01, Replace: 0.25}, Seed: uint64(10 + i*2 + j),
				})
				b := []bus{kafkaBus{testenv.Kafka(t)}, natsBus{testenv.NATS(t)}}[(i+j)%2]
				window := time.Duration(i) * time.Second
				d := l.tail(b, "segments", env{"BRIDGE_ID_ORDER": "segmented", "BRIDGE_STABILITY_WINDOW": window.String()})
				l.start()()
				d.complete(time.Minute)
				a := d.judge(expectations{steady: true})
				d.bounded("all", a.delay, 0.99, window+patience)
				if rate > 1 && a.late == 0 {
					t.Error("no record was late: the test shows nothing")
				}
			})
		}
	}
}
