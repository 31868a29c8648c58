package torture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"bridge/tests/world"
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
	// Seed, Short and Day tell the run that the row is from, Commit the sources that it ran; empty
	// in results without it.
	Seed   uint64 `json:"seed"`
	Short  bool   `json:"short"`
	Day    string `json:"day"`
	Commit string `json:"commit,omitempty"`
	world.Figures
	// Recovery is the time from the end of the harm until all that was committed before it is on
	// the bus and the program is ready.
	Recovery seconds `json:"recoverySeconds"`
	// LogLines counts the lines that the program wrote.
	LogLines int `json:"logLines"`
	// Passed is false when anything was not as it has to be; Findings say what.
	Passed   bool     `json:"passed"`
	Findings []string `json:"findings,omitempty"`
}

func (s score) String() string {
	verdict := strings.ToUpper(strings.Trim(s.Verdict(), "*"))
	return fmt.Sprintf("%s: %d events, %s repeated, lost %d, other id %s, out of order %s, rolled back %d, wrong %d, false %d, recovered in %.1f s",
		verdict, s.Events, s.RepeatedCell(), s.Lost, s.OtherIDCell(), s.DisorderCell(), s.RolledBack, s.Wrong, s.False, float64(s.Recovery))
}

// notRun begins the finding of a trial that was skipped: why follows.
const notRun = "not run"

// Verdict is what the page says of a row.
func (s *score) Verdict() string {
	switch {
	case s.Passed:
		return "passed"
	case slices.ContainsFunc(s.Findings, func(found string) bool { return strings.HasPrefix(found, notRun) }):
		return "**not run**"
	}
	return "**failed**"
}

// OtherIDCell is what the matrix says of facts that came again as another event, with what comes
// again by design.
func (s *score) OtherIDCell() string {
	if s.Restated == 0 {
		return strconv.Itoa(s.OtherID)
	}
	return fmt.Sprintf("%d (%d restated)", s.OtherID, s.Restated)
}

// DisorderCell is what the matrix says to be out of order, with what cannot be in order by design.
func (s *score) DisorderCell() string {
	if s.Orphans == 0 {
		return strconv.Itoa(s.Disorder)
	}
	return fmt.Sprintf("%d (%d orphans)", s.Disorder, s.Orphans)
}

// RepeatedCell is what the matrix says of repeats, with how many there may be.
func (s *score) RepeatedCell() string {
	if s.Bound == 0 {
		return strconv.Itoa(s.Repeated)
	}
	return fmt.Sprintf("%d of ≤ %d", s.Repeated, s.Bound)
}

func (s *score) findings() string { return strings.Join(s.Findings, "\n") }

// find notes what is not as it has to be.
func (s *score) find(format string, args ...any) {
	s.Findings = append(s.Findings, fmt.Sprintf(format, args...))
}
