package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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

// faultsShown is how many faults of a kind are written out.
const faultsShown = 3

func newVerdict() Verdict {
	return Verdict{
		Ops: make(map[string]int), Origins: make(map[string]int),
		Delays: make(map[string][]time.Duration),
	}
}

// Add notes a fault of a kind.
func (v *Verdict) Add(kind, format string, args ...any) {
	if v.Counts == nil {
		v.Counts = make(map[string]int)
	}
	if v.Counts[kind]++; v.Counts[kind] <= faultsShown {
		v.faults = append(v.faults, kind+": "+fmt.Sprintf(format, args...))
	}
}

// Late counts the rows that were published as late.
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
