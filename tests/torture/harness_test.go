package torture

import (
	"testing"

	"bridge/tests/testenv"
	"bridge/tests/world"
)

// servers are a bus and a database of their own, on which trials run one after the other.
type servers struct {
	bus *world.Bus
	db  *testenv.DatabaseServer
	// busProxy and dbProxy are ways to the servers that networkFaults harm.
	busProxy, dbProxy *testenv.Proxy
}

func startServers(t *testing.T, bus string) *servers {
	t.Helper()
	s := &servers{db: testenv.StartMariaDB(t)}
	s.dbProxy = testenv.StartProxy(t, s.db.Addr)
	if bus == "kafka" {
		s.bus = world.KafkaBus(testenv.StartKafka(t, testenv.KafkaOptions{Proxied: true, SASL: true}))
		s.busProxy = s.bus.Kafka.Proxy()
		if *tortureOnce {
			s.bus = s.bus.ExactlyOnce(t.Name())
		}
	} else {
		s.bus = world.NATSBus(testenv.StartNATS(t))
		s.busProxy = testenv.StartProxy(t, s.bus.NATS.Addr())
	}
	return s
}

// heal undoes what a trial that ended early has left.
func (s *servers) heal(t testing.TB) {
	t.Helper()
	s.dbProxy.Heal()
	s.busProxy.Heal()
	s.db.Heal(t)
	s.bus.Heal(t)
}

// with returns servers with the same database and another bus.
func (s *servers) with(bus *world.Bus) *servers {
	other := *s
	other.bus = bus
	return &other
}

// clustered returns servers with the same database and a bus that is three servers.
func clustered(t testing.TB, s *servers) *servers { return s.with(s.bus.Clustered(t)) }
