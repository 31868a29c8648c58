package bench

import (
	"sync"
	"time"

	"bridge/tests/bench/report"
)

// deliveries are what is compared.
var deliveries = []string{report.AtLeastOnce, report.ExactlyOnce}

// by returns the bus for programs with a delivery.
func by(one bus, delivery string) bus {
	if delivery == report.ExactlyOnce {
		return one.exactlyOnce()
	}
	return one
}

func deliveryCase(l load, delivery string) report.Case {
	c := l.is()
	c.Delivery = delivery
	return c
}

// deliver measures one run of the program over a backlog, until all its rows are acknowledged, and
// fails unless a consumer reads each of them once.
func (b *bench) deliver(l load, delivery string) {
	b.t.Helper()
	c := deliveryCase(l, delivery)
	l.bus = by(l.bus, delivery)
	d, target, end := b.start(l, b.path, "")
	defer end()
	eventually(b.t, 10*time.Minute, "all rows are acknowledged", func() bool {
		n := d.counters().rows
		b.screen.far(delivery+", "+l.name(), int64(n), int64(l.rows))
		return n >= float64(l.rows)
	})
	seconds, cpu, peak := time.Since(d.began).Seconds(), d.spent(), d.memory.peak()
	for metric, value := range map[string]float64{
		report.Seconds: seconds, report.RowsASecond: float64(l.rows) / seconds, report.CPU: cpu / float64(l.rows) * 1e6, report.RssAnon: peak,
	} {
		b.report.Add(report.Delivery, c, metric, value)
	}
	b.screen.say("%s, %s: %.2f s, %.2f CPU-seconds", delivery, l.name(), seconds, cpu)
	b.eachOnce(l, target)
}

// eachOnce fails unless a consumer reads one message of each row.
func (b *bench) eachOnce(l load, target string) {
	b.t.Helper()
	var mu sync.Mutex
	messages, rows := 0, make(map[uint64]bool, l.rows)
	stop := l.bus.follow(b.t, target, func(a arrival) {
		mu.Lock()
		defer mu.Unlock()
		messages++
		rows[a.row] = true
	})
	defer stop()
	eventually(b.t, 5*time.Minute, "a consumer has read all rows", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(rows) == l.rows
	})
	mu.Lock()
	defer mu.Unlock()
	if messages != l.rows {
		b.t.Fatalf("%s holds %d messages of %d rows", target, messages, l.rows)
	}
}

// deliveryLatencies measures from commit to consumer for each kind, bus and delivery.
func (b *bench) deliveryLatencies() {
	b.t.Helper()
	for _, kind := range b.plan.kinds {
		for _, one := range b.buses {
			for _, delivery := range deliveries {
				delays, _ := b.delays(kind, by(one, delivery), pace{rate: 1000, poll: usualPoll})
				c := deliveryCase(load{kind: kind, bus: one, rows: b.plan.rows}, delivery)
				p50, p99 := report.Percentile(delays, 50), report.Percentile(delays, 99)
				b.report.Add(report.Delivery, c, report.P50, p50)
				b.report.Add(report.Delivery, c, report.P99, p99)
				b.screen.say("latency, %s, %s stream to %s: p50 %.1f ms, p99 %.1f ms", delivery, kind, one.name(), p50, p99)
			}
		}
	}
}
