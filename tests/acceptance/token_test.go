package acceptance

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestKafkaThatWantsATokenThatExpires runs all that connects to brokers over the ends of many
// sessions: transactions, catch-up, a standby group, progress on the bus, and the commands.
func TestKafkaThatWantsATokenThatExpires(t *testing.T) {
	testall.Beside(t)
	server := testenv.StartKafka(t, testenv.KafkaOptions{OAuth: true})
	table := newSecured(t, testenv.MariaDB(t))
	server.CreateTopic(t, "secured", 2, nil)
	createCompacted(t, server, "bridge-progress")
	file := filepath.Join(t.TempDir(), "token")
	fresh := func(lasts time.Duration) {
		token := testenv.KafkaToken("bridge", testenv.KafkaScope, time.Now().Add(lasts))
		if err := renameInto(file, token+"\n"); err != nil {
			t.Error(err)
		}
	}
	fresh(-time.Minute)
	e := secured("secured").With(world.Env{
		"BRIDGE_SOURCE_URL": table.URL, "BRIDGE_SINK_URL": "kafka://" + server.OAuthBrokers()[0], "BRIDGE_DELIVERY": "exactly-once",
		"BRIDGE_CHECKPOINT_URL": "bus://" + t.TempDir(), "BRIDGE_STANDBY": "tokens", "BRIDGE_HTTP_TOKEN": "0123456789abcdef",
		"BRIDGE_KAFKA_SASL_MECHANISM": "OAUTHBEARER", "BRIDGE_KAFKA_SASL_TOKEN_FILE": file,
	})
	mustFind(t, e, "unsafe", "sink-login second-precision", "invalid_token", "the token expired at", "base64 -d")
	d := world.NewDaemon(t, world.Binary(t, false), e)
	d.Start()
	refused(t, d, "the token expired at")
	stop := every(time.Second, func() { fresh(time.Minute) })
	t.Cleanup(func() { stop() })
	rowArrives(t, d, table)
	stop()
	rows := 1
	stop = every(200*time.Millisecond, func() { fresh(testenv.KafkaSession) })
	for begin := time.Now(); time.Since(begin) < 3*testenv.KafkaSession; rows++ {
		rowArrives(t, d, table)
	}
	stop()
	stop = every(time.Second, func() { fresh(time.Minute) })
	if r := world.Verify(t, e); len(r.Faults()) > 0 {
		t.Errorf("verify finds %v", r.Faults())
	}
	if r := runCheck(t, e); len(r.find("sink-login"))+len(r.find("standby-grant")) > 0 {
		t.Errorf("check finds %v", r.findings())
	}
	if log := d.Log.String(); strings.Contains(log, "eyJ") {
		t.Errorf("a token is shown:\n%s", log)
	}
	t.Logf("%d rows, %d outages of Kafka", rows, strings.Count(d.Log.String(), "outage begins"))
}
