package acceptance

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// outbox is a table whose rows say what is published, where, under which key and with which
// headers, and a bridge that publishes it.
type outbox struct {
	*world.World
	t   *testing.T
	bus *world.Bus
	*world.Daemon
	dead map[uint64]bool
}

const outboxColumns = "(aggregatetype, aggregateid, type, payload, trace_id, tenant)"

func newOutbox(t *testing.T, b *world.Bus) *outbox {
	t.Helper()
	o := &outbox{World: world.Empty(t, testenv.MariaDB(t)), t: t, bus: b, dead: make(map[uint64]bool)}
	o.Exec("CREATE TABLE outbox (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, aggregatetype varchar(255), aggregateid mediumtext NOT NULL, " +
		"type varchar(255) NOT NULL, payload longblob, trace_id varchar(64), tenant int)")
	template := strings.Replace(b.Open(t, o.topic("order")), "_order", "_{column:aggregatetype}", 1)
	b.Open(t, o.topic("customer"))
	o.Daemon = world.NewDaemon(t, world.Binary(t, world.RaceDetector), b.Env().With(world.Env{
		"BRIDGE_SOURCE_URL": o.URL, "BRIDGE_STREAMS": "outbox", "BRIDGE_DEAD_LETTER": b.OpenDeadLetters(t, o.topic("dead")),
		"BRIDGE_POLL_INTERVAL": "20ms", "BRIDGE_BATCH_ROWS": "50", "BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_RECONCILE_INTERVAL": "2h", "BRIDGE_DEAD_LETTER_LIMIT": "5",
	}).With(world.StreamEnv("outbox", world.Env{
		"TABLE": "outbox", "KIND": "release", "KEY": "aggregateid", "PAYLOAD": "payload", "HEADERS": "type:event-type,trace_id,tenant",
		"DESTINATION": template,
	})))
	o.allow("order", "customer")
	return o
}

func (o *outbox) topic(of string) string { return strings.ReplaceAll(o.Name, ".", "_") + "_" + of }

// allow sets DESTINATIONS, of NATS to patterns.
func (o *outbox) allow(types ...string) {
	template := o.Env["BRIDGE_STREAM_OUTBOX_DESTINATION"]
	for i, one := range types {
		types[i] = strings.NewReplacer("{column:aggregatetype}", one, "{type}", "*").Replace(template)
	}
	o.Env["BRIDGE_STREAM_OUTBOX_DESTINATIONS"] = strings.Join(types, ",")
}

func (o *outbox) insert(values ...any) uint64 {
	result := must.Get(o.DB.Exec("INSERT INTO outbox "+outboxColumns+" VALUES (?, ?, ?, ?, ?, ?)", values...))(o.t)
	id := must.Get(result.LastInsertId())(o.t)
	return uint64(id)
}

// write has some writers commit rows until ctx ends, each for aggregates of its own: so these have
// an order, while ids of one writer commit behind those of others.
func (o *outbox) write(ctx context.Context) (wait func()) {
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				tx, err := o.DB.Begin()
				for range 1 + rand.N(4) {
					if err == nil {
						kind := []string{"order", "customer"}[rand.N(2)]
						payload := fmt.Sprintf("{ \"writer\": %d,\n \"n\": %d }", w, n)
						_, err = tx.Exec("INSERT INTO outbox "+outboxColumns+" VALUES (?, ?, 'Changed', ?, ?, ?)",
							kind, fmt.Sprintf("%s-%d-%d", kind, w, rand.N(3)), payload, []any{nil, "trace ü"}[rand.N(2)], rand.N(100))
					}
				}
				world.Pause(world.Between(0, 30*time.Millisecond))
				if err == nil {
					err = tx.Commit()
				}
				if err != nil {
					o.t.Error(err)
					return
				}
			}
		})
	}
	return writers.Wait
}

// hostile inserts rows that make no message, or that no destination takes.
func (o *outbox) hostile() {
	large := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{}).Read(large)
	for _, row := range [][]any{
		{nil, "a", "T", "{}", nil, nil}, {"", "a", "T", "{}", nil, nil}, {"unknown", "a", "T", "{}", nil, nil},
		{"*", "a", "T", "{}", nil, nil}, {">", "a", "T", "{}", nil, nil}, {"or der", "a", "T", "{}", nil, nil}, {"order.x", "a", "T", "{}", nil, nil},
		{"../order", "a", "T", "{}", nil, nil}, {strings.Repeat("o", 250), "a", "T", "{}", nil, nil},
		{"order", "a", "T", nil, nil, nil},
		{"order", "a", "T", "{}", "1\r\nbridge-state: 1", nil}, {"order", "a", "T", "{}", " blank", nil}, {"order", "a", "T", "{}", "\x00", nil},
		{"order", "a", "T", base64.StdEncoding.EncodeToString(large), nil, nil},
	} {
		o.dead[o.insert(row...)] = true
	}
	key := o.insert("order", strings.Repeat("k", 70_000), "T", "{}", nil, nil)
	if o.bus.NATS != nil {
		// The key is a header there.
		o.dead[key] = true
	}
	// These are fine.
	o.insert("order", "b", "T", "\x00\xff\n", nil, nil)
	o.insert("order", "", "T", "", "", 0)
	o.insert("customer", "b+c%", "T", "null", `"quoted"`, -1)
}

func (o *outbox) compare(repeats bool) {
	o.t.Helper()
	type fact struct{ kind, key, typ, payload, trace, tenant string }
	rows := make(map[uint64]fact)
	var id uint64
	var kind, trace, tenant *string
	var key, typ string
	var payload []byte
	o.Each("SELECT id, aggregatetype, aggregateid, type, payload, trace_id, tenant FROM outbox", []any{&id, &kind, &key, &typ, &payload, &trace, &tenant}, func() {
		text := func(s *string) string {
			if s == nil {
				return "(none)"
			}
			return *s
		}
		rows[id] = fact{text(kind), key, typ, string(payload), text(trace), text(tenant)}
	})
	left, last := maps.Clone(rows), make(map[string]uint64)
	for _, kind := range []string{"order", "customer", "unknown"} {
		if !strings.Contains(o.Env["BRIDGE_STREAM_OUTBOX_DESTINATIONS"], o.topic(kind)) {
			continue
		}
		for _, m := range o.bus.ReadAll(o.t, o.topic(kind)) {
			header := func(name string) string {
				if value, there := m.Headers[name]; there {
					return value
				}
				return "(none)"
			}
			id, err := strconv.ParseUint(m.Headers[sink.HeaderRowID], 10, 64)
			if err != nil {
				o.t.Fatalf("%v of %s", err, m.Value)
			}
			want := rows[id]
			got := fact{kind, want.key, header("event-type"), string(m.Value), header("trace_id"), header("tenant")}
			if o.bus.Kafka != nil && m.Key != strings.NewReplacer("%", "%25", "+", "%2B").Replace(want.key) {
				o.t.Errorf("row %d has the key %.80q, want %.80q", id, m.Key, want.key)
			}
			if got != want {
				o.t.Fatalf("row %d on %s is %.200q, want %.200q", id, kind, got, want)
			}
			if _, first := left[id]; !first && !repeats {
				o.t.Errorf("row %d of %s comes again", id, kind)
			} else if first && id < last[kind+want.key] {
				o.t.Errorf("row %d of %s comes behind row %d of its key", id, want.key, last[kind+want.key])
			}
			last[kind+want.key] = max(id, last[kind+want.key])
			delete(left, id)
		}
	}
	refused := make(map[uint64]int)
	for _, m := range o.bus.ReadAll(o.t, o.topic("dead")) {
		if id, err := strconv.ParseUint(m.Headers[sink.HeaderRowID], 10, 64); err == nil {
			refused[id]++
		}
	}
	for id := range left {
		if !o.dead[id] || refused[id] == 0 {
			o.t.Errorf("row %d is lost: %.200q", id, left[id])
		}
	}
	for id, n := range refused {
		if !o.dead[id] || n > 1 && !repeats {
			o.t.Errorf("row %d is %d dead letters: %.200q", id, n, rows[id])
		}
	}
	o.t.Logf("%d rows, %d of them dead letters", len(rows), len(refused))
}

func (o *outbox) caughtUp() {
	o.t.Helper()
	world.Eventually(o.t, 2*time.Minute, "all rows are published", func() bool {
		s := o.Shard("outbox")
		return s.Position == o.Highest("outbox") && s.Gaps.InFlight == 0
	})
}

// TestAnOutbox kills a bridge at random moments while writers fill an outbox, and takes its
// checkpoint away: each row is on the topic that it names, under its key, in the order of its key,
// byte for byte and with its headers, or a dead letter. With exactly-once none is there twice.
func TestAnOutbox(t *testing.T) {
	testall.Beside(t)
	eachDelivery(t, outboxUnderKills)
}

func outboxUnderKills(t *testing.T, b *world.Bus) {
	o := newOutbox(t, b)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	wait := o.write(ctx)
	o.hostile()
	if found := answered(t, o.Env).find("unfit-rows"); len(found) != 1 || found[0].Severity != "warning" || !strings.Contains(found[0].Do, "BRIDGE_STREAM_OUTBOX_DESTINATIONS") {
		t.Errorf("check finds %+v", found)
	}
	for n := range 10 {
		o.Start()
		world.Pause(world.Between(0, 1500*time.Millisecond))
		o.Kill()
		if n%2 == 1 {
			o.LoseCheckpoint()
		}
	}
	o.Start()
	stop()
	wait()
	o.caughtUp()
	o.compare(!b.Once())
	// The oversized row is the only one that counts towards the limit.
	mustVerify(t, o.Env, fmt.Sprint("missing ", len(o.dead)))

	// The destination comes, its rows follow on demand, with a lost checkpoint, too.
	o.Term()
	o.LoseCheckpoint()
	o.bus.Open(t, o.topic("unknown"))
	o.allow("order", "customer", "unknown")
	o.Start()
	world.AwaitReady(t, o.Daemon)
	var row uint64
	o.Scan("SELECT id FROM outbox WHERE aggregatetype = 'unknown'", &row)
	expectDeadLetters(t, deadLetters(t, o.Env, 0, "resend", "--stream", "outbox", "--row", fmt.Sprint(row), "--dry-run"), fmt.Sprintf("outbox/%d same", row))
	expectDeadLetters(t, deadLetters(t, o.Env, 0, "resend", "--stream", "outbox", "--row", fmt.Sprint(row)), fmt.Sprintf("outbox/%d same", row))
	if all := o.bus.ReadAll(t, o.topic("unknown")); len(all) != 1 || !bytes.Equal(all[0].Value, []byte("{}")) {
		t.Errorf("the new destination has %v", all)
	}
	o.Scan("SELECT id FROM outbox WHERE payload IS NULL", &row)
	expectDeadLetters(t, deadLetters(t, o.Env, 1, "resend", "--stream", "outbox", "--row", fmt.Sprint(row), "--dry-run"), fmt.Sprintf("outbox/%d refused", row))
	mustVerify(t, o.Env, fmt.Sprint("missing ", len(o.dead)-1))
}
