package acceptance

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/world"
)

// TestAStandbyWithoutItsRights is named by the check, with the command, and by a process that waits
// for them.
func TestAStandbyWithoutItsRights(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	kafka := testenv.StartKafka(t, testenv.KafkaOptions{SASL: true, Config: map[string]string{
		"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:ANONYMOUS",
	}})
	_, e := shop(t, testenv.MariaDB(t))
	e = e.With(world.Env{
		"BRIDGE_SINK_URL": "kafka://" + strings.Join(kafka.SASLBrokers(), ","), "BRIDGE_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
		"BRIDGE_KAFKA_SASL_USERNAME": testenv.KafkaUser, "BRIDGE_KAFKA_SASL_PASSWORD": testenv.KafkaPassword, "BRIDGE_STANDBY": "rights", "BRIDGE_HTTP_TOKEN": "0123456789abcdef",
		"BRIDGE_KAFKA_TOMBSTONES": "off", // which needs no right to see the topic's configuration
	})
	kafka.CreateTopic(t, "orders", 1, nil)
	for _, operation := range []kmsg.ACLOperation{kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe} {
		allow(t, kafka, operation, "orders")
	}
	mustFind(t, e, "unsafe", "standby-grant", "cannot be joined", "grant READ on group bridge-standby.rights.0", "--operation Read --group bridge-standby.rights.0")
	d := world.NewDaemon(t, world.Binary(t, false), e)
	d.Start()
	world.Eventually(t, time.Minute, "the process names what is missing", func() bool {
		code, why := d.Get("/readyz")
		return code == 503 && strings.Contains(why, "grant READ on group bridge-standby.rights.0")
	})
	allowOn(t, kafka, kmsg.ACLOperationRead, kmsg.ACLResourceTypeGroup, "bridge-standby.rights.0")
	world.AwaitReady(t, d)
	d.Kill()
	mustBeSilent(t, e)
}
