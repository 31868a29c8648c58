package world

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/workload"
)

// Verdict is what a judge found.
type Verdict struct {
	// Lost are the rows that were committed, are still there and were not published.
	Lost []workload.Row
	// faults are all other findings, the first few of each kind; Counts has how many there are of a
	// kind.
	faults []string
	Counts map[string]int
	// Published counts distinct events, Repeated those that came once more, Doubtful rows whose
	// COMMIT was never answered.
	Published, Repeated, Doubtful int
	// Repeats tell of the first repeats where both messages lie. Forgotten counts the events that
	// came once more since the bus had forgotten them.
	Repeats   []string
	Forgotten int
	// Ops counts the events by what they say, Origins by how the program noticed.
	Ops, Origins map[string]int
	// Delays are from the answer to the COMMIT until a consumer had the event, by the origin;
	// ascending.
	Delays map[string][]time.Duration
	// Orphans counts events that follow on one that the bus has lost, Restated those that say once
	// more what the one before says.
	Restated, Orphans int
	// Behind counts first messages that came behind those of a younger run (see Expect.Frozen).
	Behind int
}

const faultsShown = 3

func newVerdict() Verdict {
	return Verdict{Counts: make(map[string]int), Ops: make(map[string]int), Origins: make(map[string]int), Delays: make(map[string][]time.Duration)}
}

// Add notes a fault of a kind.
func (v *Verdict) Add(kind, format string, args ...any) {
	if v.Counts[kind]++; v.Counts[kind] <= faultsShown {
		v.faults = append(v.faults, kind+": "+fmt.Sprintf(format, args...))
	}
}

func (v *Verdict) Late() int { return v.Origins["late"] }

// Delay returns the delays of all events, ascending.
func (v *Verdict) Delay() (all []time.Duration) {
	for _, delays := range v.Delays {
		all = append(all, delays...)
	}
	slices.Sort(all)
	return all
}

// Wrong returns what is wrong, empty when nothing is.
func (v *Verdict) Wrong() string {
	list := slices.Clone(v.faults)
	for _, kind := range slices.Sorted(maps.Keys(v.Counts)) {
		if n := v.Counts[kind]; n > faultsShown {
			list = append(list, fmt.Sprintf("%s: %d in all", kind, n))
		}
	}
	for i, row := range v.Lost {
		if i == faultsShown {
			list = append(list, fmt.Sprintf("lost: %d rows in all", len(v.Lost)))
			break
		}
		list = append(list, fmt.Sprintf("lost: %s of %s, committed %s after it was begun", row.Token, row.Table, row.CommitEnded.Sub(row.Begun)))
	}
	return strings.Join(list, "\n")
}

func (v *Verdict) String() string {
	var delays []string
	for _, origin := range slices.Sorted(maps.Keys(v.Delays)) {
		delays = append(delays, origin+" "+FormatDelays(v.Delays[origin]))
	}
	return fmt.Sprintf("%d events published, %d repeats, %d doubtful, %d lost, %v, origins %v; from commit to consumer: %s",
		v.Published, v.Repeated, v.Doubtful, len(v.Lost), v.Ops, v.Origins, strings.Join(delays, ", "))
}

// Percentile returns the value below which the part p of ascending values lies.
func Percentile(ascending []time.Duration, p float64) time.Duration {
	if len(ascending) == 0 {
		return 0
	}
	return ascending[min(len(ascending)-1, int(p*float64(len(ascending))))]
}

// FormatDelays describes ascending delays for a log.
func FormatDelays(ascending []time.Duration) string {
	if len(ascending) == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %s p99 %s max %s", Percentile(ascending, 0.5).Round(time.Millisecond),
		Percentile(ascending, 0.99).Round(time.Millisecond), ascending[len(ascending)-1].Round(time.Millisecond))
}

// Figures are what came of a world that was published while it was harmed.
type Figures struct {
	// Events counts distinct events, Repeated those that were stored once more with the same id and
	// bytes.
	Events   int `json:"events"`
	Repeated int `json:"repeated"`
	// Bound is how many may be repeated: the batches that can have been in flight at each cut. 0 is
	// none, or as many as it takes where a checkpoint or a bus is behind.
	Bound int `json:"repeatedAtMost,omitempty"`
	// Lost counts committed rows and states that never came, OtherID facts that came again as
	// another event, Disorder states that came behind newer ones, RolledBack what was never
	// committed, Wrong events that are not what the table had, False entities that the bus folds to
	// something else than the table.
	Lost       int `json:"lost"`
	OtherID    int `json:"otherId"`
	Disorder   int `json:"outOfOrder"`
	RolledBack int `json:"rolledBack"`
	Wrong      int `json:"wrongContent"`
	False      int `json:"falseAtTheEnd"`
	// The next two are as they have to be where the bus has lost messages, and are counted so that
	// a reader sees them. Orphans counts events that follow on one that is lost, Restated those
	// that say once more what the bus still has.
	Orphans  int `json:"orphans,omitempty"`
	Restated int `json:"restated,omitempty"`
	// Behind counts what a process that stood still has stored behind its successor.
	Behind int `json:"behind,omitempty"`
	// Late counts the late rows of Orders.
	Late int `json:"-"`
	// Findings say what is not as it has to be.
	Findings []string `json:"findings,omitempty"`
}

// Find notes what is not as it has to be.
func (f *Figures) Find(format string, args ...any) {
	f.Findings = append(f.Findings, fmt.Sprintf(format, args...))
}

func (f *Figures) count(stream string, v *Verdict) {
	f.Events += v.Published
	f.Repeated += v.Repeated
	f.Lost += len(v.Lost)
	for kind, n := range v.Counts {
		switch kind {
		case "repeated otherwise", "one id for two events", "nothing new":
			f.OtherID += n
		case "rolled back", "not committed":
			f.RolledBack += n
		case "order of an entity", "not ascending", "out of order", "link", "operation":
			f.Disorder += n
		case "missing":
			f.Lost += n
		case "stale", "extra", "deleted though it existed all the while":
			f.False += n
		default:
			f.Wrong += n
		}
	}
	if wrong := v.Wrong(); wrong != "" {
		f.Find("%s: %s", stream, strings.ReplaceAll(wrong, "\n", "; "))
	}
}

// Figures judges a world with rows and entities at its end: both streams, the log, and what `bridge
// verify` says. What has vanished, and what was changed without a trace, a reconcile finds before.
func (p *Publisher) Figures(expect Expect) Figures {
	p.T.Helper()
	expect.Reconciled = expect.Lossy
	rows := p.Verdict(Orders, expect)
	p.of(Strict).ReconcileByHTTP(Strict, "")
	return p.figures(rows, p.Verdict(Strict, expect), expect)
}

func (p *Publisher) figures(rows, entities *Verdict, expect Expect) (f Figures) {
	p.T.Helper()
	f.count(Orders, rows)
	f.Late = rows.Late()
	f.Orphans, f.Restated, f.Behind = entities.Orphans, entities.Restated, rows.Behind+entities.Behind
	f.count(Strict, entities)
	for _, d := range p.processes() {
		f.Findings = append(f.Findings, repeatedComplaints(d.Log.String())...)
	}
	p.verify(&f, expect)
	return f
}

// verify asks the program's own judge, which has to agree. Where the bus has lost messages it may
// find that they are not there any more, and as many broken links to them; where a process stood
// still, that so few messages came out of order. What is missing or false is none of that.
func (p *Publisher) verify(f *Figures, expect Expect) {
	p.T.Helper()
	report := Verify(p.T, p.Env)
	found := report.Faults()
	if found["brokenLink"] > 0 {
		found["brokenLink"] += report.Healed("brokenLink")
	}
	only := func(explained func(fault string, n int) bool) bool {
		for fault, n := range found {
			if !strings.HasPrefix(fault, "not judged ") && !explained(fault, n) {
				return false
			}
		}
		return true
	}
	behind := expect.Frozen && only(func(fault string, n int) bool { return fault == "outOfOrder" && n <= f.Behind })
	lost := expect.Lossy && only(func(fault string, n int) bool { return fault == "lost" || fault == "brokenLink" && n == f.Orphans })
	if !report.Good && !behind && !lost {
		f.Find("bridge verify: %d orphans and %.600s", f.Orphans, fmt.Sprint(report))
	}
}

// MostRepeats returns how many messages may be stored twice where the program, or the bus, was cut
// off so often in the midst of batches (invariant 6). One cut can leave a batch of each table on
// its way to the bus: those may arrive when catch-up has read its end, and their rows are then
// published again. A process of all tables has two; of shares cuts counts the tables that were cut
// off. JetStream drops all repeats, and exactly-once has none.
func (p *Publisher) MostRepeats(cuts int) int {
	p.T.Helper()
	if p.Bus.NATS != nil || p.Bus.Once() {
		return 0
	}
	rows := must.Get(strconv.Atoi(p.Env["BRIDGE_BATCH_ROWS"]))(p.T)
	if p.Shares == nil {
		cuts *= 2
	}
	return cuts * rows
}

// BoundRepeats notes it when more was stored twice than may be.
func (f *Figures) BoundRepeats(bound int) {
	if f.Bound = bound; f.Repeated > bound {
		f.Find("%d messages were stored twice, at most %d may be", f.Repeated, bound)
	}
}

// MustHold waits until all is published. It fails the test unless all is there as the writers and
// the tables have it, and no more than repeats were stored twice.
func (p *Publisher) MustHold(repeats int, expect Expect) Figures {
	p.T.Helper()
	p.AllPublished()
	f := p.Figures(expect)
	f.BoundRepeats(repeats)
	p.T.Logf("%s: %+v", p.Bus, f)
	if len(f.Findings) > 0 {
		p.T.Error(strings.Join(f.Findings, "\n"))
	}
	return f
}

var complaint = regexp.MustCompile(`^time=(\S+) level=(?:WARN|ERROR) msg=("[^"]*"|\S+)(.*)$`)

var whereabouts = regexp.MustCompile(` (?:dependency|stream|shard)=(?:"[^"]*"|\S+)`)

// repeatedComplaints returns the complaints that a log repeats more often than once a minute. A
// fault that has ended may begin again after 10 s. Each start of the program begins again: a
// process cannot know what the one before it has said.
func repeatedComplaints(log string) (found []string) {
	last := make(map[string]time.Time)
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, StartLine) {
			clear(last)
		}
		parts := complaint.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		// A row that is put aside has a line of its own.
		if parts == nil || strings.Contains(parts[2], "dead letter") {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, parts[1])
		if err != nil {
			continue
		}
		what, pause := parts[2]+parts[3], 59*time.Second
		if strings.HasPrefix(parts[2], `"outage `) {
			what = parts[2] + strings.Join(whereabouts.FindAllString(parts[3], -1), "")
		}
		if strings.HasPrefix(parts[2], `"outage begins`) || strings.HasPrefix(parts[2], `"outage is back`) {
			pause = 9 * time.Second
		}
		if before, ok := last[what]; ok && at.Sub(before).Abs() < pause {
			found = append(found, fmt.Sprintf("the log repeats %s after %s: %s", what, at.Sub(before), parts[0]))
		}
		last[what] = at
	}
	return found
}

// Sections judges a world with rows and entities piece by piece, and forgets what is judged, also
// in the record of the rows. What it keeps to find what comes again takes about 100 bytes an event.
type Sections struct {
	*Publisher
	rows, entities section
}

type section struct {
	stream string
	judge  *Judge
	read   Offsets
}

// InSections returns what judges the world from its beginning. Call it before there are writers.
func (p *Publisher) InSections() *Sections {
	p.T.Helper()
	expect := Expect{Sampled: true}
	return &Sections{
		Publisher: p,
		rows:      section{stream: Orders, judge: p.newJudge(Orders, expect)},
		entities:  section{stream: Strict, judge: p.newJudge(Strict, expect)},
	}
}

// EndSection judges what has come since the last section, as strictly as Publisher.Figures save
// that schemas are sampled. The writers have ended, and all is published.
func (s *Sections) EndSection() {
	s.T.Helper()
	s.ReconcileByHTTP(Strict, "")
	s.rows.judge.AddRows(s.World.Rows.Forget()...)
	s.entities.judge.SetHistories(s.World.Entities.Histories())
	for _, of := range []*section{&s.rows, &s.entities} {
		of.read = s.Bus.ReadFrom(s.T, s.Destination(of.stream), of.read, of.judge.Message)
		s.compareTable(of.stream, of.judge)
		of.judge.EndSection()
	}
}

// Figures returns what was found in all sections, at the end of the last one, with what `bridge
// verify` says of all that the bus holds.
func (s *Sections) Figures() Figures {
	s.T.Helper()
	return s.figures(&s.rows.judge.Verdict, &s.entities.judge.Verdict, Expect{})
}
