package world

import (
	"fmt"
	"strconv"
	"strings"
)

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
	// Wrongs say what is not as it has to be.
	Wrongs []string `json:"-"`
}

// Find notes what is not as it has to be.
func (f *Figures) Find(format string, args ...any) {
	f.Wrongs = append(f.Wrongs, fmt.Sprintf(format, args...))
}

// count adds a verdict.
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
	p.ReconcileByHTTP(Strict, "")
	return p.figures(rows, p.Verdict(Strict, expect), expect)
}

// figures counts the verdicts, and what the log and `bridge verify` say.
func (p *Publisher) figures(rows, entities *Verdict, expect Expect) (f Figures) {
	p.T.Helper()
	f.count(Orders, rows)
	f.Late = rows.Late()
	f.Orphans, f.Restated, f.Behind = entities.Orphans, entities.Restated, rows.Behind+entities.Behind
	f.count(Strict, entities)
	f.Wrongs = append(f.Wrongs, repeatedComplaints(p.Log.String())...)
	p.verify(&f, expect)
	return f
}

// verify asks the program's own judge, which has to agree.
func (p *Publisher) verify(f *Figures, expect Expect) {
	p.T.Helper()
	report := Verify(p.T, p.Env)
	found := report.Faults()
	if found["brokenLink"] > 0 {
		found["brokenLink"] += report.Healed("brokenLink")
	}
	explained := expect.Frozen && onlyBehind(found, f.Behind) || expect.Lossy && onlyLost(found, f.Orphans)
	if !report.Good && !explained {
		f.Find("bridge verify: %d orphans and %.600s", f.Orphans, fmt.Sprint(report))
	}
}

// onlyLost reports whether all that bridge verify has found is that messages are not on the bus any
// more, and so many broken links to them.
func onlyLost(found map[string]int, links int) bool {
	for fault, n := range found {
		switch {
		case strings.HasPrefix(fault, "not judged "), fault == "lost", fault == "brokenLink" && n == links:
		default:
			return false
		}
	}
	return true
}

// onlyBehind reports whether all that bridge verify has found is that so few messages came out of
// order: what is missing or false is none of that.
func onlyBehind(found map[string]int, behind int) bool {
	for fault, n := range found {
		if !strings.HasPrefix(fault, "not judged ") && (fault != "outOfOrder" || n > behind) {
			return false
		}
	}
	return true
}

// inFlight is how many batches of both streams one cut can leave on their way to the bus: those may
// arrive when catch-up has read its end, and their rows are then published again. A shard has one.
const inFlight = 2

// MostRepeats returns how many messages may be stored twice where the program, or the bus, was cut
// off so often in the midst of batches (invariant 6). JetStream drops all repeats, and exactly-once
// has none.
func (p *Publisher) MostRepeats(cuts int) int {
	p.T.Helper()
	if p.Bus.NATS != nil || p.Bus.Once() {
		return 0
	}
	rows, err := strconv.Atoi(p.Env["BRIDGE_BATCH_ROWS"])
	check(p.T, err)
	return cuts * inFlight * rows
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
	if len(f.Wrongs) > 0 {
		p.T.Error(strings.Join(f.Wrongs, "\n"))
	}
	return f
}
