package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bridge/internal/workload"
)

// planted is a record of five rows and a tape that fits it.
func planted() ([]workload.Row, []received) {
	begun := time.Now()
	row := func(n int, fate workload.Fate) workload.Row {
		return workload.Row{
			Table: "orders", Entity: fmt.Sprintf("e-%d", n), Token: fmt.Sprintf("t-%d", n), Version: 1, Fate: fate,
			Begun: begun, CommitBegun: begun.Add(time.Second), CommitEnded: begun.Add(2 * time.Second),
		}
	}
	rows := []workload.Row{
		row(1, workload.Committed), row(2, workload.Committed), row(3, workload.RolledBack), row(4, workload.Unknown), row(5, workload.Committed),
	}
	// The fifth is another version of the first.
	rows[4].Entity, rows[4].Version = rows[0].Entity, 2
	return rows, []received{message(1, "e-1", "tail"), message(2, "e-2", "tail"), message(5, "e-1", "tail")}
}

func message(n int, entity, origin string) received {
	return received{
		place: "0", headers: map[string]string{"bridge-origin": origin}, at: time.Now().Add(3 * time.Second),
		value: fmt.Appendf(nil, `{"meta":{"id":"id-%d"},"data":{"token":"t-%d","entity":%q,"row":{"id":%d}}}`, n, n, entity, n),
	}
}

func TestTheJudgeOfTheLedgerFinds(t *testing.T) {
	steady := expectations{steady: true}
	for what, c := range map[string]struct {
		plant func(rows []workload.Row, tape []received) []received
		want  expectations
		found string
	}{
		"nothing in what is right":      {func(_ []workload.Row, p []received) []received { return p }, expectations{steady: true, ascending: true}, ""},
		"nothing in an exact repeat":    {func(_ []workload.Row, p []received) []received { return append(p, p[1]) }, expectations{steady: true, ascending: true}, ""},
		"nothing in a doubtful row":     {func(_ []workload.Row, p []received) []received { return append(p, message(4, "e-4", "late")) }, steady, ""},
		"a lost row":                    {func(_ []workload.Row, p []received) []received { return append(p[:1], p[2]) }, steady, "lost: t-2"},
		"a row that was rolled back":    {func(_ []workload.Row, p []received) []received { return append(p, message(3, "e-3", "late")) }, steady, "rolled back: row 3"},
		"a row before its commit":       {func(_ []workload.Row, p []received) []received { p[1].at = time.Now(); return p }, steady, "before its commit: row 2"},
		"an event of no row":            {func(_ []workload.Row, p []received) []received { return append(p, message(9, "e-9", "tail")) }, steady, "of no row"},
		"an event of another row":       {func(_ []workload.Row, p []received) []received { p[1] = message(2, "e-1", "tail"); return p }, steady, "not the row: row 2"},
		"what is not JSON":              {func(_ []workload.Row, p []received) []received { return append(p, received{value: []byte("{")}) }, steady, "not JSON"},
		"a late row that is not marked": {func(_ []workload.Row, p []received) []received { p[1], p[2] = p[2], p[1]; return p }, steady, "not marked as late: row 2"},
		"ids that do not ascend": {func(_ []workload.Row, p []received) []received {
			p[1], p[2] = p[2], message(2, "e-2", "late")
			return p
		}, expectations{ascending: true}, "not ascending: row 2"},
		"an entity in the wrong order": {func(_ []workload.Row, p []received) []received {
			p[0], p[2] = p[2], p[0]
			return p
		}, expectations{}, "order of an entity: version 1"},
		"a repeat with other bytes": {func(_ []workload.Row, p []received) []received {
			other := p[1]
			other.value = append([]byte(" "), other.value...)
			return append(p, other)
		}, steady, "repeated otherwise: row 2"},
		"a repeat with another id": {func(_ []workload.Row, p []received) []received {
			other := p[1]
			other.value = []byte(strings.Replace(string(other.value), "id-2", "id-7", 1))
			return append(p, other)
		}, steady, "repeated otherwise: row 2"},
		"two rows of one event id": {func(_ []workload.Row, p []received) []received {
			p[1].value = []byte(strings.Replace(string(p[1].value), "id-2", "id-1", 1))
			return p
		}, steady, "shared event id"},
		"an unknown origin": {func(_ []workload.Row, p []received) []received { p[1] = message(2, "e-2", ""); return p }, steady, "origin: row 2"},
	} {
		t.Run(what, func(t *testing.T) {
			rows, tape := planted()
			found := judgeTape(c.plant(rows, tape), rows, c.want).verdict()
			if c.found == "" && found != "" || !strings.Contains(found, c.found) {
				t.Errorf("found %q, want %q", found, c.found)
			}
		})
	}
}
