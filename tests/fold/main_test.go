// Package fold has writers change entities that hop between the tables of a stream, while the
// program is killed and its checkpoint is replaced by older copies or removed. Again and again the
// writers pause, one reconcile runs, and what the messages on the bus fold to has to be what the
// tables hold and what the writers recorded. Here a consumer decodes messages by itself: it shares
// no code with the program.
package fold

import (
	"flag"
	"testing"
	"time"

	"example.org/bridge/tests/world"
)

// The flags of a run.
var (
	foldSeed = flag.Uint64("seed", 0, "what chance is drawn from; 0 takes the time")
	foldFor  = flag.Duration("for", 15*time.Second, "how long there is load, on each bus")
	foldHarm = flag.String("harm", "", "a regular expression: only the harm whose name it matches")
	foldBus  = flag.String("bus", "", "only this bus: kafka, kafka-once or nats")
)

func TestMain(m *testing.M) { world.Main(m) }
