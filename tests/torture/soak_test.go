package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"bridge/tests/testenv"
	"bridge/tests/workload"
	"bridge/tests/world"
)

// faultEvery is the time from one fault of a soak to the next; one that takes longer delays it.
const faultEvery = 10 * time.Second

// longestSection is how long a soak goes on until what has come is judged and forgotten. A shorter
// soak has three sections.
const longestSection = 5 * time.Minute

// warm is when the first look at the footprint is: bridge remembers ten minutes of changes, and the
// cache of its store fills with what the stream of entities writes in about as long. A shorter soak
// looks after a third of its time.
const warm = 20 * time.Minute

// soakName stands for the fault of a soak, which is many.
const soakName = "soak"

// soakScore is what came of a soak on one bus.
type soakScore struct {
	score
	Rows     int            `json:"rows"`
	Faults   map[string]int `json:"faults"`
	Early    footprint      `json:"early"`
	Late     footprint      `json:"late"`
	Duration seconds        `json:"durationSeconds"`
	// Sections are in their order; there are none in results from before soaks had them.
	Sections []section `json:"sections,omitempty"`
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
	// footprint is that of the last minute in which the writers wrote.
	footprint
	// TestMemory is RssAnon of the process that judges, of all soaks beside one another.
	TestMemory float64 `json:"testRssAnonMiB"`
}

// soaks are the results of one run.
type soaks struct {
	Soaks []soakScore `json:"soaks"`
}

// footprint is what the process takes; medians over a while.
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
	var scores []soakScore
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
				scores = append(scores, s)
			})
		}
	})
	slices.SortFunc(scores, func(a, b soakScore) int { return len(b.Bus) - len(a.Bus) })
	for _, s := range scores {
		fmt.Fprintf(os.Stderr, "torture: soak on %s for %.0f s, %d rows, %s a second, writers wrote %s %% of the time, faults %v: %s; early %+v, late %+v\n",
			s.Bus, float64(s.Duration), s.Rows, s.PerSecond(), s.WritingPercent(), s.Faults, s.score, s.Early, s.Late)
	}
	if *tortureWrite == "" {
		return
	}
	err := writeJSON(filepath.Join(resultsFolder(), soakFile), soaks{scores})
	if err == nil {
		err = writePage(resultsFolder())
	}
	if err != nil {
		t.Error(err)
	}
}

// soakTrial is a trial with many faults.
type soakTrial struct{ *trial }

// soak has one program live through d of faults that pass by themselves.
func (on *servers) soak(t *testing.T, d time.Duration) (s soakScore) {
	f := fault{name: soakName, family: "soak", repeats: true, prepare: through}
	tr := soakTrial{on.trial(f)}
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
	tr.prepare(t, world.Program{}.Build(t), rows, states)
	through(tr.trial)
	tr.Env["BRIDGE_BATCH_ROWS"] = "2000"
	tr.smallSegments()
	// The table grows meanwhile: reconciled every few seconds, its size would be what is measured.
	tr.Env["BRIDGE_STREAM_STRICT_RECONCILE_INTERVAL"] = "30s"
	judged := tr.InSections()
	tr.Daemon.Start()

	begun, w := time.Now(), tr.watch()
	sections := max(3, int((d+longestSection-1)/longestSection))
	for i := range sections {
		s.Sections = append(s.Sections, tr.section(&s, w, begun.Add(d*time.Duration(i+1)/time.Duration(sections))))
		if i == sections-1 {
			s.Duration = inSeconds(time.Since(begun))
			s.Early, s.Late = w.around(min(warm, d/3)), w.around(time.Since(begun))
			s.grew(t, w.lowest(min(longestSection, d/3)))
			w.stop()
		}
		tr.judge(judged, &s.Sections[i])
	}
	s.Rows = tr.written()
	tr.score.Figures = judged.Figures()
	tr.conclude()
	return s
}

// smallSegments has Kafka keep little in the segments that it reads again after a kill.
func (tr soakTrial) smallSegments() {
	if tr.Bus.Kafka == nil {
		return
	}
	size := "67108864"
	for _, stream := range []string{facts, entities} {
		tr.Bus.Kafka.ConfigureTopic(tr.T, tr.Destination(stream), map[string]*string{"segment.bytes": &size})
	}
}

// section has the writers write, and does faults to the program, up to a moment.
func (tr soakTrial) section(s *soakScore, w *watch, end time.Time) section {
	before, begun := tr.written(), time.Now()
	tr.write()
	tr.CaughtUp(time.Minute, "what is written arrives")
	for next := time.Now(); time.Now().Before(end); next = next.Add(faultEvery) {
		world.Pause(time.Until(next))
		f := tr.pick()
		f.inject(tr.trial)
		s.Faults[f.name]++
		tr.report(f, w)
		next = latest(next, time.Now().Add(-faultEvery))
	}
	slowest := tr.score.Recovery
	tr.recovers()
	tr.score.Recovery = max(tr.score.Recovery, slowest)
	tr.stopWriters()
	return section{Rows: tr.written() - before, Written: inSeconds(time.Since(begun)), footprint: w.around(time.Since(w.begun))}
}

// judge judges a section whose writers have stopped.
func (tr soakTrial) judge(judged *world.Sections, s *section) {
	tr.T.Helper()
	begun := time.Now()
	tr.AllPublished()
	s.Drained, begun = inSeconds(time.Since(begun)), time.Now()
	judged.EndSection()
	s.Judged = inSeconds(time.Since(begun))
	debug.FreeOSMemory() // what is garbage is not counted
	rss, err := testenv.RSSAnon(os.Getpid())
	if err != nil {
		tr.T.Fatal(err)
	}
	s.TestMemory = float64(rss) / (1 << 20)
	fmt.Fprintf(os.Stderr, "torture: %-5s section: %+v\n", tr.score.Bus, *s)
}

// written counts rows and changes that were committed so far.
func (tr soakTrial) written() int {
	return tr.World.Rows.Record().Sums().Rows + changes(tr.World.Entities[entities])
}

// grew fails the test when the process takes more at the end than early on. lowest are the lowest
// values of the end: connections that a fault has cut off are there for a while.
func (s *soakScore) grew(t *testing.T, lowest footprint) {
	t.Helper()
	if s.Late.RSSAnon > 1.2*s.Early.RSSAnon {
		t.Errorf("RssAnon grew from %.0f to %.0f MiB", s.Early.RSSAnon, s.Late.RSSAnon)
	}
	if lowest.Goroutines > s.Early.Goroutines+10 || lowest.Files > s.Early.Files+10 {
		t.Errorf("grew from %+v to %+v and more", s.Early, lowest)
	}
}

func changes(w *workload.Capabilities) (n int) {
	for _, count := range w.Sums() {
		n += count
	}
	return n
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// pick chooses the next fault.
func (tr soakTrial) pick() fault {
	var list []fault
	for _, f := range allFaults() {
		if f.soaks && (f.only == "" || f.only == tr.score.Bus) {
			list = append(list, f)
		}
	}
	return list[tr.rng.IntN(len(list))]
}

// report writes a line for those who wait.
func (tr soakTrial) report(f fault, w *watch) {
	last := w.around(time.Since(w.begun))
	fmt.Fprintf(os.Stderr, "torture: %-5s %6s %-28s %d commits, RssAnon %.0f MiB, %.0f goroutines, %.0f files\n", tr.score.Bus,
		time.Since(w.begun).Round(time.Second), f.name, tr.World.Rows.Record().Sums().Commits, last.RSSAnon, last.Goroutines, last.Files)
}

// watch looks at the footprint of a process every second.
type watch struct {
	begun time.Time
	stop  func()
	mu    sync.Mutex
	looks []look
}

type look struct {
	at time.Duration
	footprint
}

func (tr soakTrial) watch() *watch {
	w := &watch{begun: time.Now()}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				w.add(tr.footprint())
			}
		}
	}()
	w.stop = sync.OnceFunc(func() { close(end); <-done })
	tr.T.Cleanup(w.stop)
	return w
}

func (w *watch) add(f footprint, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ok {
		w.looks = append(w.looks, look{time.Since(w.begun), f})
	}
}

// around returns the medians of the looks within the minute before a moment.
func (w *watch) around(at time.Duration) footprint {
	w.mu.Lock()
	defer w.mu.Unlock()
	var rss, goroutines, files []float64
	for _, l := range w.looks {
		if l.at > at-time.Minute && l.at <= at {
			rss, goroutines, files = append(rss, l.RSSAnon), append(goroutines, l.Goroutines), append(files, l.Files)
		}
	}
	return footprint{median(rss), median(goroutines), median(files)}
}

// lowest returns the lowest values of the last while.
func (w *watch) lowest(while time.Duration) (f footprint) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.looks {
		switch {
		case l.at < time.Since(w.begun)-while:
		case f == (footprint{}):
			f = l.footprint
		default:
			f = footprint{min(f.RSSAnon, l.RSSAnon), min(f.Goroutines, l.Goroutines), min(f.Files, l.Files)}
		}
	}
	return f
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// footprint looks at the process; ok is false when it does not answer.
func (tr soakTrial) footprint() (f footprint, ok bool) {
	rss, err := tr.RSSAnon()
	if err != nil {
		return f, false
	}
	f = footprint{RSSAnon: float64(rss) / (1 << 20), Goroutines: tr.Metric("go_goroutines"), Files: tr.Metric("process_open_fds")}
	return f, f.Goroutines > 0
}
