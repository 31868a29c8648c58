package kafka_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/sink"
	"example.org/bridge/sink/kafka"
	"example.org/bridge/tests/testenv"
)

func TestALargeRecordIsRejectedAndSmallerOnesAreSplit(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	limit := "20000"
	k.CreateTopic(t, "narrow", 2, map[string]*string{"max.message.bytes": &limit})
	s := open(t, kafka.Options{Connection: at(k.Brokers()), Compression: kafka.LZ4})
	sent := series("narrow", "k", 0, 400, 5)
	for i := range sent {
		sent[i].Value = randomBytes(1000)
	}
	publish(t, s, sent)
	bad := message("narrow", "k+0", 400, 0)
	bad.Value = randomBytes(30_000)
	behind := message("narrow", "k+0", 401, 100)
	out, err := s.Publish(deadline(t), []sink.Message{bad, behind})
	if err != nil || out.Status[0] != sink.Rejected || out.Status[1] != sink.Pending {
		t.Fatalf("outcome %+v, %v", out, err)
	}
	if reason := out.Rejected[0].Reason; !strings.Contains(reason, "max.message.bytes") || !strings.Contains(reason, "30") {
		t.Errorf("reason: %s", reason)
	}
	publish(t, s, []sink.Message{behind})
	if n := compare(t, append(sent, behind), consume(t, "narrow", k.Brokers())); n != 0 {
		t.Errorf("%d repeats", n)
	}
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

func TestARecordWithoutAKeyIsRejectedByACompactedTopic(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	policy := "compact"
	k.CreateTopic(t, "compacted", 1, map[string]*string{"cleanup.policy": &policy})
	s := open(t, kafka.Options{Connection: at(k.Brokers())})
	batch := series("compacted", "k", 0, 9, 3)
	batch[4].Key = nil
	out, err := s.Publish(deadline(t), batch)
	if err != nil || out.Acked() != 4 || len(out.Rejected) != 1 || out.Rejected[0].Index != 4 {
		t.Errorf("outcome %+v, %v", out, err)
	}
}

func TestAChangedNumberOfPartitionsLosesNothing(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	k.CreateTopic(t, "changing", 2, nil)
	s := open(t, kafka.Options{Connection: at(k.Brokers())})
	sent := series("changing", "first", 0, 100, 20)
	publish(t, s, sent)
	k.AddPartitions(t, "changing", 4)
	more := series("changing", "second", 0, 100, 20)
	publish(t, s, more)
	sent = append(sent, more...)
	compare(t, sent, consume(t, "changing", k.Brokers()))
}

// TestARightOnTheTransactionalID is missed by the check, which names the command and changes
// nothing, and waited for by the sink.
func TestARightOnTheTransactionalID(t *testing.T) {
	t.Parallel()
	k := testenv.StartKafka(t, testenv.KafkaOptions{SASL: true, Config: map[string]string{
		"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:ANONYMOUS",
	}})
	login := &kafka.SASL{Mechanism: kafka.ScramSHA512, Username: testenv.KafkaUser, Password: func() (string, error) { return testenv.KafkaPassword, nil }}
	var log faultLog
	s := open(t, kafka.Options{
		Connection:      kafka.Connection{Brokers: k.SASLBrokers(), SASL: login},
		TransactionalID: "bridge.rights", Fault: log.add,
	})
	found := func() (list []inspect.Finding) {
		for _, f := range s.Inspect(deadline(t)).Findings {
			if f.Code == inspect.TransactionGrant || f.Code == inspect.NoTransactions {
				list = append(list, f)
			}
		}
		return list
	}
	if got := found(); len(got) != 1 || !strings.Contains(got[0].Statement, "--operation Write --operation Describe --transactional-id bridge.rights") {
		t.Errorf("found %+v", got)
	}
	fenced := make(chan error, 1)
	go func() { fenced <- s.Fence(deadline(t)) }()
	until(t, "the sink says what is missing", func() bool {
		err := log.at("kafka")
		return err != nil && strings.Contains(err.Error(), "grant WRITE and DESCRIBE on transactional id bridge.rights")
	})
	allowTransactions(t, k, "bridge.rights")
	if err := <-fenced; err != nil {
		t.Fatal(err)
	}
	if got := found(); len(got) != 0 {
		t.Errorf("found %+v", got)
	}
	if state := stateOf(t, k, "bridge.rights"); state != "Empty" {
		t.Errorf("the state is %s", state)
	}
	if err := s.Fence(deadline(t)); err != nil {
		t.Errorf("the check has taken over: %v", err)
	}
}

// allowTransactions lets testenv.KafkaUser use a transactional id.
func allowTransactions(t *testing.T, k *testenv.KafkaServer, id string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Brokers()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	req := kmsg.NewPtrCreateACLsRequest()
	for _, operation := range []kmsg.ACLOperation{kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe} {
		acl := kmsg.NewCreateACLsRequestCreation()
		acl.ResourceType, acl.ResourceName, acl.ResourcePatternType = kmsg.ACLResourceTypeTransactionalId, id, kmsg.ACLResourcePatternTypeLiteral
		acl.Principal, acl.Host, acl.Operation, acl.PermissionType = "User:"+testenv.KafkaUser, "*", operation, kmsg.ACLPermissionTypeAllow
		req.Creations = append(req.Creations, acl)
	}
	res, err := req.RequestWith(deadline(t), client)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res.Results {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			t.Fatal(err)
		}
	}
}
