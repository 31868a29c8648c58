package acceptance

import (
	"testing"

	"bridge/tests/world"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/workload"
)

// TestATableThatStandsStillFoldsToItself publishes every type of column to both buses.
func TestATableThatStandsStillFoldsToItself(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	s := newEntities(t, testenv.MariaDB(t), workload.CapabilityOptions{Entities: 1000, Writers: 4, Changes: 2000, Seed: 1}, world.Strict, world.Loose)
	s.Run()
	for name, b := range map[string]*world.Bus{"kafka": world.KafkaBus(testenv.Kafka(t)), "nats": world.NATSBus(testenv.NATS(t))} {
		p := follow(s, b, name, nil)
		p.Start()
		p.Drained()
		for stream := range s.Entities {
			p.MustMatch(stream, world.Expect{})
		}
	}
}
