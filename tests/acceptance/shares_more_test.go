package acceptance

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/world"
)

// TestMoreSharesThanTables: a process without a table is ready and does nothing. A second process
// of a share takes over from the first, which says so. A command without shares is refused. Then a
// process without shares goes on in the folder above theirs.
func TestMoreSharesThanTables(t *testing.T) {
	testall.Beside(t)
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		v := newVolatile(t, b.ExactlyOnce(t.Name()), 5)
		p := v.publish("beginning")
		s := &shared{Publisher: p, t: t, folder: filepath.Join(t.TempDir(), "folder")}
		s.begin(3)
		v.expect(p, "facts", 5)
		v.expect(p, "states", 5)
		owners := 0
		var owner int
		for i, d := range s.members {
			if n := len(d.Shards("facts")); n > 0 {
				owner = i
				owners += n
			}
			want := fmt.Sprintf(`"share":{"index":%d,"number":3}`, i)
			if _, got := d.Get("/api/v1/status"); !strings.Contains(strings.Join(strings.Fields(got), ""), want) {
				t.Errorf("the status of share %d: %.300s", i, got)
			}
		}
		if owners != 1 {
			t.Errorf("%d processes have the table", owners)
		}
		second := s.process(owner, 3)
		second.Env["BRIDGE_CHECKPOINT_URL"] = "bus://" + t.TempDir()
		second.Start()
		world.AwaitReady(t, second)
		v.insert("facts", "new", 3)
		v.expect(p, "facts", 8)
		world.AwaitUnready(t, s.members[owner], "another bridge publishes these streams")
		for _, d := range append(s.members, second) {
			d.Term()
		}
		// A command changes no number.
		status, _, text := world.Command(t, s.process(0, 0).Env, "reconcile")
		if status == 0 || !strings.Contains(text, "3 shares are in force, and the command has no shares") || !strings.Contains(text, "BRIDGE_SHARE") {
			t.Errorf("bridge reconcile ends with status %d: %s", status, text)
		}
		s.begin(0)
		v.insert("facts", "newer", 3)
		v.insert("states", "newer", 3)
		v.expect(p, "facts", 11)
		v.expect(p, "states", 8)
	})
}
