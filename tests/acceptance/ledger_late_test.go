package acceptance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/workload"
)

// lateRows is how many rows one transaction inserts, lateRounds how often the two ways are measured
// in turn.
func lateRows() int {
	if world.Soak {
		return 300_000
	}
	return 40_000
}

const lateRounds = 3

// mostLateRounds is how often they are measured where something else kept the machine busy.
const mostLateRounds = 9

// scrapeEvery is far below what the fastest machine needs for the rows of a round.
const scrapeEvery = 5 * time.Millisecond

// drains commits and scrapes until n more rows are published. It returns what was scraped, and the
// rows a second since the first of them were: how long that takes is a poll and chance.
func drains(d *world.Publisher, open *world.Transaction, n int) (scrapes []world.Scrape, rate float64) {
	d.T.Helper()
	from := d.Scrape().Rows
	if err := open.Tx.Commit(); err != nil {
		d.T.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute + time.Duration(n)*time.Millisecond); ; world.Pause(scrapeEvery) {
		scrapes = append(scrapes, d.Scrape())
		if scrapes[len(scrapes)-1].Rows >= from+float64(n) {
			break
		}
		if time.Now().After(deadline) {
			d.T.Fatalf("%s has not published %d rows", d.Name, n)
		}
	}
	last := scrapes[len(scrapes)-1]
	first := scrapes[slices.IndexFunc(scrapes, func(s world.Scrape) bool { return s.Rows > from })]
	return scrapes, (last.Rows - first.Rows) / last.At.Sub(first.At).Seconds()
}

// TestLateRowsKeepUpWithTheTail has a large transaction commit above the position, as a backlog of
// the tail, and below it, in turn.
func TestLateRowsKeepUpWithTheTail(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	occupy(t, wholeMachine)
	n := lateRows()
	for _, c := range []struct {
		name string
		open func() *world.Bus
	}{
		{"Kafka", func() *world.Bus { return world.KafkaBus(testenv.Kafka(t)) }},
		{"JetStream", func() *world.Bus { return world.NATSBus(testenv.NATS(t)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newRows(t, testenv.MariaDB(t), workload.Options{Writers: 1})
			d := l.Publish(c.open(), world.Publishing{Name: "late", Env: world.Env{"BRIDGE_STABILITY_WINDOW": "0s"}})
			d.Start()
			l.Insert("first", 1)
			world.Eventually(t, time.Minute, "the first row", func() bool { return d.Scrape().Rows == 1 })
			var tail, late []float64
			looks, unaware := 0, 0
			for round := 0; round < lateRounds || round < mostLateRounds && median(late)/median(tail) < leastRatio; round++ {
				_, rate := drains(d, l.Begin(fmt.Sprint("tail", round), n), n)
				tail = append(tail, rate)

				// The metric is up to a second old: it may still show the ids of the round before.
				world.Eventually(t, time.Minute, "no id is in flight", func() bool { return d.Scrape().InFlight == 0 })
				open := l.Begin(fmt.Sprint("late", round), n)
				l.Insert(fmt.Sprint("above", round), 1)
				world.Eventually(t, time.Minute, "all ids are in flight", func() bool { return d.Scrape().InFlight == float64(n) })
				before := d.Scrape()
				scrapes, rate := drains(d, open, n)
				late = append(late, rate)
				t.Logf("round %d: tail %.0f rows/s, late %.0f rows/s", round, tail[round], rate)
				more, zero := lagOf(t, before, scrapes, n)
				looks, unaware = looks+more, unaware+zero
			}
			if got, want := d.Scrape().Late, n*len(late); got < float64(want) {
				t.Errorf("%v late rows, want %d: the test shows nothing", got, want)
			}
			// Of rows that no poll has seen yet, bridge knows only that they are in flight.
			if looks == 0 || 2*unaware > looks {
				t.Errorf("the lag was 0 at %d of %d looks while late rows waited", unaware, looks)
			}
			ratio := median(late) / median(tail)
			t.Logf("late rows of %d a transaction: %.0f rows/s, the tail %.0f rows/s, ratio %.2f", n, median(late), median(tail), ratio)
			if ratio < leastRatio {
				t.Errorf("late rows go out at %.2f of the rate of the tail, want %.2f", ratio, leastRatio)
			}
		})
	}
}

func median(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// leastRatio leaves room for the noise of a busy machine below what is measured on a quiet one.
const leastRatio = 0.5

// lagOf returns at how many scrapes late rows waited, and at how many of these the lag was 0. It
// fails the test where memory was not bounded.
func lagOf(t *testing.T, before world.Scrape, scrapes []world.Scrape, n int) (looks, unaware int) {
	t.Helper()
	end := before.Rows + float64(n)
	for i, s := range scrapes {
		// Of the first row it must be known that there is one; the next scrape proves that not all
		// were out at this one.
		if s.Rows == before.Rows || i+1 == len(scrapes) || scrapes[i+1].Rows >= end {
			continue
		}
		if looks++; !(s.Lag > 0) {
			unaware++
			t.Logf("lag %v with %.0f of %d late rows published", s.Lag, s.Rows-before.Rows, n)
		}
		if s.Reserved > 32<<20 {
			t.Errorf("%v bytes in flight", s.Reserved)
		}
	}
	return looks, unaware
}
