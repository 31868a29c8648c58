package app

import (
	"regexp"
	"testing"

	"bridge/internal/monitoring"
)

// TestBoardAndAlertsAskForWhatThereIs compares them with the metrics that are registered.
func TestBoardAndAlertsAskForWhatThereIs(t *testing.T) {
	t.Parallel()
	names := []string(registered())
	for _, found := range regexp.MustCompile(`(?m)^# TYPE ((?:go|process)_[a-z_]+) `).FindAllStringSubmatch(newMetrics(t), -1) {
		names = append(names, found[1])
	}
	for _, name := range monitoring.Unshown(names) {
		t.Errorf("%s is neither on the board nor for debugging only: add it to internal/monitoring, sections or DebugOnly", name)
	}
	for _, name := range monitoring.Unknown(names) {
		t.Errorf("the board or an alert asks for %s, which is not registered", name)
	}
}
