package acceptance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"bridge/internal/testenv"
)

// small is the limit of the destinations in bytes, tooLarge what does not fit.
const (
	small    = 20_000
	tooLarge = 40_000
)

// openSmall makes the place for a destination that takes small messages alone and returns what to set as DESTINATION.
func openSmall(t *testing.T, b bus, name string) string {
	t.Helper()
	switch b := b.(type) {
	case kafkaBus:
		limit := fmt.Sprint(small)
		b.server.CreateTopic(t, name, 2, map[string]*string{"max.message.bytes": &limit})
		return name
	case natsBus:
		b.server.CreateStream(t, jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Storage: jetstream.FileStorage, MaxMsgSize: small})
		return name + ".{type}"
	}
	t.Fatalf("no such bus: %T", b)
	return ""
}

// widen lets a place take larger messages.
func widen(t *testing.T, b bus, name string) {
	t.Helper()
	switch b := b.(type) {
	case kafkaBus:
		b.server.ConfigureTopic(t, name, map[string]*string{"max.message.bytes": nil})
	case natsBus:
		js := b.server.JetStream(t)
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		config.MaxMsgSize = -1
		if _, err := js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
}

// openLetters makes the place for dead letters and returns what to set as BRIDGE_DEAD_LETTER.
func openLetters(t *testing.T, b bus, name string) string {
	t.Helper()
	destination := b.open(t, name)
	if _, onNATS := b.(natsBus); onNATS {
		return name + ".letters"
	}
	return destination
}

// sentLetters is what bridge deadletter prints with --json.
type sentLetters struct {
	Good    bool
	Letters []struct {
		Stream, Key, EventID, SentEvent, Fate string
		RowID                                 uint64
		Count                                 int
	}
}

// deadLetters runs bridge deadletter and returns "stream/row fate" of each letter, sorted, once its exit status fits.
func deadLetters(t *testing.T, e env, status int, args ...string) []string {
	t.Helper()
	got, stdout, stderr := bridge(t, e, append([]string{"deadletter"}, append(args, "--json")...)...)
	var sent sentLetters
	if err := json.Unmarshal([]byte(stdout), &sent); err != nil || got != status {
		t.Fatalf("bridge deadletter %s: status %d, want %d, %v\n%s\n%s", strings.Join(args, " "), got, status, err, stdout, stderr)
	}
	var list []string
	for _, l := range sent.Letters {
		if l.Fate == "same" && l.SentEvent != l.EventID {
			t.Errorf("the same event has the id %s, not %s", l.SentEvent, l.EventID)
		}
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s/%d %s", l.Stream, l.RowID, l.Fate)))
	}
	slices.Sort(list)
	return list
}

func expectLetters(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the letters are\n%q, want\n%q", got, want)
	}
}

// letterScene is the tables things (states), facts and flood, on their way to destinations that take small messages.
func letterScene(t *testing.T, b bus) (table *revisions, e env, widenAll func()) {
	t.Helper()
	table = newRevisions(t, testenv.MariaDB(t))
	table.exec("CREATE TABLE things (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(64) NOT NULL UNIQUE, body longtext, changed datetime(6) NOT NULL DEFAULT now(6), KEY (changed))")
	e = b.env().with(env{
		"BRIDGE_SOURCE_URL": table.sourceURL(), "BRIDGE_STREAMS": "things,facts,flood", "BRIDGE_DEAD_LETTER": openLetters(t, b, table.name+"_dead"),
		"BRIDGE_POLL_INTERVAL": "20ms", "BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_RECONCILE_INTERVAL": "1h",
		"BRIDGE_STREAM_THINGS_KIND": "capability", "BRIDGE_STREAM_THINGS_KEY": "name", "BRIDGE_STREAM_THINGS_MODIFIED": "changed",
		"BRIDGE_STREAM_FACTS_KIND": "release", "BRIDGE_STREAM_FLOOD_KIND": "release",
	})
	for _, name := range []string{"things", "facts", "flood"} {
		if name != "things" {
			// Without a time of their own rows have that of their read.
			table.exec("CREATE TABLE " + name + " (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, body longtext)")
		}
		variable := "BRIDGE_STREAM_" + strings.ToUpper(name)
		e[variable+"_TABLE"], e[variable+"_DESTINATION"] = name, openSmall(t, b, table.name+"_"+name)
	}
	return table, e, func() {
		for _, name := range []string{"things", "facts"} {
			widen(t, b, table.name+"_"+name)
		}
	}
}

// TestDeadLetters takes rows that are too large for the bus through a whole round: letters, a limit that is raised, and consumers who have
// what is true.
func TestDeadLetters(t *testing.T) {
	eachBus(t, func(t *testing.T, b bus) {
		table, e, widenAll := letterScene(t, b)
		large := incompressible(tooLarge)
		table.exec("INSERT INTO things (name, body) VALUES ('a', 'x'), ('b', 'x')")
		table.exec("INSERT INTO facts (body) VALUES ('x'), (?), (?), (?), ('x')", large, large, large)
		table.exec("INSERT INTO flood (body) SELECT concat(seq, ?) FROM seq_1_to_150", large)
		d := newDaemon(t, binary(t, false), e)
		d.start()
		eventually(t, 30*time.Second, "drained", func() bool { return d.position("things") == 2 && d.position("facts") == 5 })
		table.exec("UPDATE things SET body = ?, changed = now(6) WHERE name = 'a'", large)
		table.exec("INSERT INTO things (name, body) VALUES ('c', ?), ('d', ?), ('e', ?)", large, large, large)
		eventually(t, 30*time.Second, "drained", func() bool { return d.position("things") == 5 && d.metric("bridge_dead_letters_total") == 7+100 })

		t.Run("more rows than the limit stop the stream, and a restart goes on", func(t *testing.T) {
			eventually(t, 30*time.Second, "stopped", func() bool { return d.shards("flood")[0].State == "stopped" })
			if got := d.shards("flood")[0]; got.Position > 100 || !strings.Contains(got.LastError, "BRIDGE_DEAD_LETTER_LIMIT") {
				t.Errorf("position %d: %s", got.Position, got.LastError)
			}
			d.term()
			d.start()
			eventually(t, 30*time.Second, "goes on", func() bool { return d.position("flood") == 150 })
			if n := len(deadLetters(t, d.env, 0, "list", "--stream", "flood")); n != 150 {
				t.Errorf("%d rows of 150 are dead letters", n)
			}
		})

		expectLetters(t, deadLetters(t, d.env, 0, "list", "--stream", "things"), "things/1", "things/3", "things/4", "things/5")
		expectLetters(t, deadLetters(t, d.env, 0, "list", "--stream", "facts"), "facts/2", "facts/3", "facts/4")
		expectLetters(t, deadLetters(t, d.env, 1, "resend", "--stream", "things", "--row", "3"), "things/3 refused")
		// Nobody sees these before a reconcile.
		table.exec("UPDATE things SET body = 'y' WHERE name = 'd'")
		table.exec("DELETE FROM things WHERE name = 'e'")
		table.exec("UPDATE facts SET body = 'y' WHERE id = 3")
		table.exec("DELETE FROM facts WHERE id = 4")
		widenAll()

		what := []string{"things/1 same", "things/3 same", "things/4 current", "things/5 current"}
		expectLetters(t, deadLetters(t, d.env, 0, "resend", "--stream", "things", "--dry-run"), what...)
		expectLetters(t, deadLetters(t, d.env, 0, "resend", "--stream", "things"), what...)
		d.term()
		expectLetters(t, deadLetters(t, d.env, 0, "resend", "--stream", "facts", "--dry-run"), "facts/2 same", "facts/3 current", "facts/4 gone")
		expectLetters(t, deadLetters(t, d.env, 0, "resend", "--stream", "facts"), "facts/2 same", "facts/3 current", "facts/4 gone")
		d.start()
		becomesReady(t, d)
		expectLetters(t, deadLetters(t, d.env, 0, "resend", "--stream", "facts"), "facts/2 same", "facts/3 current", "facts/4 gone")
		expectLetters(t, deadLetters(t, d.env, 0, "resend", "--stream", "things"), "things/1 same", "things/3 same", "things/4 superseded", "things/5 superseded")
		// The flood is still missing; what was refused of d and e nobody ever got.
		mustVerify(t, d.env, "missing 150", "not judged deadLetter 2")
	})
}
