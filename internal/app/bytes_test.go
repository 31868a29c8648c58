package app

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/tests/must"
)

// mostBytes bounds what a row of the benchmark takes on a bus with the default format: see decision
// 28. Growth is a decision.
var mostBytes = map[string]int{"kafka": 907, "jetstream": 1140}

// heldBuses start a bus. size returns what the last of count messages takes there: on Kafka the
// record, on JetStream headers, subject and value.
var heldBuses = map[string]func(*testing.T) (env configtest.Env, size func(count int) int){"kafka": heldKafka, "jetstream": heldNATS}

func heldKafka(t *testing.T) (configtest.Env, func(count int) int) {
	c := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "bench")))(t)
	t.Cleanup(c.Close)
	return configtest.Env{"BRIDGE_SINK_URL": "kafka://" + strings.Join(c.ListenAddrs(), ",")}, func(count int) (size int) {
		consumer := must.Get(kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics("bench"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())))(t)
		defer consumer.Close()
		for count > 0 {
			fetches := consumer.PollFetches(deadlineOf(t))
			must.OK(t, fetches.Err())
			fetches.EachRecord(func(r *kgo.Record) {
				encoded := kmsg.Record{OffsetDelta: 1, Key: r.Key, Value: r.Value}
				for _, h := range r.Headers {
					encoded.Headers = append(encoded.Headers, kmsg.Header(h))
				}
				// Its length is a varint of two bytes.
				size = len(encoded.AppendTo(nil)) + 1
				count--
			})
		}
		return size
	}
}

func heldNATS(t *testing.T) (configtest.Env, func(count int) int) {
	s := must.Get(server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true}))(t)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not answer")
	}
	conn := must.Get(nats.Connect(s.ClientURL()))(t)
	t.Cleanup(conn.Close)
	js := must.Get(jetstream.New(conn))(t)
	stream := must.Get(js.CreateStream(deadlineOf(t), jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"eiffel.>"}}))(t)
	return configtest.Env{"BRIDGE_SINK_URL": s.ClientURL(), "BRIDGE_NATS_STREAM": "BENCH"}, func(count int) int {
		last := must.Get(stream.GetMsg(deadlineOf(t), uint64(count)))(t)
		m := nats.Msg{Subject: last.Subject, Header: last.Header, Data: last.Data}
		return m.Size()
	}
}

func deadlineOf(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestTheBytesOfAMessage holds their budget, for rows as the benchmark has them.
func TestTheBytesOfAMessage(t *testing.T) {
	t.Parallel()
	const rows = 50
	for name, open := range heldBuses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, size := open(t)
			s := apptest.NewShop(t)
			s.Exec(t, `CREATE TABLE rows_1000000 (id INTEGER PRIMARY KEY AUTOINCREMENT, data_center varchar(64) NOT NULL, revision varchar(64) NOT NULL,
				app_name varchar(64) NOT NULL, params text, deleted tinyint NOT NULL, gmt_create datetime(3) NOT NULL, UNIQUE (data_center, revision))`)
			s.Exec(t, fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 500001 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO rows_1000000
				SELECT i, 'DefaultDataCenter', printf('%%032x', i * 7919), 'order-center-' || (i %% 97), 'protocol=bolt;zone=zone-' || (i %% 7) ||
				';weight=' || (i %% 100) || ';note=' || printf('%%040x', i) || ';services=com.example.order.OrderFacade:1.0,com.example.order.RefundFacade:' ||
				(i %% 10) || '.0;tags=canary,stable', 0, '2026-02-28 23:59:59.123' FROM n`, 500000+rows))
			maps.DeleteFunc(s.Env, func(name, _ string) bool { return strings.HasPrefix(name, "BRIDGE_STREAM_") })
			maps.Copy(s.Env, configtest.Env{
				"BRIDGE_STREAMS": "bench", "BRIDGE_STREAM_BENCH_TABLE": "rows_1000000", "BRIDGE_STREAM_BENCH_KIND": "release",
				"BRIDGE_STREAM_BENCH_KEY": "data_center,revision", "BRIDGE_STREAM_BENCH_CREATED": "gmt_create",
			})
			maps.Copy(s.Env, env)
			runUntil(t, load(t, s.Env), new(sharedLog), "caught up")
			if got := size(rows); got > mostBytes[name] {
				t.Errorf("a message of %d bytes, at most %d", got, mostBytes[name])
			}
		})
	}
}
