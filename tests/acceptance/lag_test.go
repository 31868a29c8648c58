package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/workload"
)

// TestLagOfWhatWaits holds the lag of two daemons, one on each bus, against what has become of the
// rows.
func TestLagOfWhatWaits(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	occupy(t, 1)
	const n = 20_000
	server := testenv.StartMariaDB(t)
	l := newRows(t, server, workload.Options{Writers: 1})
	l.Exec("ALTER TABLE orders ADD COLUMN modified datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), ADD KEY modified (modified)")
	kafka, nats := world.KafkaBus(testenv.Kafka(t)), world.NATSBus(testenv.StartNATS(t))
	daemons := []*world.Publisher{
		l.Publish(kafka, world.Publishing{Name: "kafka", Env: world.Env{"BRIDGE_STREAM_ORDERS_MODIFIED": "modified"}}),
		l.Publish(nats, world.Publishing{Name: "nats", Env: world.Env{"BRIDGE_STREAM_ORDERS_MODIFIED": "modified"}}),
	}
	for _, d := range daemons {
		d.Start()
	}
	each := func(name string, test func(t *testing.T, d *world.Publisher)) {
		t.Helper()
		for _, d := range daemons {
			t.Run(name+", "+d.Name, func(t *testing.T) { test(t, d) })
		}
	}
	drained := func(t *testing.T, d *world.Publisher, rows float64) {
		t.Helper()
		world.Eventually(t, time.Minute, fmt.Sprintf("%v rows are published and nothing waits", rows), func() bool {
			s := d.Scrape()
			return s.Rows >= rows && s.Lag == 0
		})
	}
	l.Insert("row", n)
	each("is 0 once all is published", func(t *testing.T, d *world.Publisher) { drained(t, d, n) })

	published := float64(n)
	each("is above 0 while updates wait", func(t *testing.T, d *world.Publisher) {
		// A machine may be too fast, or too busy, for a look in the midst of one update.
		for round, looks := 0, 0; looks == 0; round++ {
			if round == 10 {
				t.Fatal("no look at the lag while rows waited")
			}
			l.Exec(fmt.Sprintf("UPDATE orders SET body = '%s %d'", d.Name, round))
			looks = waits(t, d, published, published+n)
			published += n
			for _, d := range daemons {
				drained(t, d, published)
			}
		}
	})

	nats.Server().Kill()
	l.Exec("INSERT INTO orders (entity, token, body) VALUES ('held', 'held', '')")
	t.Run("grows while the bus is away", func(t *testing.T) {
		world.Eventually(t, time.Minute, "a lag of 2 s", func() bool { return daemons[1].Scrape().Lag >= 2 })
	})
	nats.Server().Start(t)
	each("is 0 when it is back", func(t *testing.T, d *world.Publisher) { drained(t, d, published+1) })

	server.Kill()
	each("is unknown while the source is away", func(t *testing.T, d *world.Publisher) {
		world.Eventually(t, time.Minute, "the lag is NaN and null", func() bool {
			_, metrics := d.Get("/metrics")
			_, status := d.Get("/api/v1/status")
			return strings.Contains(metrics, `bridge_lag_seconds{stream="orders"} NaN`) && strings.Contains(status, `"lagSeconds":null`)
		})
	})
	server.Start(t)
	each("is 0 when the source is back", func(t *testing.T, d *world.Publisher) { drained(t, d, published+1) })
}

// waits scrapes d until it has published so many rows, and fails the test where the lag was 0
// between the first of them and the last. It returns how many scrapes were of such moments.
func waits(t *testing.T, d *world.Publisher, from, through float64) (looks int) {
	t.Helper()
	var last world.Scrape
	for deadline := time.Now().Add(4 * time.Minute); last.Rows < through; world.Pause(scrapeEvery) {
		if time.Now().After(deadline) {
			t.Fatal("the rows are not published")
		}
		s := d.Scrape()
		if last.Rows > from && s.Rows < through {
			// Not all were out yet at the scrape before.
			if looks++; !(last.Lag > 0) {
				t.Errorf("lag %v with %.0f of %.0f rows published", last.Lag, last.Rows-from, through-from)
			}
		}
		last = s
	}
	return looks
}
