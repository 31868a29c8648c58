package bench

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

// noise is for measurements that others disturb: those are made again.
var noise = flag.Float64("noise", 100, "measure again while others use more than this percentage of the machine")

func TestMain(m *testing.M) {
	flag.Parse()
	// A measurement is one iteration, and as long as it has to be.
	if err := flag.Set("test.benchtime", "1x"); err != nil {
		panic(err)
	}
	testenv.Main(m)
}

type figures map[string]float64

// measurement is one line of the output. Its name is what -bench chooses by, element by element.
type measurement struct {
	name string
	run  func(t testing.TB) figures
}

type size struct {
	// rows are the sizes of tables, first the one on which everything is measured.
	rows []int
	// Rows are written for so long whose delays count, after a while that does not.
	write, warm time.Duration
	// tables are numbers of quiet tables, busy is one of tables that get rows.
	tables []int
	busy   int
	// shared is the number of tables that several processes share.
	shared int
	// reloads are numbers of tables whose configuration is reloaded.
	reloads []int
	// late is how long transactions overlap. What has not arrived lostAfter the last row is lost:
	// no peer pauses for longer while it has something to publish.
	late, lostAfter time.Duration
}

// sizeOf returns the size that is asked for: with -test.short, one that takes a minute or two.
func sizeOf() size {
	if testing.Short() {
		return size{
			rows: []int{50_000, 10_000}, write: 2 * time.Second, warm: 500 * time.Millisecond,
			tables: []int{1, 50}, reloads: []int{10}, busy: 50, shared: 100, late: 5 * time.Second, lostAfter: 10 * time.Second,
		}
	}
	return size{
		rows: []int{1_000_000, 100_000, 5_000_000}, write: 12 * time.Second, warm: 5 * time.Second,
		tables: []int{1, 100, 1000, 10_000}, reloads: []int{10, 1000}, busy: 200, shared: 1000, late: 20 * time.Second, lostAfter: 10 * time.Second,
	}
}

var tiny = size{
	rows: []int{3000}, write: 500 * time.Millisecond, warm: 200 * time.Millisecond, tables: []int{3}, reloads: []int{3}, busy: 3, shared: 12, late: time.Second, lostAfter: 2 * time.Second,
}

// deliveries are what BRIDGE_DELIVERY may be, by what a name of a measurement has of it.
var deliveries = []struct {
	name string
	once bool
}{{"/delivery=at-least-once", false}, {"/delivery=exactly-once", true}}

func measurements(r *rig, s size) (all []measurement) {
	add := func(run func(t testing.TB) figures, name string, args ...any) {
		all = append(all, measurement{fmt.Sprintf(name, args...), run})
	}
	each := func(do func(load)) {
		for _, kind := range []event.Kind{event.Release, event.Capability} {
			for _, on := range r.buses {
				do(load{kind: kind, bus: on, rows: s.rows[0]})
			}
		}
	}
	for i, rows := range s.rows {
		add(func(t testing.TB) figures { return r.scan(t, wide, rows) }, "Scan/rows=%d", rows)
		each(func(l load) {
			l.rows, l.recover = rows, true
			for _, by := range l.bus.publishers() {
				if i == 0 {
					add(func(t testing.TB) figures { return r.publish(t, l, by) }, "Publish/%s/client=%s", l, by.name)
				}
			}
			add(func(t testing.TB) figures { return r.backlog(t, l) }, "Backlog/%s", l)
		})
	}
	each(func(l load) {
		for _, d := range deliveries {
			add(func(t testing.TB) figures { return r.deliver(t, l.delivering(d.once)) }, "Delivery/%s%s", l, d.name)
		}
		add(func(t testing.TB) figures { return r.profile(t, l) }, "Profile/%s", l)
	})
	each(func(l load) {
		latency := func(p pace, once bool, name string) {
			add(func(t testing.TB) figures { return r.latency(t, l.delivering(once), p, s) },
				"Latency/kind=%s/bus=%s/window=%s/poll=%s/rate=%d%s", l.kind, l.bus.name, p.window, p.poll, p.rate, name)
		}
		for _, window := range windows {
			latency(pace{1000, window, 100 * time.Millisecond}, false, "")
		}
		latency(pace{1000, 0, 10 * time.Millisecond}, false, "")
		latency(pace{1000, 0, 100 * time.Millisecond}, true, deliveries[1].name)
	})
	for _, tables := range s.tables {
		add(func(t testing.TB) figures { return r.idle(t, tables, s) }, "Idle/tables=%d", tables)
	}
	for _, tables := range s.reloads {
		for _, on := range r.buses {
			add(func(t testing.TB) figures { return r.reload(t, on, tables, s) }, "Reload/bus=%s/tables=%d", on.name, tables)
		}
	}
	for _, bus := range []string{"kafka", "jetstream"} {
		for _, n := range shareCounts {
			add(func(t testing.TB) figures { return shares(t, r, countedOn[bus](t), n, s) }, "Shares/bus=%s/processes=%d", bus, n)
		}
	}
	for _, window := range windows {
		add(func(t testing.TB) figures { return r.busy(t, window, s) }, "Busy/tables=%d/window=%s", s.busy, window)
	}
	return all
}

var windows = []time.Duration{time.Second, 0}

// largeMeasurements are those of `make bench-large`: release streams over so many rows, and
// capability streams over so many entities.
func largeMeasurements(r *rig, rows, entities []int) (all []measurement) {
	for _, n := range rows {
		all = append(all, measurement{fmt.Sprintf("Scan/rows=%d", n), func(t testing.TB) figures { return r.scan(t, narrow, n) }})
		for _, kind := range []event.Kind{event.Release, event.Capability} {
			l := load{kind: kind, bus: r.buses[0], rows: n, shape: narrow}
			if kind == event.Release || slices.Contains(entities, n) {
				all = append(all, measurement{fmt.Sprintf("Backlog/%s", l), func(t testing.TB) figures { return r.backlog(t, l) }})
			}
		}
	}
	return all
}

// forgetful has a broker remove the oldest messages of a topic soon: half a GiB of a partition is
// more than bridge reads again after a kill.
var forgetful = map[string]string{
	"log.retention.bytes": fmt.Sprint(512 << 20), "log.segment.bytes": fmt.Sprint(64 << 20),
	"log.retention.check.interval.ms": "2000", "log.segment.delete.delay.ms": "1000",
}

func BenchmarkBridge(b *testing.B) {
	run(b, measurements(newRig(b, nil, kafkaOn(testenv.Kafka(b), 8), natsOn(testenv.NATS(b))), sizeOf()))
}

func BenchmarkLarge(b *testing.B) {
	rows, entities := []int{1_000_000, 10_000_000, 100_000_000}, []int{1_000_000, 10_000_000}
	if testing.Short() {
		rows, entities = []int{100_000, 1_000_000}, []int{100_000}
	}
	run(b, largeMeasurements(newRig(b, nil, kafkaOn(testenv.StartKafka(b, testenv.KafkaOptions{Lasting: true, Config: forgetful}), 8)), rows, entities))
}

func run(b *testing.B, all []measurement) {
	for _, m := range all {
		b.Run(m.name, func(b *testing.B) {
			for unit, value := range m.undisturbed(b) {
				b.ReportMetric(value, unit)
			}
			b.ReportMetric(0, "ns/op") // that of everything around, too
		})
	}
}

// undisturbed measures, and measures again while others use too much of the machine.
func (m *measurement) undisturbed(t testing.TB) figures {
	t.Helper()
	const tries = 5
	for range tries {
		syscall.Sync() // what the one before has left to be written is none of this one's cost
		before := usageNow(t)
		found := m.run(t)
		found["others-%"] = 100 * before.others(usageNow(t))
		if found["others-%"] <= *noise {
			return found
		}
	}
	t.Fatalf("others use more than %v %% of the machine, %d times: leave it alone, or allow more with -noise", *noise, tries)
	return nil
}

// mayBeZero are units whose figure may be 0: what takes less than a hundredth of a second of CPU is
// zero by the kernel's clock; the program may be held while its statements are counted, and a
// writer when its row was committed and has arrived; a checkpoint may not be written yet.
func mayBeZero(unit string) bool {
	return strings.Contains(unit, "cpu") || strings.HasSuffix(unit, "-ms") || slices.Contains([]string{"others-%", "statements/s", "checkpoint-MiB", "late-rows", "lost-rows"}, unit)
}

// TestHarness runs a measurement of each kind with tables of a few rows. It shows that the
// instrument works, and that bridge loses no row beside the control, which does.
func TestHarness(t *testing.T) {
	testall.Long(t)
	r := newPeerRig(t, kafkaOn(testenv.Kafka(t), 8), natsOn(testenv.NATS(t)))
	r.verify = true
	all := slices.Concat(measurements(r, tiny), largeMeasurements(r, []int{6000}, []int{6000}), peerMeasurements(t, r, tiny))
	chosen := regexp.MustCompile(`^(Scan/rows=3000|Publish/.*kind=(release/bus=kafka|capability/bus=jetstream).*` +
		`|Backlog/rows=3000/kind=(release/bus=jetstream|capability/bus=kafka)|Backlog/rows=6000/kind=capability/bus=kafka` +
		`|Delivery/.*kind=(release/bus=jetstream|capability/bus=kafka)/delivery=exactly-once|Latency/kind=(release/bus=jetstream|capability/bus=kafka)/window=0s/poll=10ms.*` +
		`|Idle.*|Busy/.*window=0s|(Backlog|Steady)/bus=kafka-8/program=bridge|Late/bus=jetstream/program=(bridge|poller))$`)
	for _, m := range all {
		if !chosen.MatchString(m.name) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			found := m.undisturbed(t)
			t.Log(found)
			for unit, value := range found {
				if value < 0 || value == 0 && !mayBeZero(unit) {
					t.Errorf("%v %s", value, unit)
				}
			}
			if lost, measured := found["lost-rows"]; measured && (lost > 0) != strings.HasSuffix(m.name, "=poller") {
				t.Errorf("%v late rows are lost", lost)
			}
			if len(found) < 3 {
				t.Errorf("%d figures", len(found))
			}
		})
	}
}
