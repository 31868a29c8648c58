package pagetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/httpapi/httpapitest"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/share"
	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
	"example.org/bridge/source/ledger"
)

// hostile is a name that a database can give a table.
const hostile = `<img src=x onerror="document.title='hacked'">`

// scene is a daemon whose status is made for each request, so that ages stay.
type scene struct {
	*httpapitest.Daemon
	status func() httpapi.Status
}

func (s *scene) Status() httpapi.Status { return s.status() }

func scenes() map[string]*scene {
	of := func(streams func() []httpapi.StreamStatus, change ...func(*httpapi.Status)) *scene {
		return &scene{&httpapitest.Daemon{}, func() httpapi.Status {
			status := statusOf(streams())
			for _, c := range change {
				c(&status)
			}
			return status
		}}
	}
	all := map[string]*scene{
		"healthy": of(healthy), "backlog": of(backlog), "outage": of(waiting, busAway), "stopped": of(stopped), "guard": of(guarded), "paused": of(paused),
		"large": of(large), "many": of(many), "twenty": of(twenty), "allWait": of(allWait, busAway), "one": of(one), "hostile": of(hostileNames), "gone": of(gone, shared),
		// A process that waits, beside one of an earlier version that refuses its parameters.
		"standby": of(starting, waits), "upgrade": of(starting, waits), "former": of(healthy), "lost": of(healthy), "token": of(guarded),
	}
	all["guard"].Resent = httpapi.ResentAll{
		Found: 2, States: map[shard.ResendState]int{shard.ResendPublished: 2},
		DeadLetters: []httpapi.ResentDeadLetter{
			{Shard: "stock", Row: 4711, Key: "eu+17", Reason: "the record has 1200000 bytes", ResendOutcome: shard.ResendOutcome{State: shard.ResendPublished}},
			{Shard: "stock", Row: 4712, Key: "eu+18", Reason: "the record has 1300000 bytes", ResendOutcome: shard.ResendOutcome{State: shard.ResendPublished}},
		},
	}
	return all
}

func ptr[T any](v T) *T { return &v }

func before(d time.Duration) null.Time { return null.At(time.Now().Add(-d).UTC()) }

func statusOf(streams []httpapi.StreamStatus) httpapi.Status {
	up := func(kind, address string) *httpapi.DependencyStatus {
		return &httpapi.DependencyStatus{Kind: kind, Address: address, Answers: ptr(true)}
	}
	return httpapi.Status{
		Started: before(76 * time.Hour).Time, Delivery: "at-least-once", Epoch: 7, Version: "1.4.0", Streams: streams,
		Source: up("mysql", "db-1.shop.example:3306"), Bus: up("kafka", "kafka-1:9092,kafka-2:9092"), Checkpoint: up("file", "/var/lib/bridge/checkpoint"),
	}
}

// hour is the rows of each minute, around so many, as people order.
func hour(around uint32, name string) []uint32 {
	chance := rand.New(rand.NewPCG(uint64(len(name)), uint64(name[len(name)-1])))
	minutes := make([]uint32, 60)
	for i := range minutes {
		wave := 1 + 0.3*math.Sin(float64(i)/9+float64(len(name)))
		minutes[i] = uint32(float64(around) * wave * (0.85 + 0.3*chance.Float64()))
	}
	minutes[59] /= 3
	return minutes
}

func table(name string, position uint64, perMinute uint32) shard.Status {
	s := shard.Status{
		Shard: name, State: "running", Position: position, Highest: position + 14, LagSeconds: ptr(0.4), LastPoll: before(time.Second),
		Gaps: shard.Gaps{Oldest: []ledger.Gap{}},
		Traffic: shard.Traffic{
			Published:   shard.Published{Rows: position, RowsPerSecond: float64(perMinute) / 60, LastHour: hour(perMinute, name)},
			DeadLetters: shard.DeadLetters{Reasons: []shard.DeadLetterCount{}},
		},
		Reconcile: &reconcile.Status{
			Progress:        reconcile.Progress{Result: reconcile.Result{StartedAt: before(9 * time.Minute), EndedAt: before(8 * time.Minute), Rows: position}, RowsOf: position, Percent: 100},
			VerifiedThrough: before(9 * time.Minute), NextAt: before(-12 * time.Minute),
		},
	}
	if perMinute == 0 {
		s.Published.LastHour = nil
	}
	return s
}

func streamOf(name string, kind event.Kind, shards ...shard.Status) httpapi.StreamStatus {
	return httpapi.StreamStatus{Name: name, Kind: kind, State: "running", Resendable: kind == "capability", CatchUp: stream.StreamProgress{Ready: true}, Shards: shards}
}

// healthy is a bridge with two streams, of which one has open gaps.
func healthy() []httpapi.StreamStatus {
	orders := table("shop.orders", 84_511_207, 2460)
	orders.OpenGaps, orders.Late = 3, 17
	orders.Gaps = shard.Gaps{Hot: 6, InFlight: 2, Cold: 41, OldestSeconds: 780, Oldest: []ledger.Gap{
		{First: 84_502_113, Last: 84_502_113, Missed: before(13 * time.Minute).Time}, {First: 84_511_188, Last: 84_511_192, Missed: before(4 * time.Second).Time},
	}}
	stock := table("shop.stock", 1_204_330, 190)
	stock.Reconcile.Added, stock.Reconcile.Modified = 1, 2
	return []httpapi.StreamStatus{streamOf("orders", "release", orders), streamOf("stock", "capability", stock)}
}

func one() []httpapi.StreamStatus { return healthy()[:1] }

func backlog() []httpapi.StreamStatus {
	orders := table("shop.orders", 31_400_000, 512_000)
	orders.Highest, orders.LagSeconds = 84_511_207, ptr(5430.0)
	orders.Backlog = &shard.Backlog{IDs: 53_111_207, Percent: 37.2, IDsPerSecond: 9100, SecondsLeft: ptr(5836.0)}
	return []httpapi.StreamStatus{streamOf("orders", "release", orders)}
}

func waiting() []httpapi.StreamStatus {
	all := healthy()
	for i := range all {
		s := &all[i].Shards[0]
		all[i].State, s.State, s.LagSeconds = "waiting", "waiting", ptr(94.0)
		s.Reason = "the bus has not acknowledged a batch for 1m34s"
		s.Remedy = "Bring back what does not answer. The shard then goes on by itself, and nothing is lost."
	}
	return all
}

func busAway(s *httpapi.Status) {
	s.Bus.Answers, s.Bus.Since, s.Bus.Error = ptr(false), before(95*time.Second), "dial tcp 10.0.3.7:9092: connect: connection refused"
}

func stopped() []httpapi.StreamStatus {
	all := healthy()
	s := &all[0].Shards[0]
	all[0].State, s.State, s.LagSeconds, s.Cause = "stopped", "stopped", nil, "denied"
	s.Reason = "access to the source denied: GRANT SELECT ON `shop`.`orders` TO `bridge`@`%`"
	s.Remedy = "Type the GRANT that the error names. bridge tries again every 10 s."
	return all
}

func paused() []httpapi.StreamStatus {
	all := healthy()
	s := &all[0].Shards[0]
	all[0].State, s.State, s.LagSeconds, s.PausedAt = shard.Paused, shard.Paused, nil, before(3*time.Hour)
	s.Reason = "a person has paused it at 2026-03-01T10:20:30Z: nothing of it is read or published"
	s.Remedy = "bridge resume orders has all its tables go on."
	return all
}

func guarded() []httpapi.StreamStatus {
	s := table("stock", 1_204_330, 190)
	s.State = shard.Degraded
	s.Reason = "412 of 1000 live entities (41.2%) have no row: at most 10% or 100 of them may be gone (BRIDGE_RECONCILE_MAX_DELETES). No delete is published."
	s.Remedy = "Look at the table first: was it truncated, restored or exchanged? If the rows were deleted on purpose, allow the deletes."
	s.DeadLetters = shard.DeadLetters{Count: 2, Reasons: []shard.DeadLetterCount{{Reason: "the record has N bytes", Count: 2}}}
	s.Reconcile.Guard, s.Reconcile.Absent = s.Reason, 412
	dry := &reconcile.Report{Result: reconcile.Result{DryRun: true, StartedAt: before(time.Minute), EndedAt: before(50 * time.Second), Absent: 412}}
	dry.Deleted = 412
	for i := range 100 {
		dry.Differences = append(dry.Differences, reconcile.Difference{What: "deleted", Row: uint64(900 + i), Entity: fmt.Sprintf("eu+%d", i+1)})
	}
	s.Reconcile.LastDryRun = dry
	one := streamOf("stock", "capability", s)
	one.State = shard.Degraded
	return []httpapi.StreamStatus{one}
}

// large is a stream with 1,000 tables, a few of which need a person.
func large() []httpapi.StreamStatus {
	shards := make([]shard.Status, 1000)
	for i := range shards {
		shards[i] = table(fmt.Sprintf("shop.orders_%04d", i), uint64(40_000+i*37), uint32(i%5)*12)
		shards[i].LagSeconds = ptr(float64(i%10) / 10)
	}
	for i, state := range map[int]shard.State{7: "stopped", 204: "waiting", 300: "waiting"} {
		shards[i].State = state
		shards[i].Reason, shards[i].Remedy = null.Text("missing in the source: the table "+shards[i].Shard), "Create the table."
	}
	shards[42].LagSeconds = ptr(340.0)
	shards[42].Backlog = &shard.Backlog{IDs: 18_000, Percent: 61, IDsPerSecond: 420, SecondsLeft: ptr(43.0)}
	large := streamOf("orders", "capability", shards...)
	large.State = "stopped"
	return []httpapi.StreamStatus{large}
}

// many are streams with a table each, of which one is stopped.
func many() []httpapi.StreamStatus {
	all := make([]httpapi.StreamStatus, 200)
	for i := range all {
		name := fmt.Sprintf("%s-%03d", []string{"orders", "customers", "stock", "invoices"}[i%4], i)
		s := table("shop."+strings.ReplaceAll(name, "-", "_"), uint64(40_000+i*3701), uint32(i%7)*130)
		all[i] = streamOf(name, []event.Kind{event.Release, event.Capability}[i%2], s)
	}
	one := &all[120]
	one.State, one.Shards[0].State, one.Shards[0].LagSeconds, one.Shards[0].Cause = "stopped", "stopped", nil, "denied"
	one.Shards[0].Reason = "access to the source denied: GRANT SELECT ON `shop`.`orders_120` TO `bridge`@`%`"
	one.Shards[0].Remedy = "Type the GRANT that the error names. bridge tries again every 10 s."
	return all
}

// twenty are streams with 1 to 5 tables, in all states.
func twenty() []httpapi.StreamStatus {
	all := many()[:20]
	for i := range all {
		for n := 2; n <= i%5+1; n++ {
			all[i].Shards = append(all[i].Shards, table(fmt.Sprintf("%s_%d", all[i].Shards[0].Shard, n), uint64(9000*n), uint32(n)*40))
		}
	}
	become := func(i int, of httpapi.StreamStatus) {
		name := all[i].Shards[0].Shard
		all[i].State, all[i].Shards[0] = of.State, of.Shards[0]
		all[i].Shards[0].Shard = name
	}
	become(3, stopped()[0])
	become(4, guarded()[0])
	become(9, waiting()[0])
	become(13, starting()[0])
	become(14, backlog()[0])
	all[17].CatchUp = stream.StreamProgress{Messages: 7000, Left: 120_000, SecondsLeft: 40}
	all[18].Shards[0].DeadLetters = shard.DeadLetters{Count: 3, Reasons: []shard.DeadLetterCount{{Reason: "the record has N bytes", Count: 3}}}
	return all
}

// allWait are the many streams while the bus is away.
func allWait() []httpapi.StreamStatus {
	all := many()
	for i := range all {
		s := &all[i].Shards[0]
		all[i].State, s.State, s.LagSeconds, s.Cause = "waiting", "waiting", ptr(94.0), ""
		s.Reason, s.Remedy = waiting()[0].Shards[0].Reason, waiting()[0].Shards[0].Remedy
	}
	return all
}

func hostileNames() []httpapi.StreamStatus {
	a, b := table(hostile, 1<<60+1, 60), table("b", 5, 60)
	a.State, a.Reason, a.Remedy = "stopped", "no such table: "+hostile, hostile
	one := streamOf(hostile, "release", a, b)
	one.State = "stopped"
	return []httpapi.StreamStatus{one}
}

// gone has a stream of a pattern whose second table was dropped.
func gone() []httpapi.StreamStatus {
	all := healthy()
	dropped := table("shop.stock_2", 0, 0)
	dropped.State, dropped.LagSeconds, dropped.LastPoll, dropped.Reconcile = shard.Gone, nil, null.Time{}, nil
	dropped.Reason, dropped.Remedy = "the server that takes the writes has no such table: what was published of it stays", "Nothing, if its entities are to stay."
	all[1].Shards = append(all[1].Shards, dropped)
	return all
}

func starting() []httpapi.StreamStatus {
	all := healthy()
	for i := range all {
		all[i].State, all[i].Shards[0].State = "starting", "starting"
	}
	return all
}

func shared(s *httpapi.Status) { s.Share = &share.Share{Index: 2, Number: 8} }

func waits(s *httpapi.Status) {
	s.Standby = &standby.Status{
		Group: "shop", Member: "b", Host: "node-2", Working: "a", WorkingHost: "node-1", WorkingAddr: "node-1:8080", Since: before(3 * time.Hour),
		Waiting:   []standby.Waiting{{Member: "b", Host: "node-2", Ready: true}, {Member: "c", Host: "node-3", Differing: []string{"BRIDGE_STREAM_ORDERS_KEY"}}},
		Differing: []string{},
	}
	for i := range s.Standby.Waiting {
		if s.Standby.Waiting[i].Differing == nil {
			s.Standby.Waiting[i].Differing = []string{}
		}
	}
}
