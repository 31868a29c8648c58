package bench

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

var shareCounts = []int{1, 2, 4}

type counted struct {
	*bus
	proxy *testenv.Proxy
}

var countedOn = map[string]func(t testing.TB) counted{
	"kafka": func(t testing.TB) counted {
		server := testenv.StartKafka(t, testenv.KafkaOptions{Proxied: true})
		return counted{kafkaOn(server, 8), server.Proxy()}
	},
	"jetstream": func(t testing.TB) counted {
		server := testenv.StartNATS(t)
		return counted{natsOn(server), testenv.StartProxy(t, server.Addr())}
	},
}

// work is what several processes have done together, by the database, the bus and the kernel.
type work struct{ rows, statements, received, cpu float64 }

// shares measures what each of several processes does that share tables with rows at a steady rate,
// all of them on the same topic: their work divided by their number. The figures of their start are
// beside those of the rows.
func shares(t testing.TB, r *rig, on counted, number int, s size) figures {
	t.Helper()
	tables := r.empty(t, "shared", s.shared)
	target, topic := r.newName("shares"), r.newName("progress")
	e := r.streamEnv(event.Release, fmt.Sprintf("shared_{0..%d}", s.shared-1), on.open(t, target)).With(world.Env{
		"BRIDGE_SINK_URL": on.String() + "://" + on.proxy.Addr(), "BRIDGE_CHECKPOINT_TOPIC": topic,
		"BRIDGE_CHECKPOINT_URL": "bus://" + filepath.Join(t.TempDir(), "folder"), "BRIDGE_POLL_INTERVAL": "1s",
	})
	if on.Kafka != nil {
		compact := "compact"
		on.Kafka.CreateTopic(t, topic, 1, map[string]*string{"cleanup.policy": &compact})
	}
	w := r.newWriter(s.shared, tables...)
	w.commit(t, s.shared)
	var members []*daemon
	count := func() (now work) {
		now.statements, now.received = float64(r.questions(t)-int64(w.statements)), float64(on.proxy.Received())
		for _, d := range members {
			now.rows += d.counters(t).rows
			now.cpu += spent(t, d.pid)
		}
		return now
	}
	f := make(figures)
	// note adds the part of each process in what was done since before.
	note := func(phase string, before work) {
		now, n := count(), float64(number)
		f[phase+"rows"], f[phase+"statements"] = (now.rows-before.rows)/n, (now.statements-before.statements)/n
		f[phase+"bus-KiB"], f[phase+"cpu-s"] = (now.received-before.received)/n/1024, (now.cpu-before.cpu)/n
	}
	before := count()
	for i := range number {
		own := world.Env{}
		if number > 1 {
			own["BRIDGE_SHARE"] = fmt.Sprintf("%d/%d", i, number)
		}
		d := &daemon{Daemon: world.NewDaemon(t, r.path, e.With(own))}
		members = append(members, d)
		d.restart()
		t.Cleanup(d.kill)
	}
	published := func() {
		t.Helper()
		eventually(t, 5*time.Minute, fmt.Sprintf("%d rows are published", len(w.commits)), func() bool {
			for _, d := range members {
				d.alive(t)
			}
			return on.Count(t, target) == int64(len(w.commits))
		})
	}
	published()
	note("start-", before)
	for _, d := range members {
		d.awaitReady(t)
	}
	before = count()
	w.write(t, 3*s.write)
	published()
	note("", before)
	f["tables"] = 0
	for _, d := range members {
		f["tables"] = max(f["tables"], float64(len(d.Shards(streamName))))
	}
	return f
}
