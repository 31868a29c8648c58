package config

import (
	"slices"
	"strings"
	"testing"
)

func TestFaults(t *testing.T) {
	const stream = "BRIDGE_STREAM_ORDERS_"
	outbox := func(pairs ...string) []string {
		return append([]string{
			stream + "KIND", "release", stream + "PAYLOAD", "payload", stream + "DEAD_LETTER", "dead",
			stream + "DESTINATION", "o.{column:type}", stream + "DESTINATIONS", "o.order,o.customer",
		}, pairs...)
	}
	outboxWith := func(pairs ...string) settingsOf { return with(outbox(pairs...)...) }
	nats := func(pairs ...string) settingsOf {
		return with(append([]string{"BRIDGE_SINK_URL", "nats://n1:4222"}, pairs...)...)
	}
	for _, c := range []struct {
		name     string
		env      settingsOf
		variable string
		says     []string
	}{
		{"no source", with("BRIDGE_SOURCE_URL", "-"), "BRIDGE_SOURCE_URL", []string{"not set", "mysql://"}},
		{"no sink", with("BRIDGE_SINK_URL", ""), "BRIDGE_SINK_URL", []string{"not set", "kafka://"}},
		{"no table", with(stream+"TABLE", "-"), stream + "TABLE", []string{"not set"}},
		{"no kind", with(stream+"KIND", "-"), stream + "KIND", []string{"not set", "one of capability, release"}},

		{"a duration without unit", with("BRIDGE_POLL_INTERVAL", "5"), "BRIDGE_POLL_INTERVAL", []string{"invalid duration", "200ms"}},
		{"a number that is none", with("BRIDGE_BATCH_ROWS", "many"), "BRIDGE_BATCH_ROWS", []string{"digits only"}},
		{"a number out of range", with("BRIDGE_BATCH_ROWS", "0"), "BRIDGE_BATCH_ROWS", []string{"1 to 100000"}},
		{"a size with a wrong unit", with("BRIDGE_MAX_INFLIGHT_BYTES", "32M"), "BRIDGE_MAX_INFLIGHT_BYTES", []string{"MiB"}},
		{"a size beyond 64 bits", with("BRIDGE_MAX_INFLIGHT_BYTES", "99999999999999GiB"), "BRIDGE_MAX_INFLIGHT_BYTES", []string{"invalid size"}},
		{"a percentage without sign", with("BRIDGE_RECONCILE_MAX_DELETES", "10"), "BRIDGE_RECONCILE_MAX_DELETES", []string{"10%"}},
		{"a percentage that is not a number", with("BRIDGE_RECONCILE_MAX_DELETES", "NaN%"), "BRIDGE_RECONCILE_MAX_DELETES", []string{"10%"}},
		{"a value that is none of a list", with("BRIDGE_GAP_POLICY", "hodl"), "BRIDGE_GAP_POLICY", []string{"late, hold"}},
		{"a switch", with("BRIDGE_KAFKA_TLS", "maybe"), "BRIDGE_KAFKA_TLS", []string{"true or false"}},
		{"a zone", with("BRIDGE_TIME_ZONE", "Mars/Olympus"), "BRIDGE_TIME_ZONE", []string{"Asia/Shanghai"}},
		{"the host's zone", with("BRIDGE_TIME_ZONE", "Local"), "BRIDGE_TIME_ZONE", []string{"IANA"}},
		{"an address", with("BRIDGE_HTTP_ADDR", "8080"), "BRIDGE_HTTP_ADDR", []string{":8080"}},
		{"a domain with a line break", with("BRIDGE_DOMAIN_ID", "a\nb"), "BRIDGE_DOMAIN_ID", []string{"control characters"}},
		{"a start", with(stream+"START", "end"), stream + "START", []string{"beginning, latest"}},
		{"a stream's own setting", with(stream+"ID_ORDER", "some"), stream + "ID_ORDER", []string{"segmented"}},

		{"an unknown variable", with("BRIDGE_POL_INTERVAL", "1s"), "BRIDGE_POL_INTERVAL", []string{"did you mean BRIDGE_POLL_INTERVAL?"}},
		{"an unknown variable of a stream", with(stream+"TABEL", "t"), stream + "TABEL", []string{"did you mean " + stream + "TABLE?"}},
		{"one that is like none", with(stream+"FOO", "t"), stream + "FOO", []string{"is unknown. See bridge help variables"}},
		{"a variable in lower case", with("BRIDGE_poll_interval", "1s"), "BRIDGE_poll_interval", []string{"BRIDGE_POLL_INTERVAL"}},
		{"a Service of another name", with("BRIDGE_METRICS_SERVICE_HOST", "10.0.0.1"), "BRIDGE_METRICS_SERVICE_HOST", []string{"enableServiceLinks"}},

		{"a stream name with a dash", with("BRIDGE_STREAMS", "orders,a-b"), "BRIDGE_STREAMS", []string{"item 2", "letters, digits"}},
		{"two names in other letter case", with("BRIDGE_STREAMS", "orders,Orders"), "BRIDGE_STREAMS", []string{"item 2", "letter case"}},
		{"a list of commas", with("BRIDGE_STREAMS", " , ,"), "BRIDGE_STREAMS", []string{"without an item"}},

		{"a source of an unknown scheme", with("BRIDGE_SOURCE_URL", "postgres://u:p@h/d"), "BRIDGE_SOURCE_URL", []string{"mysql:"}},
		{"a file without a name", with("BRIDGE_SOURCE_URL", "sqlite:///tmp/"), "BRIDGE_SOURCE_URL", []string{"must name the database file"}},
		{"a file on a host", with("BRIDGE_SOURCE_URL", "sqlite://tmp/x.db"), "BRIDGE_SOURCE_URL", []string{"three slashes"}},
		{"a source with # in the password", with("BRIDGE_SOURCE_URL", "mysql://u:p#w@h/d"), "BRIDGE_SOURCE_URL", []string{"%23"}},
		{"a source with / in the password", with("BRIDGE_SOURCE_URL", "mysql://u:12/w@h/d"), "BRIDGE_SOURCE_URL", []string{"%2F"}},
		{"a source without user", with("BRIDGE_SOURCE_URL", "mysql://h/d"), "BRIDGE_SOURCE_URL", []string{"user"}},
		{"a source without database for a table without one", with("BRIDGE_SOURCE_URL", "mysql://u:p@h"), "BRIDGE_SOURCE_URL", []string{"names no database", stream + "TABLE"}},
		{"a server inside the process with a host", with("BRIDGE_SINK_URL", "embedded://h/x"), "BRIDGE_SINK_URL", []string{"embedded:///var/lib/bridge/nats"}},
		{"a server inside the process that listens nowhere", with("BRIDGE_SINK_URL", "embedded:?listen=4222"), "BRIDGE_SINK_URL", []string{"host:port"}},
		{"a server inside the process with an unknown parameter", with("BRIDGE_SINK_URL", "embedded:?port=4222"), "BRIDGE_SINK_URL", []string{"known is listen"}},
		{"a sink without slashes", with("BRIDGE_SINK_URL", "kafka:k1"), "BRIDGE_SINK_URL", []string{"//"}},
		{"a sink without host", with("BRIDGE_SINK_URL", "kafka://,"), "BRIDGE_SINK_URL", []string{"names no host"}},
		{"a sink with a port that is none", with("BRIDGE_SINK_URL", "kafka://k1:99999"), "BRIDGE_SINK_URL", []string{"port"}},
		{"a sink with a login where it does not belong", with("BRIDGE_SINK_URL", "kafka://u:p@k1"), "BRIDGE_SINK_URL", []string{"BRIDGE_KAFKA_SASL_USERNAME"}},
		{"two logins for one bus", with("BRIDGE_SINK_URL", "nats://u:p@n1,u:q@n2"), "BRIDGE_SINK_URL", []string{"different logins"}},
		{"something behind stdout", with("BRIDGE_SINK_URL", "stdout:x"), "BRIDGE_SINK_URL", []string{"stdout: alone"}},
		{"a checkpoint with a host", with("BRIDGE_CHECKPOINT_URL", "file://var/bridge.db"), "BRIDGE_CHECKPOINT_URL", []string{"three slashes"}},
		{"a checkpoint without file", with("BRIDGE_CHECKPOINT_URL", "file:///var/"), "BRIDGE_CHECKPOINT_URL", []string{"names no folder"}},
		{"a checkpoint in a database", with("BRIDGE_CHECKPOINT_URL", "mysql://h/d"), "BRIDGE_CHECKPOINT_URL", []string{"write one of file: bus:, as in"}},

		{"a range that runs backwards", with(stream+"TABLE", "t_{9..0}"), stream + "TABLE", []string{"reversed", "{0..9}"}},
		{"a range that is not closed", with(stream+"TABLE", "t_{0..9"), stream + "TABLE", []string{"{0..63}"}},
		{"a table named twice", with(stream+"TABLE", "t,t"), stream + "TABLE", []string{"twice"}},
		{"a payload of states", outboxWith(stream+"KIND", "capability"), stream + "PAYLOAD", []string{"KIND=release"}},
		{"a payload in a format", outboxWith(stream+"EVENT_FORMAT", "cloudevents"), stream + "EVENT_FORMAT", []string{"PAYLOAD"}},
		{"a payload with fields", outboxWith(stream+"FIELDS", "a"), stream + "FIELDS", []string{"PAYLOAD"}},
		{"a payload without dead letters", outboxWith(stream+"DEAD_LETTER", "-"), stream + "DEAD_LETTER", []string{"PAYLOAD needs it"}},
		{"headers of a document", with(stream+"HEADERS", "a"), stream + "HEADERS", []string{"PAYLOAD"}},
		{"a header that recovery reads", outboxWith(stream+"HEADERS", "a,b:Bridge-State"), stream + "HEADERS", []string{"item 2", "bridge-"}},
		{"a header that consumers read", outboxWith(stream+"HEADERS", "a:eiffel-id"), stream + "HEADERS", []string{"item 1"}},
		{"a header that NATS acts on", outboxWith(stream+"HEADERS", "a:Nats-Rollup"), stream + "HEADERS", []string{"nats-"}},
		{"a header of another format", outboxWith(stream+"HEADERS", "a:Content-Type"), stream + "HEADERS", []string{"item 1"}},
		{"a header that traces set", outboxWith(stream+"HEADERS", "traceparent", "BRIDGE_TRACE", "on"), stream + "HEADERS", []string{"BRIDGE_TRACE"}},
		{"a header with a line break", outboxWith(stream+"HEADERS", "a:b\nc"), stream + "HEADERS", []string{"invalid header"}},
		{"a header twice", outboxWith(stream+"HEADERS", "a:x,b:X"), stream + "HEADERS", []string{"item 2", "once"}},
		{"a destination by a column of a document", with(stream+"DESTINATION", "o.{column:type}"), stream + "DESTINATION", []string{"PAYLOAD"}},
		{"a destination without bounds", outboxWith(stream+"DESTINATIONS", "-"), stream + "DESTINATIONS", []string{"list all topics"}},
		{"bounds of one destination", outboxWith(stream+"DESTINATION", "orders"), stream + "DESTINATIONS", []string{"{column:type}"}},
		{"a pattern of topics", outboxWith(stream+"DESTINATIONS", "o.*"), stream + "DESTINATIONS", []string{"item 1", "no patterns"}},
		{"a topic that is none of the destination", outboxWith(stream+"DESTINATIONS", "o.order,customer"), stream + "DESTINATIONS", []string{"item 2", "DESTINATION makes"}},
		{"the topic of dead letters among them", outboxWith(stream+"DESTINATIONS", "o.order,o.dead", stream+"DEAD_LETTER", "o.dead"), stream + "DESTINATIONS", []string{"item 2", "DEAD_LETTER"}},
		{"a pattern of all subjects", nats(outbox(stream+"DESTINATIONS", ">")...), stream + "DESTINATIONS", []string{"item 1", "without a wildcard"}},
		{"a pattern that takes dead letters", nats(outbox(stream+"DESTINATIONS", "o.*", stream+"DEAD_LETTER", "o.dead")...), stream + "DESTINATIONS", []string{"item 1", "DEAD_LETTER"}},
		{"a pattern of other subjects", nats(outbox(stream+"DESTINATIONS", "p.*")...), stream + "DESTINATIONS", []string{"item 1", "DESTINATION makes"}},
		{"patterns that share subjects", nats(outbox(stream+"DESTINATION", "o.{column:a}.{column:b}", stream+"DESTINATIONS", "o.*.x,o.y.*")...), stream + "DESTINATIONS", []string{"item 1", "o.y.*", "neither covers"}},
		{"a pattern that shares subjects of another stream", nats(outbox(stream+"DESTINATION", "o.{column:a}.{column:b}", stream+"DESTINATIONS", "o.*.x",
			"BRIDGE_STREAMS", "orders,bills", "BRIDGE_STREAM_BILLS_TABLE", "bills", "BRIDGE_STREAM_BILLS_KIND", "release", "BRIDGE_STREAM_BILLS_DESTINATION", "o.bills.{key}")...),
			stream + "DESTINATIONS", []string{"item 1", "o.bills.*"}},
		{"a header by which NATS says that nobody answers", nats(outbox(stream+"HEADERS", "a,status:Status")...), stream + "HEADERS", []string{"item 2", "Status"}},
		{"a payload that is masked", outboxWith(stream+"MASK", "Payload:redact"), stream + "MASK", []string{"the column of PAYLOAD"}},
		{"a destination that is masked", outboxWith(stream+"MASK", "type:redact"), stream + "MASK", []string{"the column of DESTINATION"}},
		{"a member named twice", with(stream+"FIELDS", "a:x,b:x"), stream + "FIELDS", []string{"item 2", "member"}},
		{"a field without member", with(stream+"FIELDS", "a:"), stream + "FIELDS", []string{"column:member"}},
		{"a member that every event has", with(stream+"FIELDS", "a:row"), stream + "FIELDS", []string{"row"}},
		{"a key that is not published", with(stream+"FIELDS", "a", stream+"KEY", "a,b"), stream + "FIELDS", []string{"item 2"}},
		{"a column left out beside a whitelist", with(stream+"EXCLUDE", "a", stream+"FIELDS", "b"), stream + "EXCLUDE", []string{"FIELDS"}},
		{"a key column left out", with(stream+"EXCLUDE", "a,B", stream+"KEY", "b"), stream + "EXCLUDE", []string{"item 2", "KEY"}},
		{"a condition with a comment", with(stream+"FILTER", "a = 1 -- and more"), stream + "FILTER", []string{"comment"}},
		{"a condition that ends the parenthesis around it", with(stream+"FILTER", "1) OR (1"), stream + "FILTER", []string{"parenthesis"}},
		{"a condition with a subquery", with(stream+"FILTER", "a IN (select b from c)"), stream + "FILTER", []string{"SELECT", "row alone"}},
		{"a mask without a form", with(stream+"MASK", "a"), stream + "MASK", []string{"item 1", "column:last4"}},
		{"a mask of an unknown form", with(stream+"MASK", "a:rot13"), stream + "MASK", []string{"item 1", "redact, last4 or sha256"}},
		{"a key that is masked", with(stream+"MASK", "A:redact", stream+"KEY", "a"), stream + "MASK", []string{"the column of KEY"}},
		{"an id that is masked", with(stream+"MASK", "ID:redact"), stream + "MASK", []string{"the column of ID"}},
		{"a mask that needs a key", with(stream+"MASK", "a:sha256"), stream + "MASK", []string{"BRIDGE_MASK_KEY"}},
		{"a short key of a mask", with(stream+"MASK", "a:sha256", "BRIDGE_MASK_KEY", "short"), "BRIDGE_MASK_KEY", []string{"16"}},
		{"a column with a line end", with(stream+"CREATED", "a\nb"), stream + "CREATED", []string{"invalid column name"}},
		{"an event of the Eiffel protocol", with(stream+"EVENT", "EiffelOrder"), stream + "EVENT", []string{"Eiffel"}},
		{"an event with a blank", with(stream+"EVENT", "My Order"), stream + "EVENT", []string{"letters, digits"}},
		{"a stream name that makes no event", with("BRIDGE_STREAMS", "orders,eif_fel", "BRIDGE_STREAM_EIF_FEL_TABLE", "t", "BRIDGE_STREAM_EIF_FEL_KIND", "release"), "BRIDGE_STREAM_EIF_FEL_EVENT", []string{"stem"}},
		{"an event name without operation", with(stream+"EVENT_NAMES", "OrderAdded"), stream + "EVENT_NAMES", []string{"operation:name"}},
		{"an operation of the other kind", with(stream+"EVENT_NAMES", "published:P"), stream + "EVENT_NAMES", []string{"capability", "added, modified and deleted"}},
		{"an operation named twice", with(stream+"EVENT_NAMES", "added:A,added:B"), stream + "EVENT_NAMES", []string{"second time"}},
		{"a deleted event that looks like another", with(stream+"EVENT_NAMES", "added:A,deleted:A"), stream + "EVENT_NAMES", []string{"tell apart"}},

		{"a type in a topic", with(stream+"DESTINATION", "x-{type}"), stream + "DESTINATION", []string{"{table}"}},
		{"a topic with a blank", with(stream+"DESTINATION", "a b"), stream + "DESTINATION", []string{"letters, digits"}},
		{"a topic that its values make illegal", with(stream+"DESTINATION", "{tag}", stream+"TAG", "a b"), stream + "DESTINATION", []string{"no Kafka topic"}},
		{"a subject with a wildcard", nats(stream+"DESTINATION", "a.*"), stream + "DESTINATION", []string{"wildcard"}},
		{"a dead letter that cannot be a subject", nats(stream+"DEAD_LETTER", "a..b"), stream + "DEAD_LETTER", []string{"empty token"}},
		{"a dead letter among the events", with("BRIDGE_DEAD_LETTER", "orders"), stream + "DESTINATION", []string{"DEAD_LETTER"}},

		{"hold with segmented ids", with("BRIDGE_GAP_POLICY", "hold", stream+"ID_ORDER", "segmented"), stream + "GAP_POLICY", []string{"late"}},
		{"hold with segmented ids everywhere", with("BRIDGE_GAP_POLICY", "hold", "BRIDGE_ID_ORDER", "segmented"), "BRIDGE_GAP_POLICY", []string{"late"}},
		{"a user without mechanism", with("BRIDGE_KAFKA_SASL_USERNAME", "u"), "BRIDGE_KAFKA_SASL_USERNAME", []string{"BRIDGE_KAFKA_SASL_MECHANISM"}},
		{"a mechanism without user", with("BRIDGE_KAFKA_SASL_MECHANISM", "SCRAM-SHA-256", "BRIDGE_KAFKA_SASL_PASSWORD", "p"), "BRIDGE_KAFKA_SASL_USERNAME", []string{"not set"}},
		{"a mechanism without password", with("BRIDGE_KAFKA_SASL_MECHANISM", "SCRAM-SHA-256", "BRIDGE_KAFKA_SASL_USERNAME", "u"), "BRIDGE_KAFKA_SASL_PASSWORD", []string{"BRIDGE_KAFKA_SASL_PASSWORD_FILE"}},
		{"a token without mechanism", with("BRIDGE_KAFKA_SASL_TOKEN", "a.b.c"), "BRIDGE_KAFKA_SASL_TOKEN", []string{"OAUTHBEARER"}},
		{"a region without mechanism", with("BRIDGE_KAFKA_SASL_AWS_REGION", "eu-west-1"), "BRIDGE_KAFKA_SASL_AWS_REGION", []string{"AWS_MSK_IAM"}},
		{"a mechanism without token", with("BRIDGE_KAFKA_SASL_MECHANISM", "OAUTHBEARER"), "BRIDGE_KAFKA_SASL_TOKEN_FILE", []string{"not set", "the file"}},
		{"a token with a line end", with("BRIDGE_KAFKA_SASL_MECHANISM", "OAUTHBEARER", "BRIDGE_KAFKA_SASL_TOKEN", "a.b\nc"), "BRIDGE_KAFKA_SASL_TOKEN", []string{"white space"}},
		{"IAM without TLS", with("BRIDGE_KAFKA_SASL_MECHANISM", "AWS_MSK_IAM", "AWS_REGION", "eu-west-1"), "BRIDGE_KAFKA_TLS", []string{"BRIDGE_KAFKA_TLS=true"}},
		{"IAM without region", with("BRIDGE_KAFKA_SASL_MECHANISM", "AWS_MSK_IAM", "BRIDGE_KAFKA_TLS", "true"), "BRIDGE_KAFKA_SASL_AWS_REGION", []string{"AWS_REGION", "eu-west-1"}},
		{"a stream to create without name", nats("BRIDGE_NATS_CREATE_STREAM", "true"), "BRIDGE_NATS_STREAM", []string{"name"}},
		{"memory and exactly once", nats("BRIDGE_DELIVERY", "exactly-once", "BRIDGE_NATS_STREAM", "E", "BRIDGE_NATS_STREAM_STORAGE", "memory"), "BRIDGE_NATS_STREAM_STORAGE", []string{"loses", "use file"}},
		{"ids that outlive messages", nats("BRIDGE_NATS_STREAM", "E", "BRIDGE_NATS_STREAM_MAX_AGE", "10m", "BRIDGE_NATS_STREAM_DUPLICATE_WINDOW", "11m"), "BRIDGE_NATS_STREAM_DUPLICATE_WINDOW", []string{"at most 10m"}},
		{"messages that expire at once", nats("BRIDGE_NATS_STREAM", "E", "BRIDGE_NATS_STREAM_MAX_AGE", "5s"), "BRIDGE_NATS_STREAM_MAX_AGE", []string{"10m"}},
		{"replicas of one server", with("BRIDGE_SINK_URL", "embedded:", "BRIDGE_NATS_STREAM_REPLICAS", "3"), "BRIDGE_NATS_STREAM_REPLICAS", []string{"one server"}},
		{"a stream name with a dot", nats("BRIDGE_NATS_STREAM", "a.b"), "BRIDGE_NATS_STREAM", []string{"invalid stream name"}},
	} {
		t.Run(c.name, func(t *testing.T) { wantFault(t, c.env, c.variable, c.says...) })
	}
}

func TestFaultsTogether(t *testing.T) {
	t.Run("all are reported at once, sorted, one a line", func(t *testing.T) {
		_, err := Load(settingsOf{
			"BRIDGE_SINK_URL": "x", "BRIDGE_STREAMS": "a", "BRIDGE_STREAM_A_TABLE": "t_{", "BRIDGE_STREAM_A_START": "x",
			"BRIDGE_LOG_LEVEL": "loud", "BRIDGE_TYPO": "1", "BRIDGE_STREAM_A_RECONCILE_RATE": "x", "BRIDGE_NATS_NKEY_FILE": "/not/there",
		}.Environ(), &Redactor{})
		if err == nil {
			t.Fatal("no fault")
		}
		lines := strings.Split(err.Error(), "\n")[1:]
		var names []string
		for _, line := range lines {
			name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
			names = append(names, strings.TrimPrefix(name, "BRIDGE_"))
		}
		want := []string{"LOG_LEVEL", "NATS_NKEY_FILE", "SINK_URL", "SOURCE_URL", "STREAM_A_KIND", "STREAM_A_RECONCILE_RATE", "STREAM_A_START", "STREAM_A_TABLE", "TYPO"}
		if !slices.Equal(names, want) {
			t.Errorf("faults of %v, want %v", names, want)
		}
	})
	t.Run("the variables of Kubernetes and of the tests are none of ours", func(t *testing.T) {
		load(t, with("BRIDGE_SERVICE_HOST", "10.0.0.1", "BRIDGE_PORT", "tcp://10.0.0.1:80", "BRIDGE_PORT_80_TCP_ADDR", "x", "BRIDGE_TEST_REAL", "1", "BRIDGES", "x"))
	})
	t.Run("a typing mistake is found though the list of streams is wrong", func(t *testing.T) {
		var names []string
		for _, f := range faultsOf(t, with("BRIDGE_STREAMS", "orders,x!", "BRIDGE_STREAM_ORDERS_TABEL", "t", "BRIDGE_STREAM_Y_TABLE", "t")) {
			names = append(names, f.Variable)
		}
		if want := []string{"BRIDGE_STREAMS", "BRIDGE_STREAM_ORDERS_TABEL"}; !slices.Equal(names, want) {
			t.Errorf("faults of %v, want %v", names, want)
		}
	})
}
