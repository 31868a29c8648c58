package verify

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/tests/must"
)

var update = flag.Bool("update", false, "write testdata/reports.txt")

// TestVerificationForPeople has reports with what a person sees of them.
func TestVerificationForPeople(t *testing.T) {
	configtest.Recorded(t, "testdata/reports.txt", *update, func(t *testing.T, input []string) string {
		var report Report
		must.OK(t, json.Unmarshal([]byte(strings.Join(input, "\n")), &report))
		return fmt.Sprintf("%skinds of fault: %d\n", report.Text(), report.KindsOfFault())
	})
}

func TestEveryFindingHasWords(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/findings.md"))(t)
	for _, of := range findings {
		if of.words == "" || !strings.Contains(string(page), "\n| `"+string(of.Code)+"` | ") {
			t.Errorf("no words for %s, or no row in docs/findings.md", of.Code)
		}
	}
}
