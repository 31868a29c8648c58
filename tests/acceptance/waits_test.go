package acceptance

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

// wait is a configuration with which bridge has to wait from its start on.
type wait struct {
	env world.Env
	// code is what bridge check finds; words are what log, status, readiness and check say.
	code  string
	words []string
	// publishes says that rows are on their way, so that a stop takes its time.
	publishes bool
}

// must fails the test unless log, status and readiness say what bridge waits for, and what to do,
// and unless bridge check has found it before.
func (w wait) must(t *testing.T) {
	t.Helper()
	has := func(text string) bool {
		for _, word := range w.words {
			if !strings.Contains(text, word) {
				return false
			}
		}
		return true
	}
	if f := runCheck(t, w.env).find(w.code); len(f) != 1 || f[0].Severity != "unsafe" || !has(f[0].Subject+" "+f[0].What+" "+f[0].Do+" "+f[0].Statement) {
		t.Errorf("check has found %+v, want %s with %q", f, w.code, w.words)
	}
	d := world.NewDaemon(t, world.Binary(t, false), w.env)
	d.Start()
	world.Eventually(t, time.Minute, "the log says what bridge waits for", func() bool { return len(outages(d)) > 0 })
	if lines := outages(d); len(lines) != 1 || !has(lines[0]) || !strings.Contains(lines[0], "bridge check says what to do") {
		t.Errorf("the log does not say %q once:\n%s", w.words, strings.Join(lines, ""))
	}
	if code, body := d.Get("/readyz"); code != http.StatusServiceUnavailable || !has(unquoted(body)) {
		t.Errorf("/readyz %d: %s", code, body)
	}
	code, body := d.Get("/api/v1/status")
	var status struct {
		Streams []struct {
			Shards []struct{ State, Reason, Remedy string }
		}
	}
	if err := json.Unmarshal([]byte(body), &status); err != nil || code != http.StatusOK {
		t.Fatalf("status %d, %v: %s", code, err, body)
	}
	if s := status.Streams[0].Shards[0]; s.State == "starting" && !has(s.Reason) || s.State != "running" && !strings.Contains(s.Remedy, "bridge check says more") || !has(unquoted(body)) {
		t.Errorf("%s: the status says %q, and to do: %q: %s", s.State, s.Reason, s.Remedy, body)
	}
	if said := types(t, d.Env, 0, "status"); !has(strings.Join(strings.Fields(said), " ")) {
		t.Errorf("bridge status: %s", said)
	}
	if w.publishes {
		stopTwice(t, d)
		return
	}
	if exit, took := d.Term(); exit != 0 || strings.Contains(d.Log.String(), "outage ended") {
		t.Errorf("exit status %d after %v, or the log says that the outage has ended:\n%s", exit, took, d.Log)
	}
}

func stopTwice(t *testing.T, d *world.Daemon) {
	t.Helper()
	d.Signal(syscall.SIGINT)
	world.Eventually(t, time.Minute, "it stops", func() bool { return strings.Contains(d.Log.String(), "Ctrl-C again stops at once") })
	d.Signal(syscall.SIGINT)
	if exit, log := d.Wait(), d.Log.String(); exit != 1 || !strings.Contains(log, "stopped at once by a second signal") || strings.Contains(log, "outage ended") {
		t.Errorf("exit status %d:\n%s", exit, log)
	}
}

func outages(d *world.Daemon) (lines []string) {
	for line := range strings.Lines(d.Log.String()) {
		if strings.Contains(line, `level=WARN msg="outage `) {
			lines = append(lines, line)
		}
	}
	return lines
}

func unquoted(body string) string { return strings.ReplaceAll(body, `\"`, `"`) }

func silent(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func portOf(address string) string { return address[strings.LastIndex(address, ":")+1:] }

func rude(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

func orders(t *testing.T) world.Env {
	t.Helper()
	e, insert := newShop(t)
	insert(1)
	return e
}

func TestWhatBridgeWaitsForHasAReason(t *testing.T) {
	testall.Beside(t)
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	certs := testenv.NewCerts(t)
	hangs := silent(t)
	kafka := testenv.StartKafka(t, testenv.KafkaOptions{SASL: true, TLS: &certs, Strays: []string{"kafka.invalid:9092", hangs}, Config: map[string]string{
		"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:ANONYMOUS",
	}})
	kafka.CreateTopic(t, "there", 1, nil)
	kafka.CreateTopic(t, "readable", 1, nil)
	allow(t, kafka, kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeTopic, "readable")
	allow(t, kafka, kmsg.ACLOperationRead, kmsg.ACLResourceTypeTopic, "readable")
	nats := testenv.NATS(t)
	login := world.Env{"BRIDGE_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512", "BRIDGE_KAFKA_SASL_USERNAME": testenv.KafkaUser, "BRIDGE_KAFKA_SASL_PASSWORD": testenv.KafkaPassword}
	on := func(brokers []string, topic string, more world.Env) world.Env {
		return orders(t).With(world.Env{"BRIDGE_SINK_URL": "kafka://" + strings.Join(brokers, ","), "BRIDGE_STREAM_ORDERS_DESTINATION": topic}).With(more)
	}
	full := jetstream.StreamConfig{Name: "FULL", Subjects: []string{"FULL"}, MaxMsgs: 1, Discard: jetstream.DiscardNew}
	nats.CreateStream(t, full)
	must.Get(nats.JetStream(t).Publish(t.Context(), full.Name, []byte("of somebody")))(t)
	onFull := orders(t).With(world.Env{"BRIDGE_SINK_URL": nats.URL(), "BRIDGE_STREAM_ORDERS_DESTINATION": full.Name})
	moved := jetstream.StreamConfig{Name: "MOVED", Subjects: []string{"MOVED.>"}, SubjectTransform: &jetstream.SubjectTransformConfig{Source: "MOVED.>", Destination: "out.>"}}
	nats.CreateStream(t, moved)
	onMoved := orders(t).With(world.Env{"BRIDGE_SINK_URL": nats.URL(), "BRIDGE_STREAM_ORDERS_DESTINATION": "MOVED.orders"})
	for what, w := range map[string]wait{
		"other subjects of a stream":      {onMoved, "stream-unusable", []string{"MOVED", "subject_transform"}, false},
		"a stream that is full":           {onFull, "stream-full", []string{"full", "refuses what is new (discard new)"}, true},
		"a topic that is missing":         {on(kafka.Brokers(), "missing", nil), "no-topic", []string{"topic missing", "does not exist", "create it"}, false},
		"a dead-letter topic likewise":    {on(kafka.Brokers(), "there", world.Env{"BRIDGE_DEAD_LETTER": "dead"}), "no-topic", []string{"topic dead", "does not exist", "create it"}, false},
		"a web server":                    {on([]string{web.Listener.Addr().String()}, "there", nil), "sink-unreachable", []string{web.Listener.Addr().String(), "BRIDGE_SINK_URL"}, false},
		"a proxy of the web":              {on([]string{rude(t)}, "there", nil), "sink-unreachable", []string{"is not Kafka", "HTTP/1.1 400", "correct BRIDGE_SINK_URL"}, false},
		"a server of NATS":                {on([]string{nats.Addr()}, "there", nil), "sink-unreachable", []string{"is not Kafka", `"INFO `, "correct BRIDGE_SINK_URL"}, false},
		"a listener that says nothing":    {on([]string{hangs}, "there", nil), "sink-unreachable", []string{hangs, "BRIDGE_SINK_URL"}, false},
		"a port that nobody listens on":   {on([]string{"127.0.0.1:1"}, "there", nil), "sink-unreachable", []string{"127.0.0.1:1", "connection refused"}, false},
		"a broker at an unknown name":     {on(kafka.StrayBrokers(0), "there", nil), "sink-unreachable", []string{"broker kafka.invalid:9092", "no such host", "advertised.listeners"}, false},
		"a broker at another address":     {on(kafka.StrayBrokers(1), "there", nil), "sink-unreachable", []string{"broker " + hangs, "does not answer", "advertised.listeners"}, false},
		"a wrong password":                {on(kafka.SASLBrokers(), "there", login.With(world.Env{"BRIDGE_KAFKA_SASL_PASSWORD": "wrong-secret"})), "sink-login", []string{"refused", "password"}, false},
		"no login where one is needed":    {on(kafka.SASLBrokers(), "there", nil), "sink-unreachable", []string{"closes the connection", "BRIDGE_KAFKA_SASL_MECHANISM"}, false},
		"a login where none is asked":     {on(kafka.Brokers(), "there", login), "sink-login", []string{"unset BRIDGE_KAFKA_SASL_MECHANISM"}, false},
		"no TLS where it is needed":       {on(kafka.TLSBrokers(), "there", nil), "sink-unreachable", []string{"TLS", "BRIDGE_KAFKA_TLS"}, false},
		"TLS where it is not spoken":      {on(kafka.Brokers(), "there", world.Env{"BRIDGE_KAFKA_TLS": "true"}), "sink-unreachable", []string{"TLS with broker", "BRIDGE_KAFKA_TLS"}, false},
		"a certificate of somebody":       {on(kafka.TLSBrokers(), "there", world.Env{"BRIDGE_KAFKA_TLS": "true", "BRIDGE_KAFKA_TLS_CA": certs.OtherCA}), "sink-unreachable", []string{"TLS with broker", "certificate", "BRIDGE_KAFKA_TLS_CA"}, false},
		"no right to describe the topic":  {on(kafka.SASLBrokers(), "there", login), "topic-grant", []string{"topic there"}, false},
		"no right to write to the topic":  {on(kafka.SASLBrokers(), "readable", login), "topic-grant", []string{"topic readable"}, true},
		"a topic for progress on the bus": {on(kafka.Brokers(), "there", world.Env{"BRIDGE_CHECKPOINT_URL": "bus://" + t.TempDir()}), "no-topic", []string{"topic bridge-progress", "does not exist", "create it"}, false},
		"a database that says nothing":    {on(kafka.Brokers(), "there", world.Env{"BRIDGE_SOURCE_URL": "mysql://u:hunter2-secret@" + hangs + "/db"}), "source-unreachable", []string{portOf(hangs), "BRIDGE_SOURCE_URL"}, false},
		"a database that is away":         {on(kafka.Brokers(), "there", world.Env{"BRIDGE_SOURCE_URL": "mysql://u:hunter2-secret@127.0.0.1:1/db"}), "source-unreachable", []string{"127.0.0.1:1", "connection refused"}, false},
		"another server as the database":  {on(kafka.Brokers(), "there", world.Env{"BRIDGE_SOURCE_URL": "mysql://u:hunter2-secret@" + nats.Addr() + "/db"}), "source-unreachable", []string{portOf(nats.Addr()), "BRIDGE_SOURCE_URL"}, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w.must(t)
		})
	}
	t.Run("one right after the other", func(t *testing.T) {
		t.Parallel()
		missesRights(t, kafka)
	})
}

// missesRights runs check, and a process of a standby group, against a broker that lets the login
// do nothing at first, and gives it one right after the other.
func missesRights(t *testing.T, kafka *testenv.KafkaServer) {
	_, e := shop(t, testenv.MariaDB(t))
	e = e.With(world.Env{
		"BRIDGE_SINK_URL": "kafka://" + strings.Join(kafka.SASLBrokers(), ","), "BRIDGE_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
		"BRIDGE_KAFKA_SASL_USERNAME": testenv.KafkaUser, "BRIDGE_KAFKA_SASL_PASSWORD": "wrong-secret",
		"BRIDGE_KAFKA_TOMBSTONES": "off",
	})
	mustFind(t, e, "unsafe", "sink-login")
	e["BRIDGE_KAFKA_SASL_PASSWORD"] = testenv.KafkaPassword
	kafka.CreateTopic(t, "orders", 1, nil)
	mustFind(t, e, "unsafe", "topic-grant", "may not be described", "--operation Read --operation Write --operation Describe --topic orders")
	allow(t, kafka, kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeTopic, "orders")
	mustFind(t, e, "unsafe", "topic-grant", "may not be written to")
	allow(t, kafka, kmsg.ACLOperationWrite, kmsg.ACLResourceTypeTopic, "orders")
	mustFind(t, e, "unsafe", "topic-unreadable", "may not be read", "--operation Read ")
	mustFind(t, e.With(world.Env{"BRIDGE_STREAM_ORDERS_KIND": "release", "BRIDGE_STREAM_ORDERS_DELETED": ""}), "warning", "topic-unreadable", "published again")
	allow(t, kafka, kmsg.ACLOperationRead, kmsg.ACLResourceTypeTopic, "orders")
	if got := mustBeSilent(t, e).summary("sink"); !strings.Contains(got, "DESCRIBE_CONFIGS") {
		t.Errorf("the sink is summed up as %q", got)
	}
	mustFind(t, e.With(world.Env{"BRIDGE_KAFKA_TOMBSTONES": "auto"}), "note", "topic-hidden", "cleanup.policy", "--operation DescribeConfigs --topic orders")

	// A standby needs a right on its group, which a process that waits for it names, too.
	e = e.With(world.Env{"BRIDGE_STANDBY": "rights", "BRIDGE_HTTP_TOKEN": "0123456789abcdef"})
	mustFind(t, e, "unsafe", "standby-grant", "cannot be joined", "grant READ on group bridge-standby.rights.0", "--operation Read --group bridge-standby.rights.0")
	d := world.NewDaemon(t, world.Binary(t, false), e)
	d.Start()
	refused(t, d, "grant READ on group bridge-standby.rights.0")
	allow(t, kafka, kmsg.ACLOperationRead, kmsg.ACLResourceTypeGroup, "bridge-standby.rights.0")
	world.AwaitReady(t, d)
	d.Kill()
	mustBeSilent(t, e)
}

// TestReadinessFollowsWhatStandsStill starts bridge while bus and database are away, and has each
// of them stand still later: /readyz says so, and /livez does not.
func TestReadinessFollowsWhatStandsStill(t *testing.T) {
	testall.Beside(t)
	world.EachOwnBus(t, func(t *testing.T, b *world.Bus) {
		server := testenv.StartMariaDB(t)
		w := newRows(t, server, workload.Options{})
		w.Fill("old", 2000, 1)
		p := w.Publish(b, world.Publishing{})
		server.Kill()
		b.Server().Kill()
		p.Start()
		world.AwaitUnready(t, p.Daemon)
		server.Start(t)
		world.Pause(time.Second)
		world.AwaitUnready(t, p.Daemon)
		b.Server().Start(t)
		arrives(p)
		// By its reason: without what notices a database that stands still, the time limit of a
		// statement would, 30 s later.
		for still, words := range map[world.Server]string{server: "has not answered within 3s", b.Server(): "sink"} {
			still.Pause()
			world.AwaitUnready(t, p.Daemon, words)
			if code, body := p.Get("/livez"); code != http.StatusOK {
				t.Errorf("/livez %d: %s", code, body)
			}
			still.Resume()
			world.AwaitReady(t, p.Daemon)
		}
		p.Ends()
		if n := p.MustMatch(world.Orders, world.Expect{}).Repeated; n > 0 {
			t.Errorf("%d messages were repeated", n)
		}
	})
}
