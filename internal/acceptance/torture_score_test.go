package acceptance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// seconds is a duration as the matrix writes it.
type seconds float64

func inSeconds(d time.Duration) seconds { return seconds(d.Round(10 * time.Millisecond).Seconds()) }

// score is one row of the matrix.
type score struct {
	Family string `json:"family"`
	Fault  string `json:"fault"`
	What   string `json:"what"`
	Bus    string `json:"bus"`
	// Seed, Short and Day tell the run that the row is from, Commit the sources that it ran; empty in results without it.
	Seed   uint64 `json:"seed"`
	Short  bool   `json:"short"`
	Day    string `json:"day"`
	Commit string `json:"commit,omitempty"`
	// Events counts distinct events, Repeated those that were stored once more with the same id and bytes.
	Events   int `json:"events"`
	Repeated int `json:"repeated"`
	// Bound is how many may be repeated: the batches that can have been in flight at each cut. 0 is none, or as many as it takes where a
	// checkpoint or a bus is behind.
	Bound int `json:"repeatedAtMost,omitempty"`
	// Lost counts committed rows and states that never came, OtherID facts that came again as another event, Disorder states that
	// came behind newer ones, RolledBack what was never committed, Wrong events that are not what the table had, False entities
	// that the bus folds to something else than the table.
	Lost       int `json:"lost"`
	OtherID    int `json:"otherId"`
	Disorder   int `json:"outOfOrder"`
	RolledBack int `json:"rolledBack"`
	Wrong      int `json:"wrongContent"`
	False      int `json:"falseAtTheEnd"`
	// The next four are as they have to be where what was known of entities is gone, and are counted so that a reader sees them. LeftOver
	// counts entities that are gone and that the bus still has: bridge verify names them all. Anew counts entities whose events begin
	// a second time, Restated events of those that have the id of an earlier one and other bytes: the row was touched in between. Orphans
	// counts events that follow on one that went with all that the bus had.
	LeftOver int `json:"leftOver,omitempty"`
	Anew     int `json:"begunAnew,omitempty"`
	Restated int `json:"restated,omitempty"`
	Orphans  int `json:"orphans,omitempty"`
	// Recovery is the time from the end of the harm until all that was committed before it is on the bus and the program is ready.
	Recovery seconds `json:"recoverySeconds"`
	// LogLines counts the lines that the program wrote.
	LogLines int `json:"logLines"`
	// Passed is false when anything was not as it has to be; Findings say what.
	Passed   bool     `json:"passed"`
	Findings []string `json:"findings,omitempty"`
}

func (s score) String() string {
	verdict := strings.ToUpper(strings.Trim(s.verdict(), "*"))
	return fmt.Sprintf("%s: %d events, %s repeated, lost %d, other id %s, out of order %s, rolled back %d, wrong %d, false %s, recovered in %.1f s",
		verdict, s.Events, s.repeats(), s.Lost, s.otherIDs(), s.disorder(), s.RolledBack, s.Wrong, s.falsehoods(), float64(s.Recovery))
}

// notRun begins the finding of a trial that was skipped: why follows.
const notRun = "not run"

// verdict is what the page says of a row.
func (s *score) verdict() string {
	switch {
	case s.Passed:
		return "passed"
	case slices.ContainsFunc(s.Findings, func(found string) bool { return strings.HasPrefix(found, notRun) }):
		return "**not run**"
	}
	return "**failed**"
}

// falsehoods is what the matrix says to be false at the end, with what is left over by design.
func (s *score) falsehoods() string {
	if s.LeftOver == 0 {
		return strconv.Itoa(s.False)
	}
	return fmt.Sprintf("%d (%d left over, all named by `bridge verify`)", s.False, s.LeftOver)
}

// otherIDs is what the matrix says of facts that came again as another event, with what comes again by design.
func (s *score) otherIDs() string {
	text := strconv.Itoa(s.OtherID)
	if s.Anew > 0 {
		text += fmt.Sprintf(" (%d entities begun anew, %d events restated)", s.Anew, s.Restated)
	}
	return text
}

// disorder is what the matrix says to be out of order, with what cannot be in order by design.
func (s *score) disorder() string {
	if s.Orphans == 0 {
		return strconv.Itoa(s.Disorder)
	}
	return fmt.Sprintf("%d (%d orphans)", s.Disorder, s.Orphans)
}

// repeats is what the matrix says of repeats, with how many there may be.
func (s *score) repeats() string {
	if s.Bound == 0 {
		return strconv.Itoa(s.Repeated)
	}
	return fmt.Sprintf("%d of ≤ %d", s.Repeated, s.Bound)
}

// kinds says which figure of a score a finding of a judge counts into; others are wrong content.
var kinds = map[string]func(*score) *int{
	"repeated otherwise":    func(s *score) *int { return &s.OtherID },
	"shared event id":       func(s *score) *int { return &s.OtherID },
	"one id for two events": func(s *score) *int { return &s.OtherID },
	"nothing new":           func(s *score) *int { return &s.OtherID },
	"rolled back":           func(s *score) *int { return &s.RolledBack },
	"not committed":         func(s *score) *int { return &s.RolledBack },
	"order of an entity":    func(s *score) *int { return &s.Disorder },
	"not ascending":         func(s *score) *int { return &s.Disorder },
	"out of order":          func(s *score) *int { return &s.Disorder },
	"link":                  func(s *score) *int { return &s.Disorder },
	"operation":             func(s *score) *int { return &s.Disorder },
	"missing":               func(s *score) *int { return &s.Lost },
	"stale":                 func(s *score) *int { return &s.False },
	"extra":                 func(s *score) *int { return &s.False },
	"deleted though it existed all the while": func(s *score) *int { return &s.False },
}

// count adds what a judge found.
func (s *score) count(stream string, a *account) {
	s.Events += a.published
	s.Repeated += a.repeated
	s.Lost += len(a.lost)
	for kind, n := range a.counts {
		figure := &s.Wrong
		if of := kinds[kind]; of != nil {
			figure = of(s)
		}
		*figure += n
	}
	if verdict := a.verdict(); verdict != "" {
		s.find("%s: %s", stream, strings.ReplaceAll(verdict, "\n", "; "))
	}
}

// find notes what is not as it has to be.
func (s *score) find(format string, args ...any) {
	s.Findings = append(s.Findings, fmt.Sprintf(format, args...))
}

// forgive takes the findings of a kind out.
func (a *account) forgive(kind string) {
	delete(a.counts, kind)
	a.faults = slices.DeleteFunc(a.faults, func(found string) bool { return strings.HasPrefix(found, kind+": ") })
}
