package acceptance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"example.org/bridge/tests/world"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
)

const (
	// lateRows is how many rows one transaction inserts.
	lateRows = 20_000
	// lateRounds is how often both ways are measured in turn, mostLateRounds where something else
	// kept the machine busy.
	lateRounds, mostLateRounds = 2, 9
	// leastRatio leaves room for the noise of a busy machine below what is measured on a quiet one.
	leastRatio = 0.5
	// scrapeEvery is far below what the fastest machine needs for the rows of a round.
	scrapeEvery = 5 * time.Millisecond
)

// scraping is what /metrics said at a moment.
type scraping struct {
	at                             time.Time
	rows, late, inFlight, reserved float64
}

func scrape(d *world.Publisher) scraping {
	_, body := d.Get("/metrics")
	return scraping{
		at: time.Now(), rows: world.SumOf(body, "bridge_records_total"), late: world.SumOf(body, "bridge_late_records_total"),
		inFlight: world.SumOf(body, "bridge_ids_in_flight"), reserved: world.SumOf(body, "bridge_inflight_bytes"),
	}
}

// drains commits and waits until all rows are published. It returns the rows a second since the
// first of them were: how long that takes is a poll and chance.
func drains(d *world.Publisher, open *world.Transaction) float64 {
	d.T.Helper()
	var first scraping
	from := scrape(d).rows
	check(d.T, open.Tx.Commit())
	for deadline := time.Now().Add(2 * time.Minute); ; world.Pause(scrapeEvery) {
		s := scrape(d)
		switch {
		case s.rows == from:
		case first.rows == 0:
			first = s
		case s.rows >= from+lateRows:
			return (s.rows - first.rows) / s.at.Sub(first.at).Seconds()
		}
		if s.reserved > 32<<20 {
			d.T.Errorf("%v bytes in flight", s.reserved)
		}
		if time.Now().After(deadline) {
			d.T.Fatalf("%s has not published %d rows", d.Name, lateRows)
		}
	}
}

// TestLateRowsKeepUpWithTheTail has a large transaction commit above the position, as a backlog of
// the tail, and below it, in turn.
func TestLateRowsKeepUpWithTheTail(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	occupy(t)
	for name, open := range map[string]func() *world.Bus{
		"Kafka":     func() *world.Bus { return world.KafkaBus(testenv.Kafka(t)) },
		"JetStream": func() *world.Bus { return world.NATSBus(testenv.NATS(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newRows(t, testenv.MariaDB(t), workload.Options{Writers: 1})
			d := l.Publish(open(), world.Publishing{Name: "late", Env: world.Env{"BRIDGE_STABILITY_WINDOW": "0s"}})
			d.Start()
			l.Insert("first", 1)
			world.Eventually(t, time.Minute, "the first row", func() bool { return scrape(d).rows == 1 })
			var tail, late []float64
			ratio := func() float64 { return median(late) / median(tail) }
			for round := 0; round < lateRounds || round < mostLateRounds && ratio() < leastRatio; round++ {
				tail = append(tail, drains(d, l.Begin(fmt.Sprint("tail", round), lateRows)))
				// The metric is up to a second old: it may still show the ids of the round before.
				world.Eventually(t, time.Minute, "no id is in flight", func() bool { return scrape(d).inFlight == 0 })
				open := l.Begin(fmt.Sprint("late", round), lateRows)
				l.Insert(fmt.Sprint("above", round), 1)
				world.Eventually(t, time.Minute, "all ids are in flight", func() bool { return scrape(d).inFlight == lateRows })
				late = append(late, drains(d, open))
			}
			if got, want := scrape(d).late, lateRows*len(late); got < float64(want) {
				t.Errorf("%v late rows, want %d: the test shows nothing", got, want)
			}
			t.Logf("late rows of %d a transaction: %.0f rows/s, the tail %.0f rows/s, ratio %.2f", lateRows, median(late), median(tail), ratio())
			if ratio() < leastRatio {
				t.Errorf("late rows go out at %.2f of the rate of the tail, want %.2f", ratio(), leastRatio)
			}
		})
	}
}

func median(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}
