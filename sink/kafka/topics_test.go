package kafka_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/sink"
	"example.org/bridge/sink/kafka"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// incarnation returns the topic's id as a reader is told it.
func incarnation(t *testing.T, s *kafka.Sink, topic string) string {
	t.Helper()
	tps, err := s.TPs(sinktest.Deadline(t), []string{topic})
	if err != nil || len(tps) == 0 || tps[0].Incarnation == "" {
		t.Fatalf("TPs %+v, %v", tps, err)
	}
	return tps[0].Incarnation
}

// TestATopicThatIsCreatedAgain has another id in outcomes once the topic was looked at, which is
// not at every batch, and is another session.
func TestATopicThatIsCreatedAgain(t *testing.T) {
	c := fake(t, kfake.SeedTopics(1, "t"))
	sessions := make(chan string, 10)
	s := open(t, kafka.Options{Connection: at(c.ListenAddrs()), Session: func(tp string) { sessions <- tp }})
	former := incarnation(t, s, "t")
	sinktest.MustPublish(t, s, series("t", "before", 0, 10, 4))
	remake(t, c, "t", 1)
	// What lies behind the others' messages shows that somebody has written there.
	sinktest.MustPublish(t, open(t, kafka.Options{Connection: at(c.ListenAddrs())}), series("t", "other", 0, 30, 4))
	now := incarnation(t, s, "t")
	for round, want := range []string{former, now} {
		kafka.AgeTopics(s)
		out := sinktest.MustPublish(t, s, series("t", "k", round, 1, 1))
		if ref := (sink.TPRef{Name: "t/0", Incarnation: want}); len(out.TPs) != 1 || out.TPs[0] != ref {
			t.Errorf("batch %d: the TPs are %+v, want %+v", round, out.TPs, ref)
		}
	}
	if tp := <-sessions; former == now || tp != "t/0" || len(sessions) != 0 {
		t.Errorf("a session with %s, and %d others, on a topic that was %s and is %s", tp, len(sessions), former, now)
	}
}

func remake(t *testing.T, c *kfake.Cluster, name string, partitions int32) {
	t.Helper()
	must.OK(t, c.DeleteTopic(name))
	must.OK(t, c.CreateTopic(name, partitions, nil))
}

// TestATopicThatComesBackWithFewerPartitions is waited for, and takes what was for the others.
func TestATopicThatComesBackWithFewerPartitions(t *testing.T) {
	c := fake(t, kfake.SeedTopics(4, "t"))
	s := open(t, kafka.Options{Connection: at(c.ListenAddrs())})
	sinktest.MustPublish(t, s, series("t", "before", 0, 40, 8))
	must.OK(t, c.DeleteTopic("t"))
	sent := series("t", "k", 0, 40, 8)
	done := sinktest.Publishing(sinktest.Deadline(t), s, sent)
	sinktest.Until(t, "Ready names the topic", func() bool {
		err := s.Ready(sinktest.Deadline(t))
		return err != nil && strings.Contains(err.Error(), "topic t does not exist")
	})
	must.OK(t, c.CreateTopic("t", 1, nil))
	must.OK(t, <-done)
	compare(t, sent, consume(t, "t", c.ListenAddrs()))
}

// TestABrokerThatIsCutOff answers as it did before another one was elected leader: nobody waits for
// it, and the partition has lost nothing that it does not have.
func TestABrokerThatIsCutOff(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(1, "t"))
	s := openQuiet(t, kafka.Options{Connection: at(c.ListenAddrs())})
	sinktest.MustPublish(t, s, series("t", "before", 0, 10, 2))
	was, cut := leaders(t, c, "t"), c.LeaderFor("t", 0)
	must.OK(t, c.MoveTopicPartition("t", 0, (cut+1)%3))
	ends := func(want uint64) {
		t.Helper()
		tps, err := s.TPs(sinktest.Deadline(t), []string{"t"})
		if err != nil || len(tps) != 1 || tps[0].End != want {
			t.Fatalf("TPs %+v, %v: the end is not %d", tps, err, want)
		}
	}
	ends(10)
	var restored atomic.Bool
	for key, answer := range map[kmsg.Key]func(kmsg.Request) kmsg.Response{
		kmsg.Metadata: func(r kmsg.Request) kmsg.Response {
			a := *was
			a.Version = r.GetVersion()
			return &a
		},
		kmsg.Produce: func(r kmsg.Request) kmsg.Response {
			a := r.ResponseKind().(*kmsg.ProduceResponse)
			a.Topics = []kmsg.ProduceResponseTopic{{Topic: "t", Partitions: []kmsg.ProduceResponseTopicPartition{{ErrorCode: kerr.RequestTimedOut.Code}}}}
			return a
		},
		kmsg.ListOffsets: func(r kmsg.Request) kmsg.Response {
			asked := r.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0]
			p := kmsg.ListOffsetsResponseTopicPartition{Offset: 10}
			if asked.CurrentLeaderEpoch > was.Topics[0].Partitions[0].LeaderEpoch {
				p.ErrorCode = kerr.UnknownLeaderEpoch.Code
			}
			a := r.ResponseKind().(*kmsg.ListOffsetsResponse)
			a.Topics = []kmsg.ListOffsetsResponseTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsResponseTopicPartition{p}}}
			return a
		},
	} {
		c.ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			if c.CurrentNode() != cut && !restored.Load() {
				return nil, nil, false
			}
			return answer(r), nil, true
		})
	}
	for round := range 20 {
		// Any broker tells of the others.
		kafka.Cut(s)
		sinktest.MustPublish(t, s, series("t", "behind", round, 1, 1))
		ends(uint64(11 + round))
	}
	// Where all say the same they are right.
	restored.Store(true)
	ends(10)
}

// TestAPartitionWithoutALeader is waited for by name, over the connections that there are.
func TestAPartitionWithoutALeader(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(2, "t"))
	var log faultLog
	s := open(t, kafka.Options{Connection: at(c.ListenAddrs()), Fault: log.add})
	sinktest.MustPublish(t, s, series("t", "k", 0, 40, 20))
	led := leaders(t, c, "t")
	var connections atomic.Int64
	c.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		a := *led
		a.Version = r.GetVersion()
		a.Topics = slices.Clone(led.Topics)
		a.Topics[0].Partitions = slices.Clone(led.Topics[0].Partitions)
		for i := range a.Topics[0].Partitions {
			if p := &a.Topics[0].Partitions[i]; p.Partition == 1 {
				p.Leader = -1
			}
		}
		if len(r.(*kmsg.MetadataRequest).Topics) == 0 {
			connections.Add(1)
		}
		return &a, nil, true
	})
	kafka.Cut(s)
	ctx, cancel := context.WithCancel(sinktest.Deadline(t))
	var waiting sync.WaitGroup
	waiting.Go(func() { _, _ = s.TPs(ctx, []string{"t"}) })
	waiting.Go(func() { _, _ = s.Read(ctx, sink.Span{TP: "t/1", To: 1}, func(*sink.Stored) error { return nil }) })
	sinktest.Until(t, "both have tried again and again", func() bool { return log.count() > 12 })
	cancel()
	waiting.Wait()
	if n := connections.Load(); n > 8 || log.at("t") == nil || log.at("t/1") == nil {
		t.Errorf("%d connections and %v", n, log.faults)
	}
	must.Fail(t, log.at("t"), "t/1", "leader")
}

// leaders is what brokers tell now of a topic.
func leaders(t *testing.T, c *kfake.Cluster, topic string) *kmsg.MetadataResponse {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	return must.Get(req.RequestWith(sinktest.Deadline(t), newClient(t, c.ListenAddrs())))(t)
}

// TestBrokersOfTheConfigurationThatAreAway are not needed once the others are known.
func TestBrokersOfTheConfigurationThatAreAway(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.SeedTopics(3, "t"))
	for p := range int32(3) {
		must.OK(t, c.MoveTopicPartition("t", p, p))
	}
	s := openQuiet(t, kafka.Options{Connection: at(c.ListenAddrs()[:1])})
	sent := series("t", "before", 0, 60, 20)
	sinktest.MustPublish(t, s, sent)
	must.OK(t, c.RemoveNode(0))
	kafka.Cut(s)
	more := series("t", "behind", 0, 60, 20)
	sinktest.MustPublish(t, s, more)
	compare(t, append(sent, more...), consume(t, "t", c.ListenAddrs()))
}

// TestEachPartitionHasAFirstMessage: a member of a group that has one partition reads there
// what the messages of a batch have in common, and no message of it says it twice.
func TestEachPartitionHasAFirstMessage(t *testing.T) {
	const partitions = 4
	c := fake(t, kfake.SeedTopics(partitions, "t"))
	s := open(t, kafka.Options{Connection: at(c.ListenAddrs())})
	batch := series("t", "key", 0, 200, 50)
	for i := range batch {
		batch[i].Value, batch[i].Schema, batch[i].Version, batch[i].Server, batch[i].State.Index = []byte("{}"), "0123456789ab", "1.0.0", "0 db/shop", uint32(i)
	}
	sinktest.MustPublish(t, s, batch)
	met := make(map[int32]int)
	for _, r := range consume(t, "t", c.ListenAddrs()) {
		for _, h := range r.Headers {
			if h.Key != sink.HeaderSchema && h.Key != sink.HeaderServer && h.Key != sink.HeaderVersion {
				continue
			}
			if met[r.Partition]++; r.Offset != 0 {
				t.Errorf("offset %d of partition %d has the header %s", r.Offset, r.Partition, h.Key)
			}
		}
	}
	for p := range int32(partitions) {
		if met[p] != 3 {
			t.Errorf("the first message of partition %d has %d of 3 headers", p, met[p])
		}
	}
}

func TestWhetherATopicIsCompacted(t *testing.T) {
	t.Parallel()
	t.Run("by its cleanup.policy, once the topic is there", func(t *testing.T) {
		t.Parallel()
		k := testenv.Kafka(t)
		missing := make(chan string, 100)
		s := open(t, kafka.Options{Connection: at(k.Brokers()), Fault: func(_ string, err error) {
			select {
			case missing <- err.Error():
			default:
			}
		}})
		for topic, policy := range map[string]string{"compaction-no": "delete", "compaction-yes": "compact", "compaction-both": "compact,delete"} {
			found := make(chan bool, 1)
			go func() {
				compaction, err := s.Compaction(sinktest.Deadline(t), topic)
				if compaction.Tombstones != 90*time.Second || err != nil {
					t.Errorf("of %s: %+v, %v", topic, compaction, err)
				}
				found <- compaction.On && err == nil
			}()
			for !strings.Contains(<-missing, topic+" does not exist") {
				// It is that of the topic before.
			}
			stay := "90000"
			k.CreateTopic(t, topic, 1, map[string]*string{"cleanup.policy": &policy, "delete.retention.ms": &stay})
			if got := <-found; got != strings.Contains(policy, "compact") {
				t.Errorf("%s is compacted: %t", policy, got)
			}
		}
	})
	for _, answer := range []*kerr.Error{
		kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SecurityDisabled, kerr.InvalidRequest, kerr.UnsupportedVersion,
	} {
		t.Run("a login that may not ask is told so, by "+answer.Message, func(t *testing.T) {
			t.Parallel()
			c := fake(t, kfake.SeedTopics(1, "t"))
			requests := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Observe: true, Count: -1})
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Resource: "t", Err: answer, Count: -1})
			s := open(t, kafka.Options{Connection: at(c.ListenAddrs()), Topics: []string{"t"}, Asked: []string{"t"}})
			var asking sync.WaitGroup
			for range 200 {
				asking.Go(func() { _, _ = s.Compaction(sinktest.Deadline(t), "t") })
			}
			// One that is not answered holds up those that it is for alone.
			if asking.Wait(); requests.Hits() > 50 {
				t.Errorf("%d requests for 200 topics", requests.Hits())
			}
			hidden, err := s.Compaction(sinktest.Deadline(t), "t")
			if hidden != (sink.Compaction{Tombstones: 24 * time.Hour}) {
				t.Errorf("got %+v", hidden)
			}
			must.Fail(t, err, sink.ErrHidden, "DESCRIBE_CONFIGS on topic t")
			r := s.Inspect(sinktest.Deadline(t))
			found := false
			for _, f := range r.Findings {
				found = found || f.Code == "topic-hidden" && strings.Contains(f.Do, "KAFKA_TOMBSTONES") && strings.Contains(f.Statement, "DescribeConfigs")
			}
			if !found {
				t.Errorf("the findings are %+v", r.Findings)
			}
		})
	}
	t.Run("topics have an order", func(t *testing.T) {
		t.Parallel()
		at := at(fake(t, kfake.SeedTopics(1, "e", "c", "a", "d", "b")).ListenAddrs())
		r := open(t, kafka.Options{Connection: at, Topics: []string{"y", "e", "x", "c", "a", "d", "w", "b", "z"}}).Inspect(sinktest.Deadline(t))
		var missing []string
		for _, f := range r.Findings {
			missing = append(missing, f.Subject)
		}
		if !strings.HasSuffix(r.Summary, "c has 1 partition, d has 1 partition and 1 more") || !slices.IsSorted(missing) || len(missing) < 4 {
			t.Errorf("%s, and %q", r.Summary, missing)
		}
	})
	t.Run("a reader gives up on a topic that does not come", func(t *testing.T) {
		t.Parallel()
		c := fake(t)
		s := open(t, kafka.Options{Connection: kafka.Connection{Brokers: c.ListenAddrs(), GiveUpAfter: 50 * time.Millisecond}})
		must.Fail(t, must.Err(s.Compaction(sinktest.Deadline(t), "missing")), "missing does not exist")
	})
}

func TestARecordWithoutAKeyIsRejectedByACompactedTopic(t *testing.T) {
	t.Parallel()
	k := testenv.Kafka(t)
	policy := "compact"
	k.CreateTopic(t, "compacted", 1, map[string]*string{"cleanup.policy": &policy})
	s := open(t, kafka.Options{Connection: at(k.Brokers())})
	batch := series("compacted", "k", 0, 9, 3)
	batch[4].Key = nil
	out, err := s.Publish(sinktest.Deadline(t), batch)
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
	sinktest.MustPublish(t, s, sent)
	k.AddPartitions(t, "changing", 4)
	more := series("changing", "second", 0, 100, 20)
	sinktest.MustPublish(t, s, more)
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
		for _, f := range s.Inspect(sinktest.Deadline(t)).Findings {
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
	go func() { fenced <- s.Fence(sinktest.Deadline(t)) }()
	sinktest.Until(t, "the sink says what is missing", func() bool {
		err := log.at("kafka")
		return err != nil && strings.Contains(err.Error(), "grant WRITE and DESCRIBE on transactional id bridge.rights")
	})
	allowTransactions(t, k, "bridge.rights")
	must.OK(t, <-fenced)
	if got := found(); len(got) != 0 {
		t.Errorf("found %+v", got)
	}
	if state := stateOf(t, k, "bridge.rights"); state != "Empty" {
		t.Errorf("the state is %s", state)
	}
	must.OK(t, s.Fence(sinktest.Deadline(t)))
}

// allowTransactions lets testenv.KafkaUser use a transactional id.
func allowTransactions(t *testing.T, k *testenv.KafkaServer, id string) {
	t.Helper()
	client := newClient(t, k.Brokers())
	req := kmsg.NewPtrCreateACLsRequest()
	for _, operation := range []kmsg.ACLOperation{kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe} {
		acl := kmsg.NewCreateACLsRequestCreation()
		acl.ResourceType, acl.ResourceName, acl.ResourcePatternType = kmsg.ACLResourceTypeTransactionalId, id, kmsg.ACLResourcePatternTypeLiteral
		acl.Principal, acl.Host, acl.Operation, acl.PermissionType = "User:"+testenv.KafkaUser, "*", operation, kmsg.ACLPermissionTypeAllow
		req.Creations = append(req.Creations, acl)
	}
	res := must.Get(req.RequestWith(sinktest.Deadline(t), client))(t)
	for _, r := range res.Results {
		must.OK(t, kerr.ErrorForCode(r.ErrorCode))
	}
}
