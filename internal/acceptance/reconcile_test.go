package acceptance

import (
	"testing"

	"bridge/internal/testenv"
	"bridge/internal/workload"
)

// TestATableThatStandsStillFoldsToItself publishes every type of column to both buses.
func TestATableThatStandsStillFoldsToItself(t *testing.T) {
	t.Parallel()
	s := newStates(t, testenv.MariaDB(t), workload.CapabilityOptions{Entities: 1000, Writers: 4, Changes: 2000, Seed: 1}, strict, loose)
	s.run()
	for name, b := range map[string]bus{"kafka": kafkaBus{testenv.Kafka(t)}, "nats": natsBus{testenv.NATS(t)}} {
		p := s.publish(b, name, nil)
		p.start()
		p.drained()
		for stream := range s.loads {
			p.judge(stream, true)
		}
	}
}
