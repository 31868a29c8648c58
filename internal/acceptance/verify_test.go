package acceptance

import (
	"encoding/json"
	"testing"

	"bridge/internal/testenv"
)

// verifyReport is what `bridge verify --json` prints.
type verifyReport struct {
	Good     bool
	Messages int
	Streams  []struct {
		Stream, Kind string
		Rows, Events int
		Faults       []struct {
			Fault    string
			Count    int
			Examples []map[string]any
		}
		Unjudged []struct {
			Reason   string
			Count    int
			Examples []map[string]any
		}
	}
	Foreign struct{ Count int }
}

// runVerify runs bridge verify and fails the test when its exit status does not fit what it found.
func runVerify(t testing.TB, e env) verifyReport {
	t.Helper()
	status, stdout, stderr := bridge(t, e, "verify", "--json")
	var r verifyReport
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	if want := map[bool]int{true: 0, false: 1}[r.Good]; status != want {
		t.Errorf("exit status %d for %+v: %s", status, r, stderr)
	}
	return r
}

func TestVerifyACleanBus(t *testing.T) {
	eachBus(t, func(t *testing.T, b bus) {
		s := newScene(t, testenv.MariaDB(t), b)
		s.table.fill(20_000)
		d := newDaemon(t, binary(t, false), s.env)
		d.start()
		s.drained(d)
		if r := runVerify(t, s.env); !r.Good || r.Messages != 40_000 {
			t.Errorf("%+v", r)
		}
		_, out, _ := bridge(t, s.env, "verify")
		t.Log(out)
	})
}
