package torture

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

const (
	// faultEvery is the time from one fault of a soak to the next; one that takes longer delays it.
	faultEvery = 10 * time.Second
	// longestSection is how long a soak goes on until what has come is judged and forgotten. A
	// shorter soak has three sections.
	longestSection = 5 * time.Minute
	// warm is when the first look at the footprint is: bridge remembers ten minutes of changes, and
	// the cache of its store fills with what the stream of entities writes in about as long. A
	// shorter soak looks after a third of its time.
	warm = 20 * time.Minute
	// soakName stands for the fault of a soak, which is many.
	soakName = "soak"
)

type soakScore struct {
	score
	Rows     int            `json:"rows"`
	Faults   map[string]int `json:"faults"`
	Early    footprint      `json:"early"`
	Late     footprint      `json:"late"`
	Duration seconds        `json:"durationSeconds"`
	Sections []section      `json:"sections"`
}

// section is a part of a soak, at whose end the writers stop and what has come is judged.
type section struct {
	// Rows counts rows and changes that were committed in it.
	Rows int `json:"rows"`
	// Written is how long the writers wrote, Drained how long the program then took to catch up,
	// Judged how long it took to reconcile, read the bus and judge.
	Written seconds `json:"writtenSeconds"`
	Drained seconds `json:"drainedSeconds"`
	Judged  seconds `json:"judgedSeconds"`
	// footprint covers the last minute in which the writers wrote, lowest that of all of it:
	// connections that a fault has cut off are there for a while.
	footprint
	lowest footprint
	// TestMemory is RssAnon of the process that judges, of all soaks beside one another.
	TestMemory float64 `json:"testRssAnonMiB"`
}

type soaks struct {
	Soaks []soakScore `json:"soaks"`
}

// FaultCount is how many faults there were.
func (s *soakScore) FaultCount() (n int) {
	for _, count := range s.Faults {
		n += count
	}
	return n
}

// Written is how long the writers wrote.
func (s *soakScore) Written() (sum seconds) {
	for _, section := range s.Sections {
		sum += section.Written
	}
	return sum
}

// footprint has medians over a while.
type footprint struct {
	RSSAnon    float64 `json:"rssAnonMiB"`
	Goroutines float64 `json:"goroutines"`
	Files      float64 `json:"fileDescriptors"`
}

// soakTorture runs one program a bus for a long time, under 3,000 rows a second each and more, with
// a fault by chance every 10 s.
func soakTorture(t *testing.T) {
	*tortureShort = true
	var mu sync.Mutex
	var all soaks
	t.Run("soak", func(t *testing.T) {
		for _, name := range []string{"kafka", "nats"} {
			if *tortureBus != "" && *tortureBus != "both" && *tortureBus != name {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := startServers(t, name).soak(t, *tortureFor)
				mu.Lock()
				defer mu.Unlock()
				all.Soaks = append(all.Soaks, s)
			})
		}
	})
	slices.SortFunc(all.Soaks, func(a, b soakScore) int { return len(b.Bus) - len(a.Bus) })
	must.OK(t, page.ExecuteTemplate(os.Stderr, "soaks", all.Soaks))
	if *tortureWrite != "" {
		must.OK(t, writeResults(resultsFolder(), soakFile, all))
	}
}

type soakTrial struct{ *trial }

// soak has one program live through d of faults that pass by themselves.
func (on *servers) soak(t *testing.T, d time.Duration) (s soakScore) {
	tr := soakTrial{on.trial(fault{name: soakName, family: "soak", repeats: true})}
	s.Faults = make(map[string]int)
	defer func() {
		s.score = tr.score
		s.Passed = !t.Failed()
	}()
	rows, states := tr.load()
	// Three quarters of the transactions insert five rows in the mean: 3,600 rows and changes a
	// second while the writers write, 3,000 in the mean over faults and judging.
	rows.Writers, rows.Rate, rows.Mix.MultiRow = 24, 850, 0.75
	states.Rate, states.Writers, states.Entities = 320, 8, 20_000
	// With these as many entities go as come.
	states.Mix = workload.EveryChange()
	states.Mix[workload.Delete] = 8
	tr.prepare(t, world.Binary(t, false), rows, states)
	through(tr.trial)
	tr.Env["BRIDGE_BATCH_ROWS"] = "2000"
	// The table grows meanwhile: reconciled every few seconds, its size would be what is measured.
	tr.Env["BRIDGE_STREAM_STRICT_RECONCILE_INTERVAL"] = "30s"
	if tr.Bus.Kafka != nil {
		// The segments that it reads again after a kill are small.
		size := "67108864"
		for _, stream := range []string{facts, entities} {
			tr.Bus.Kafka.ConfigureTopic(tr.T, tr.Destination(stream), map[string]*string{"segment.bytes": &size})
		}
	}
	judged := tr.InSections()
	tr.Daemon.Start()

	begun := time.Now()
	sections := max(3, int((d+longestSection-1)/longestSection))
	for i := range sections {
		one := tr.section(s.Faults, begun.Add(d*time.Duration(i+1)/time.Duration(sections)))
		if s.Early == (footprint{}) && time.Since(begun) >= min(warm, d/3) {
			s.Early = one.footprint
		}
		s.Duration, s.Late = inSeconds(time.Since(begun)), one.footprint
		if i == sections-1 {
			if s.Late.RSSAnon > 1.2*s.Early.RSSAnon {
				t.Errorf("RssAnon grew from %.0f to %.0f MiB", s.Early.RSSAnon, s.Late.RSSAnon)
			}
			if low := one.lowest; low.Goroutines > s.Early.Goroutines+10 || low.Files > s.Early.Files+10 {
				t.Errorf("grew from %+v to %+v and more", s.Early, low)
			}
		}
		tr.judge(judged, &one)
		s.Sections = append(s.Sections, one)
	}
	s.Rows = tr.written()
	tr.conclude(judged.Figures())
	return s
}

func (tr soakTrial) section(faults map[string]int, end time.Time) section {
	before, begun := tr.written(), time.Now()
	tr.write()
	looks := tr.watch()
	tr.CaughtUp(time.Minute, "what is written arrives")
	for next := time.Now(); time.Now().Before(end); next = next.Add(faultEvery) {
		world.Pause(time.Until(next))
		var list []fault
		for _, f := range allFaults() {
			if f.soaks && (f.only == "" || f.only == tr.score.Bus) {
				list = append(list, f)
			}
		}
		f := list[tr.rng.IntN(len(list))]
		f.inject(tr.trial)
		faults[f.name]++
		fmt.Fprintf(os.Stderr, "torture: %-5s %s\n", tr.score.Bus, f.name)
		if late := time.Now().Add(-faultEvery); next.Before(late) {
			next = late
		}
	}
	slowest := tr.score.Recovery
	tr.recovers()
	tr.score.Recovery = max(tr.score.Recovery, slowest)
	tr.stopWriters()
	all := looks()
	last := all[max(0, len(all)-60):]
	return section{
		Rows: tr.written() - before, Written: inSeconds(time.Since(begun)),
		footprint: each(last, func(ascending []float64) float64 { return ascending[len(ascending)/2] }),
		lowest:    each(all, func(ascending []float64) float64 { return ascending[0] }),
	}
}

func (tr soakTrial) judge(judged *world.Sections, s *section) {
	tr.T.Helper()
	begun := time.Now()
	tr.AllPublished()
	s.Drained, begun = inSeconds(time.Since(begun)), time.Now()
	judged.EndSection()
	s.Judged = inSeconds(time.Since(begun))
	debug.FreeOSMemory() // what is garbage is not counted
	rss := must.Get(testenv.RSSAnon(os.Getpid()))(tr.T)
	s.TestMemory = float64(rss) / (1 << 20)
	fmt.Fprintf(os.Stderr, "torture: %-5s section: %+v\n", tr.score.Bus, *s)
}

func (tr soakTrial) written() int {
	n := tr.World.Rows.Sums().Rows
	for _, count := range tr.World.Entities.Sums() {
		n += count
	}
	return n
}

// watch looks at the process every second, until stop returns what it has seen.
func (tr soakTrial) watch() (stop func() []footprint) {
	var looks []footprint
	finish := world.Every(tr.T, time.Second, func() {
		rss, err := tr.RSSAnon()
		f := footprint{RSSAnon: float64(rss) / (1 << 20), Goroutines: tr.Metric("go_goroutines"), Files: tr.Metric("process_open_fds")}
		if err == nil && f.Goroutines > 0 { // else it does not answer
			looks = append(looks, f)
		}
	})
	return func() []footprint { finish(); return looks }
}

// each returns one value of each kind that looks have in ascending order.
func each(looks []footprint, one func(ascending []float64) float64) footprint {
	of := func(kind func(footprint) float64) float64 {
		values := make([]float64, 0, len(looks))
		for _, l := range looks {
			values = append(values, kind(l))
		}
		if len(values) == 0 {
			return 0
		}
		slices.Sort(values)
		return one(values)
	}
	return footprint{
		of(func(f footprint) float64 { return f.RSSAnon }), of(func(f footprint) float64 { return f.Goroutines }),
		of(func(f footprint) float64 { return f.Files }),
	}
}
