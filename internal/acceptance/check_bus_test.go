package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"bridge/internal/testenv"
)

func TestCheckFindsWhatIsWrongWithABus(t *testing.T) {
	server := testenv.MariaDB(t)
	t.Run("Kafka without the topic", func(t *testing.T) {
		b := kafkaBus{testenv.Kafka(t)}
		table, e := shop(t, server)
		name := table.name + "_topic"
		e = e.with(b.env()).with(env{"BRIDGE_STREAM_ORDERS_DESTINATION": name, "BRIDGE_DEAD_LETTER": name + "_dead"})
		if r := check(t, e); len(r.find("no-topic")) != 2 || len(r.findings()) != 2 || !strings.Contains(r.find("no-topic")[0].Statement, "--create --topic "+name) {
			t.Errorf("found %+v", r.findings())
		}
		size, cleanup := "1000", "compact,delete"
		b.server.CreateTopic(t, name, 3, map[string]*string{"max.message.bytes": &size, "cleanup.policy": &cleanup})
		b.server.CreateTopic(t, name+"_dead", 1, nil)
		r := check(t, e)
		if len(r.find("topic-message-size")) != 1 || len(r.find("topic-compacted")) != 1 || r.Severity != "note" {
			t.Errorf("found %+v", r.findings())
		}
		if got := r.summary("sink"); !strings.Contains(got, name+" has 3 partitions") {
			t.Errorf("the sink is summed up as %q", got)
		}
	})
	t.Run("Kafka with a wrong password, and without the right to write", func(t *testing.T) {
		kafka := testenv.StartKafka(t, testenv.KafkaOptions{SASL: true, Config: map[string]string{
			"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"super.users":           "User:ANONYMOUS",
		}})
		_, e := shop(t, server)
		e = e.with(env{
			"BRIDGE_SINK_URL": "kafka://" + strings.Join(kafka.SASLBrokers(), ","), "BRIDGE_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
			"BRIDGE_KAFKA_SASL_USERNAME": testenv.KafkaUser, "BRIDGE_KAFKA_SASL_PASSWORD": "wrong-secret",
		})
		mustFind(t, e, "unsafe", "sink-login")
		e["BRIDGE_KAFKA_SASL_PASSWORD"] = testenv.KafkaPassword
		kafka.CreateTopic(t, "orders", 1, nil)
		mustFind(t, e, "unsafe", "topic-grant", "may not be described", "--operation Write --operation Describe --topic orders")
		allow(t, kafka, kmsg.ACLOperationDescribe, "orders")
		mustFind(t, e, "unsafe", "topic-grant", "may not be written to")
		allow(t, kafka, kmsg.ACLOperationWrite, "orders")
		if got := mustBeSilent(t, e).summary("sink"); !strings.Contains(got, "DESCRIBE_CONFIGS") {
			t.Errorf("the sink is summed up as %q", got)
		}
	})
	t.Run("NATS without the stream", func(t *testing.T) {
		b := natsBus{testenv.NATS(t)}
		table, e := shop(t, server)
		subjects := table.name + ".{type}"
		e = e.with(b.env()).with(env{"BRIDGE_STREAM_ORDERS_DESTINATION": subjects})
		mustFind(t, e, "unsafe", "no-stream", table.name+".OrdersDeletedEvent", "nats --server", "--subjects '"+table.name+".*'")
		named := e.with(env{"BRIDGE_NATS_STREAM": table.name})
		mustFind(t, named, "unsafe", "no-stream", table.name, "BRIDGE_NATS_CREATE_STREAM")
		mustBeSilent(t, named.with(env{"BRIDGE_NATS_CREATE_STREAM": "true"}))

		config := jetstream.StreamConfig{Name: table.name, Subjects: []string{table.name + ".other"}, Storage: jetstream.FileStorage, Duplicates: 2 * time.Minute}
		stream := b.server.CreateStream(t, config)
		mustFind(t, named, "unsafe", "stream-subject", table.name+".OrdersModifiedEvent")
		config.Subjects = []string{table.name + ".OrdersAddedEvent", table.name + ".OrdersModifiedEvent"}
		update(t, b, config)
		if r := check(t, named); len(r.find("stream-subject")) != 1 || !strings.Contains(r.find("stream-subject")[0].What, "OrdersDeletedEvent") {
			t.Errorf("found %+v", r.findings())
		}
		config.Subjects = append(config.Subjects, table.name+".OrdersDeletedEvent")
		update(t, b, config)
		mustBeSilent(t, named)
		keyed := named.with(env{"BRIDGE_STREAM_ORDERS_DESTINATION": table.name + ".{key}"})
		mustFind(t, keyed, "warning", "stream-subject", "only a part")
		config.Subjects, config.Duplicates, config.MaxMsgs, config.MaxMsgSize = []string{table.name + ".>"}, 30*time.Second, 10, 500
		update(t, b, config)
		r := check(t, e)
		for _, code := range []string{"stream-duplicates", "stream-discards", "stream-message-size"} {
			if f := r.find(code); len(f) != 1 || f[0].Severity != "note" {
				t.Errorf("%s: found %+v", code, r.findings())
			}
		}
		if n := stream.CachedInfo().State.Msgs; n != 0 || b.count(t, table.name) != 0 {
			t.Error("the check published something")
		}
	})
	t.Run("NATS with a stream in memory", func(t *testing.T) {
		b := natsBus{testenv.NATS(t)}
		table, e := shop(t, server)
		b.server.CreateStream(t, jetstream.StreamConfig{Name: table.name, Storage: jetstream.MemoryStorage, Duplicates: 2 * time.Minute})
		mustFind(t, e.with(b.env()).with(env{"BRIDGE_STREAM_ORDERS_DESTINATION": table.name + ".{type}"}), "note", "stream-storage")
	})
	t.Run("NATS with a wrong password", func(t *testing.T) {
		nats := testenv.StartNATS(t, testenv.NATSPassword("bridge", "right-secret"))
		_, e := shop(t, server)
		f := mustFind(t, e.with(env{"BRIDGE_SINK_URL": "nats://bridge:wrong-secret@" + nats.Addr()}), "unsafe", "sink-login")
		if strings.Contains(fmt.Sprint(f), "wrong-secret") {
			t.Errorf("the password is printed: %+v", f)
		}
	})
}

// allow lets the user of a broker with SASL do something with a topic.
func allow(t *testing.T, kafka *testenv.KafkaServer, operation kmsg.ACLOperation, topic string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Brokers()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	grant := kmsg.NewCreateACLsRequestCreation()
	grant.ResourceType, grant.ResourceName, grant.ResourcePatternType = kmsg.ACLResourceTypeTopic, topic, kmsg.ACLResourcePatternTypeLiteral
	grant.Principal, grant.Host = "User:"+testenv.KafkaUser, "*"
	grant.Operation, grant.PermissionType = operation, kmsg.ACLPermissionTypeAllow
	request := kmsg.NewPtrCreateACLsRequest()
	request.Creations = append(request.Creations, grant)
	response, err := request.RequestWith(t.Context(), client)
	if err == nil {
		err = kerr.ErrorForCode(response.Results[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func update(t *testing.T, b natsBus, config jetstream.StreamConfig) {
	t.Helper()
	if _, err := b.server.JetStream(t).UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}
