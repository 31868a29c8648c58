package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"bridge/event"
	"bridge/internal/app/apptest"
	"bridge/internal/config/configtest"
	"bridge/internal/verify"
	"bridge/sink"
)

// mostBytes bounds what a row of the benchmark takes on a bus with the default format: see decision
// 28. Growth is a decision.
var mostBytes = map[string]int{"kafka": 907, "jetstream": 1140}

// record is a message as a bus holds it. size counts all of it: on Kafka the record, on JetStream
// headers, subject and value.
type record struct {
	destination, key string
	headers          map[string]string
	value            []byte
	size             int
}

// heldBus is a bus that outlives a bridge.
type heldBus struct {
	env   configtest.Env
	read  func(t *testing.T, count int) []record
	write func(t *testing.T, records []record)
}

func heldBuses() map[string]func(*testing.T) heldBus {
	return map[string]func(*testing.T) heldBus{"kafka": heldKafka, "jetstream": heldNATS}
}

func heldKafka(t *testing.T) heldBus {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "bench"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return heldBus{
		env: configtest.Env{"BRIDGE_SINK_URL": "kafka://" + strings.Join(c.ListenAddrs(), ",")},
		read: func(t *testing.T, count int) (all []record) {
			consumer, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics("bench"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			if err != nil {
				t.Fatal(err)
			}
			defer consumer.Close()
			for len(all) < count {
				fetches := consumer.PollFetches(deadlineOf(t))
				if err := fetches.Err(); err != nil {
					t.Fatal(err)
				}
				fetches.EachRecord(func(r *kgo.Record) {
					one := record{destination: r.Topic, key: string(r.Key), headers: make(map[string]string), value: r.Value}
					encoded := kmsg.Record{OffsetDelta: 1, Key: r.Key, Value: r.Value}
					for _, h := range r.Headers {
						one.headers[h.Key] = string(h.Value)
						encoded.Headers = append(encoded.Headers, kmsg.Header(h))
					}
					// Its length is a varint of two bytes.
					one.size = len(encoded.AppendTo(nil)) + 1
					all = append(all, one)
				})
			}
			return all
		},
		write: func(t *testing.T, records []record) {
			for _, r := range records {
				one := &kgo.Record{Topic: r.destination, Key: []byte(r.key), Value: r.value}
				for name, value := range r.headers {
					one.Headers = append(one.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
				}
				if err := client.ProduceSync(deadlineOf(t), one).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
		},
	}
}

func heldNATS(t *testing.T) heldBus {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not answer")
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(deadlineOf(t), jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"eiffel.>"}}); err != nil {
		t.Fatal(err)
	}
	return heldBus{
		env: configtest.Env{"BRIDGE_SINK_URL": s.ClientURL(), "BRIDGE_NATS_STREAM": "BENCH"},
		read: func(t *testing.T, count int) (all []record) {
			for n := 1; n <= count; n++ {
				reply, err := conn.RequestWithContext(deadlineOf(t), "$JS.API.STREAM.MSG.GET.BENCH", fmt.Appendf(nil, `{"seq":%d}`, n))
				if err != nil {
					t.Fatal(err)
				}
				var answer struct {
					Message struct {
						Subject    string
						Hdrs, Data []byte
					}
				}
				if err := json.Unmarshal(reply.Data, &answer); err != nil {
					t.Fatal(err)
				}
				m := answer.Message
				headers, err := nats.DecodeHeadersMsg(m.Hdrs)
				if err != nil {
					t.Fatal(err)
				}
				one := record{destination: m.Subject, headers: make(map[string]string), value: m.Data, size: len(m.Subject) + len(m.Hdrs) + len(m.Data)}
				for name := range headers {
					one.headers[name] = headers.Get(name)
				}
				all = append(all, one)
			}
			return all
		},
		write: func(t *testing.T, records []record) {
			for _, r := range records {
				one := &nats.Msg{Subject: r.destination, Data: r.value, Header: make(nats.Header)}
				for name, value := range r.headers {
					if !strings.HasPrefix(name, "Nats-Expected-") {
						one.Header[name] = []string{value}
					}
				}
				if _, err := js.PublishMsg(deadlineOf(t), one); err != nil {
					t.Fatal(err)
				}
			}
		},
	}
}

func deadlineOf(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// benchShop has a table of the benchmark, without rows.
func benchShop(t *testing.T, kind event.Kind) *apptest.Shop {
	s := apptest.NewShop(t)
	s.Exec(t, `CREATE TABLE rows_1000000 (id INTEGER PRIMARY KEY AUTOINCREMENT, data_center varchar(64) NOT NULL, revision varchar(64) NOT NULL,
		app_name varchar(64) NOT NULL, params text, deleted tinyint NOT NULL, gmt_create datetime(3) NOT NULL, UNIQUE (data_center, revision))`)
	maps.DeleteFunc(s.Env, func(name, _ string) bool { return strings.HasPrefix(name, "BRIDGE_STREAM_") })
	maps.Copy(s.Env, configtest.Env{
		"BRIDGE_STREAMS": "bench", "BRIDGE_STREAM_BENCH_TABLE": "rows_1000000", "BRIDGE_STREAM_BENCH_KIND": string(kind),
		"BRIDGE_STREAM_BENCH_KEY": "data_center,revision", "BRIDGE_STREAM_BENCH_CREATED": "gmt_create",
	})
	return s
}

// fill adds the rows from one to another, as the benchmark has them.
func fill(t *testing.T, s *apptest.Shop, from, to int) {
	s.Exec(t, fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO rows_1000000
		SELECT i, 'DefaultDataCenter', printf('%%032x', i * 7919), 'order-center-' || (i %% 97), 'protocol=bolt;zone=zone-' || (i %% 7) ||
		';weight=' || (i %% 100) || ';note=' || printf('%%040x', i) || ';services=com.example.order.OrderFacade:1.0,com.example.order.RefundFacade:' ||
		(i %% 10) || '.0;tags=canary,stable', 0, '2026-02-28 23:59:59.123' FROM n`, from, to))
}

// TestTheBytesOfAMessage holds their budget.
func TestTheBytesOfAMessage(t *testing.T) {
	t.Parallel()
	for name, open := range heldBuses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bus, s := open(t), benchShop(t, event.Release)
			maps.Copy(s.Env, bus.env)
			fill(t, s, 500001, 500050)
			runUntil(t, load(t, s.Env), new(sharedLog), "caught up")
			last := bus.read(t, 50)[49]
			if last.size > mostBytes[name] {
				t.Errorf("a message of %d bytes, at most %d: %q of %d bytes with the headers %q", last.size, mostBytes[name], last.value, len(last.value), last.headers)
			}
		})
	}
}

// asFormer returns a message as versions before decision 28 wrote it.
func asFormer(r record) record {
	var of struct {
		Meta struct{ Type, Version string }
	}
	if err := json.Unmarshal(r.value, &of); err != nil {
		panic(err)
	}
	const domain = `"source":{"domainId":"bridge"`
	r.value = bytes.Replace(r.value, []byte(domain), []byte(domain+`,"name":"bridge","serializer":"pkg:golang/bridge/event@1.0.0","uri":"bridge://bridge/bench"`), 1)
	r.headers = maps.Clone(r.headers)
	maps.Copy(r.headers, map[string]string{
		sink.HeaderContentType: "application/json", sink.HeaderType: of.Meta.Type, sink.HeaderVersion: of.Meta.Version, sink.HeaderDomain: "bridge",
		sink.HeaderPublishedAt: "2026-03-01T00:00:00.123Z",
	})
	return r
}

// TestAnUpgradeInTheMiddle: messages of a former version lie before those of this one. It knows
// what they say, publishes nothing again, and finds nothing wrong with either.
func TestAnUpgradeInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, open := range heldBuses() {
		for _, kind := range []event.Kind{event.Release, event.Capability} {
			t.Run(name+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				before, after, s := open(t), open(t), benchShop(t, kind)
				maps.Copy(s.Env, before.env)
				fill(t, s, 1, 20)
				runUntil(t, load(t, s.Env), new(sharedLog), "caught up")
				var old []record
				for _, r := range before.read(t, 20) {
					old = append(old, asFormer(r))
				}
				after.write(t, old)

				maps.Copy(s.Env, after.env)
				s.Env["BRIDGE_CHECKPOINT_URL"] = "file:" + filepath.Join(t.TempDir(), "new")
				if kind == event.Capability {
					// The entity of row 3 is in row 21: its event follows one of the former
					// version.
					s.Exec(t, "DELETE FROM rows_1000000 WHERE id = 3")
					fill(t, s, 21, 40)
					s.Exec(t, "UPDATE rows_1000000 SET revision = printf('%032x', 3 * 7919) WHERE id = 21")
				} else {
					fill(t, s, 21, 40)
				}
				cfg := load(t, s.Env)
				runUntil(t, cfg, new(sharedLog), "caught up")
				all := after.read(t, 40)
				for i, r := range all {
					if i < 20 && (!bytes.Equal(r.value, old[i].value) || r.headers[sink.HeaderType] == "") || i >= 20 && (bytes.Contains(r.value, []byte("serializer")) || r.headers[sink.HeaderType] != "") {
						t.Errorf("message %d is %s with %q", i, r.value, r.headers)
					}
					if i >= 20 && r.headers[sink.HeaderRowID] != fmt.Sprint(i+1) {
						t.Errorf("message %d is of row %s", i, r.headers[sink.HeaderRowID])
					}
				}
				if link := fmt.Sprintf(`"target":%q`, old[2].headers[sink.HeaderID]); kind == event.Capability && !bytes.Contains(all[20].value, []byte(link)) {
					t.Errorf("%s lacks %s", all[20].value, link)
				}
				report, err := Verify(deadlineOf(t), cfg, slog.New(slog.DiscardHandler), 10, func(verify.Step) {})
				if err != nil {
					t.Fatal(err)
				}
				if text, _ := json.Marshal(report); !report.Good {
					t.Errorf("found wrong: %s", text)
				}
			})
		}
	}
}
