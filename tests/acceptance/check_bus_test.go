package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/world"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

func TestCheckFindsWhatIsWrongWithABus(t *testing.T) {
	testall.Beside(t)
	server := testenv.MariaDB(t)
	t.Run("Kafka without the topic", func(t *testing.T) {
		t.Parallel()
		b := world.KafkaBus(testenv.Kafka(t))
		table, e := shop(t, server)
		name := table.Name + "_topic"
		e = e.With(b.Env()).With(world.Env{"BRIDGE_STREAM_ORDERS_DESTINATION": name, "BRIDGE_DEAD_LETTER": name + "_dead"})
		if r := runCheck(t, e); len(r.find("no-topic")) != 2 || len(r.findings()) != 2 || !strings.Contains(r.find("no-topic")[0].Statement, "--create --topic "+name) {
			t.Errorf("found %+v", r.findings())
		}
		size, cleanup := "1000", "compact,delete"
		b.Kafka.CreateTopic(t, name, 3, map[string]*string{"max.message.bytes": &size, "cleanup.policy": &cleanup})
		b.Kafka.CreateTopic(t, name+"_dead", 1, nil)
		r := runCheck(t, e)
		if len(r.find("topic-message-size")) != 1 || len(r.find("topic-compacted")) != 1 || r.Severity != "note" {
			t.Errorf("found %+v", r.findings())
		}
		if got := r.summary("sink"); !strings.Contains(got, name+" has 3 partitions") {
			t.Errorf("the sink is summed up as %q", got)
		}
	})
	t.Run("NATS without the stream", func(t *testing.T) {
		t.Parallel()
		b := world.NATSBus(testenv.NATS(t))
		table, e := shop(t, server)
		subjects := table.Name + ".{type}"
		e = e.With(b.Env()).With(world.Env{"BRIDGE_STREAM_ORDERS_DESTINATION": subjects})
		mustFind(t, e, "unsafe", "no-stream", table.Name+".OrdersDeletedEvent", "nats --server", "--subjects '"+table.Name+".*'")
		named := e.With(world.Env{"BRIDGE_NATS_STREAM": table.Name})
		mustFind(t, named, "unsafe", "no-stream", table.Name, "BRIDGE_NATS_CREATE_STREAM")
		mustBeSilent(t, named.With(world.Env{"BRIDGE_NATS_CREATE_STREAM": "true"}))

		config := jetstream.StreamConfig{Name: table.Name, Subjects: []string{table.Name + ".other"}, Storage: jetstream.FileStorage, Duplicates: 2 * time.Minute}
		stream := b.NATS.CreateStream(t, config)
		mustFind(t, named, "unsafe", "stream-subject", table.Name+".OrdersModifiedEvent")
		config.Subjects = []string{table.Name + ".OrdersAddedEvent", table.Name + ".OrdersModifiedEvent"}
		update(t, b, config)
		if r := runCheck(t, named); len(r.find("stream-subject")) != 1 || !strings.Contains(r.find("stream-subject")[0].What, "OrdersDeletedEvent") {
			t.Errorf("found %+v", r.findings())
		}
		config.Subjects = append(config.Subjects, table.Name+".OrdersDeletedEvent")
		update(t, b, config)
		mustBeSilent(t, named)
		keyed := named.With(world.Env{"BRIDGE_STREAM_ORDERS_DESTINATION": table.Name + ".{key}"})
		mustFind(t, keyed, "warning", "stream-subject", "only a part")
		config.Subjects, config.Duplicates, config.MaxMsgs, config.MaxMsgSize = []string{table.Name + ".>"}, 30*time.Second, 10, 500
		update(t, b, config)
		r := runCheck(t, e)
		for _, code := range []string{"stream-duplicates", "stream-discards", "stream-message-size"} {
			if f := r.find(code); len(f) != 1 || f[0].Severity != "note" {
				t.Errorf("%s: found %+v", code, r.findings())
			}
		}
		if n := stream.CachedInfo().State.Msgs; n != 0 || b.Count(t, table.Name) != 0 {
			t.Error("the check published something")
		}
	})
	t.Run("NATS with a stream in memory", func(t *testing.T) {
		t.Parallel()
		b := world.NATSBus(testenv.NATS(t))
		table, e := shop(t, server)
		b.NATS.CreateStream(t, jetstream.StreamConfig{Name: table.Name, Storage: jetstream.MemoryStorage, Duplicates: 2 * time.Minute})
		mustFind(t, e.With(b.Env()).With(world.Env{"BRIDGE_STREAM_ORDERS_DESTINATION": table.Name + ".{type}"}), "note", "stream-storage")
	})
	t.Run("NATS with a wrong password", func(t *testing.T) {
		t.Parallel()
		nats := testenv.StartNATS(t, testenv.NATSPassword("bridge", "right-secret"))
		_, e := shop(t, server)
		f := mustFind(t, e.With(world.Env{"BRIDGE_SINK_URL": "nats://bridge:wrong-secret@" + nats.Addr()}), "unsafe", "sink-login")
		if strings.Contains(fmt.Sprint(f), "wrong-secret") {
			t.Errorf("the password is printed: %+v", f)
		}
	})
}

// allow lets the user of a broker with SASL do something with a topic or a group.
func allow(t *testing.T, kafka *testenv.KafkaServer, operation kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Brokers()...))
	check(t, err)
	defer client.Close()
	grant := kmsg.NewCreateACLsRequestCreation()
	grant.ResourceType, grant.ResourceName, grant.ResourcePatternType = kind, name, kmsg.ACLResourcePatternTypeLiteral
	grant.Principal, grant.Host = "User:"+testenv.KafkaUser, "*"
	grant.Operation, grant.PermissionType = operation, kmsg.ACLPermissionTypeAllow
	request := kmsg.NewPtrCreateACLsRequest()
	request.Creations = append(request.Creations, grant)
	response, err := request.RequestWith(t.Context(), client)
	if err == nil {
		err = kerr.ErrorForCode(response.Results[0].ErrorCode)
	}
	check(t, err)
}

func update(t *testing.T, b *world.Bus, config jetstream.StreamConfig) {
	t.Helper()
	if _, err := b.NATS.JetStream(t).UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}
