package torture

import (
	"net/url"
	"strings"
	"time"

	"bridge/tests/world"

	"bridge/tests/testenv"
)

// through has bridge reach its servers through proxies, which networkFaults do their harm to.
func through(tr *trial) {
	tr.Env["BRIDGE_SOURCE_URL"] = strings.Replace(tr.Env["BRIDGE_SOURCE_URL"], tr.servers.db.Addr, tr.servers.dbProxy.Addr(), 1)
	if tr.Bus.Kafka != nil {
		tr.Bus.Kafka.SetPassword(tr.T, testenv.KafkaPassword)
		tr.Env["BRIDGE_SINK_URL"] = "kafka://" + strings.Join(tr.Bus.Kafka.ProxiedBrokers(), ",")
		tr.Env["BRIDGE_KAFKA_SASL_MECHANISM"] = "SCRAM-SHA-512"
		tr.Env["BRIDGE_KAFKA_SASL_USERNAME"] = testenv.KafkaUser
		tr.Env["BRIDGE_KAFKA_SASL_PASSWORD"] = testenv.KafkaPassword
		return
	}
	u, err := url.Parse(tr.Env["BRIDGE_SINK_URL"])
	if err != nil {
		tr.T.Fatal(err)
	}
	u.Host = tr.servers.busProxy.Addr()
	tr.Env["BRIDGE_SINK_URL"] = u.String()
}

// networkFaults are done to the ways between bridge and its servers.
var networkFaults = []fault{
	onNetwork("network-latency", "200 ms more in each direction, for 60 s", both, func(p *testenv.Proxy) { p.Latency(200 * time.Millisecond) }),
	onNetwork("network-resets", "1 % of all pieces of data lost with a reset of their connection, for 60 s", both,
		func(p *testenv.Proxy) { p.Resets(0.01) }),
	onNetwork("network-bandwidth", "256 kB/s, for 60 s", both, func(p *testenv.Proxy) { p.Bandwidth(256_000) }),
	onNetwork("network-half-open-bus", "the way to the bus swallows all data, connections stay open, for 60 s", toBus, (*testenv.Proxy).HalfOpen),
	onNetwork("network-half-open-database", "the way to the database swallows all data, connections stay open, for 60 s", toDatabase, (*testenv.Proxy).HalfOpen),
	onNetwork("network-cut-bus", "the way to the bus cut for 60 s", toBus, (*testenv.Proxy).Cut),
	onNetwork("network-cut-database", "the way to the database cut for 60 s", toDatabase, (*testenv.Proxy).Cut),
	onNetwork("network-cut-both", "both ways cut for 60 s", both, (*testenv.Proxy).Cut),
	{
		name: "results-cut", family: "network", prepare: through,
		what: "64 kB/s on the way to the database, and all connections reset at random moments for 8 s: results end in the middle",
		inject: func(tr *trial) {
			p := tr.servers.dbProxy
			p.Bandwidth(64_000)
			open := 0
			for end := time.Now().Add(8 * time.Second); time.Now().Before(end); {
				world.Pause(300 * time.Millisecond)
				tr.sometime(time.Second)
				open += p.Open()
				p.Drop()
			}
			p.Heal()
			tr.met(open, "no connection was there to be reset")
		},
	},
}

func toBus(l *servers) []*testenv.Proxy      { return []*testenv.Proxy{l.busProxy} }
func toDatabase(l *servers) []*testenv.Proxy { return []*testenv.Proxy{l.dbProxy} }
func both(l *servers) []*testenv.Proxy       { return append(toBus(l), toDatabase(l)...) }

// onNetwork returns a fault of some ways, for a minute.
func onNetwork(name, what string, ways func(*servers) []*testenv.Proxy, harm func(*testenv.Proxy)) fault {
	// What is slow breaks nothing.
	breaks := name != "network-latency" && name != "network-bandwidth"
	return fault{
		name: name, family: "network", what: what, prepare: through, soaks: true,
		inject: func(tr *trial) {
			open, before := 0, 0
			for _, p := range ways(tr.servers) {
				open, before = open+p.Open(), before+p.Broken()
				harm(p)
			}
			tr.outage(time.Minute)
			broken := -before
			for _, p := range ways(tr.servers) {
				p.Heal()
				broken += p.Broken()
			}
			tr.met(open, "no connection went that way")
			if breaks {
				tr.met(broken, "no connection was cut, reset or kept from anything")
			}
		},
	}
}
