package acceptance

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/world"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

// small is the limit of the destinations in bytes, tooLarge what does not fit.
const (
	small    = 20_000
	tooLarge = 40_000
)

// large returns a text that no codec makes small enough.
func large() string {
	raw := make([]byte, tooLarge*3/4)
	rand.NewChaCha8([32]byte{}).Read(raw)
	return base64.StdEncoding.EncodeToString(raw)
}

type sentDeadLetters struct {
	Good        bool
	DeadLetters []struct {
		Stream, Key, EventID, SentEvent string
		Outcome                         string `json:"fate"`
		RowID                           uint64
		Count                           int
	} `json:"letters"`
}

// deadLetters runs bridge deadletter and returns "stream/row outcome" of each letter, sorted, once
// its exit status fits. The outcome of one that was published with its own id is "same".
func deadLetters(t *testing.T, e world.Env, status int, args ...string) []string {
	t.Helper()
	got, stdout, stderr := world.Command(t, e, append([]string{"deadletter"}, append(args, "--json")...)...)
	var sent sentDeadLetters
	if err := json.Unmarshal([]byte(stdout), &sent); err != nil || got != status {
		t.Fatalf("bridge deadletter %s: status %d, want %d, %v\n%s\n%s", strings.Join(args, " "), got, status, err, stdout, stderr)
	}
	var list []string
	for _, l := range sent.DeadLetters {
		if l.Outcome == "published" && l.SentEvent == l.EventID {
			l.Outcome = "same"
		}
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s/%d %s", l.Stream, l.RowID, l.Outcome)))
	}
	slices.Sort(list)
	return list
}

func expectDeadLetters(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the letters are\n%q, want\n%q", got, want)
	}
}

// deadLetterScene is the tables things (states), facts and flood, on their way to destinations that
// take small messages.
func deadLetterScene(t *testing.T, b *world.Bus) (table *world.World, e world.Env, widenAll func()) {
	t.Helper()
	table = world.Empty(t, testenv.MariaDB(t))
	table.Exec("CREATE TABLE things (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(64) NOT NULL UNIQUE, body longtext, changed datetime(6) NOT NULL DEFAULT now(6), KEY (changed))")
	e = b.Env().With(world.Env{
		"BRIDGE_SOURCE_URL": table.URL, "BRIDGE_STREAMS": "things,facts,flood", "BRIDGE_DEAD_LETTER": b.OpenDeadLetters(t, table.Name+"_dead"),
		"BRIDGE_POLL_INTERVAL": "20ms", "BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_RECONCILE_INTERVAL": "1h",
		"BRIDGE_STREAM_THINGS_KIND": "capability", "BRIDGE_STREAM_THINGS_KEY": "name", "BRIDGE_STREAM_THINGS_MODIFIED": "changed",
		"BRIDGE_STREAM_FACTS_KIND": "release", "BRIDGE_STREAM_FLOOD_KIND": "release",
	})
	for _, name := range []string{"things", "facts", "flood"} {
		if name != "things" {
			// Without a time of their own rows have that of their read.
			table.Exec("CREATE TABLE " + name + " (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, body longtext)")
		}
		e = e.With(world.StreamEnv(name, world.Env{"TABLE": name, "DESTINATION": b.Open(t, table.Name+"_"+name)}))
		b.Limit(t, table.Name+"_"+name, small)
	}
	return table, e, func() {
		for _, name := range []string{"things", "facts"} {
			b.Limit(t, table.Name+"_"+name, 0)
		}
	}
}

// TestDeadLetters takes rows that are too large for the bus through a whole round: letters, a limit
// that is made larger, and consumers who have what is true.
func TestDeadLetters(t *testing.T) {
	testall.Beside(t)
	deadLettersGoRound(t, world.KafkaBus(testenv.Kafka(t)), 100)
}

// TestDeadLettersExactlyOnce: a dead letter is in one transaction or atomic batch with the rest of
// its batch.
func TestDeadLettersExactlyOnce(t *testing.T) {
	testall.Beside(t)
	// Refused rows count as they are found, on all partitions at once: of those that are put aside
	// before the stream stops there may be fewer than the limit.
	world.EachBus(t, func(t *testing.T, b *world.Bus) { deadLettersGoRound(t, b.ExactlyOnce(t.Name()), 1) })
}

func expectAllResent(t *testing.T, d *world.Daemon, stream, query, want string) {
	t.Helper()
	code, body := d.Post("/api/v1/streams/" + stream + "/resend-all?" + query)
	if code != http.StatusOK || !strings.Contains(body, want) || !strings.Contains(body, `"more":false`) {
		t.Errorf("resend-all of %s: %d %s, want %s", stream, code, body, want)
	}
}

// deadLettersGoRound is TestDeadLetters; from least to 100 rows of flood are put aside at first.
func deadLettersGoRound(t *testing.T, b *world.Bus, least float64) {
	t.Helper()
	table, e, widenAll := deadLetterScene(t, b)
	large := large()
	table.Exec("INSERT INTO things (name, body) VALUES ('a', 'x'), ('b', 'x')")
	table.Exec("INSERT INTO facts (body) VALUES ('x'), (?), (?), (?), ('x')", large, large, large)
	table.Exec("INSERT INTO flood (body) SELECT concat(seq, ?) FROM "+testenv.Sequence(150)+" ORDER BY seq", large)
	d := world.NewDaemon(t, world.Binary(t, false), e)
	d.Start()
	world.Eventually(t, time.Minute, "drained", func() bool { return d.Position("things") == 2 && d.Position("facts") == 5 })
	table.Exec("UPDATE things SET body = ?, changed = now(6) WHERE name = 'a'", large)
	table.Exec("INSERT INTO things (name, body) VALUES ('c', ?), ('d', ?), ('e', ?)", large, large, large)
	world.Eventually(t, time.Minute, "drained", func() bool {
		n := d.Metric("bridge_dead_letters_total") - 7
		return d.Position("things") == 5 && least <= n && n <= 100
	})

	t.Run("more rows than the limit stop the stream, and a restart goes on", func(t *testing.T) {
		if got := world.AwaitStopped(t, d, "flood", "BRIDGE_STREAM_FLOOD_DEAD_LETTER_LIMIT"); got.Position > 100 {
			t.Errorf("position %d: %s", got.Position, got.LastError)
		}
		d.Term()
		d.Start()
		world.Eventually(t, time.Minute, "goes on", func() bool { return d.Position("flood") == 150 })
		if n := len(deadLetters(t, d.Env, 0, "list", "--stream", "flood")); n != 150 {
			t.Errorf("%d rows of 150 are dead letters", n)
		}
	})

	expectDeadLetters(t, deadLetters(t, d.Env, 0, "list", "--stream", "things"), "things/1", "things/3", "things/4", "things/5")
	expectDeadLetters(t, deadLetters(t, d.Env, 0, "list", "--stream", "facts"), "facts/2", "facts/3", "facts/4")
	expectDeadLetters(t, deadLetters(t, d.Env, 1, "resend", "--stream", "things", "--row", "3"), "things/3 refused")
	// Nobody sees these before a reconcile.
	table.Exec("UPDATE things SET body = 'y' WHERE name = 'd'")
	table.Exec("DELETE FROM things WHERE name = 'e'")
	table.Exec("UPDATE facts SET body = 'y' WHERE id = 3")
	table.Exec("DELETE FROM facts WHERE id = 4")
	widenAll()

	expectDeadLetters(t, deadLetters(t, d.Env, 0, "resend", "--stream", "things", "--dry-run"),
		"things/1 same", "things/3 same", "things/4 published", "things/5 published")
	expectDeadLetters(t, deadLetters(t, d.Env, 0, "resend", "--stream", "things"), "things/1 same", "things/3 same", "things/4 published", "things/5 published")
	d.Term()
	expectDeadLetters(t, deadLetters(t, d.Env, 0, "resend", "--stream", "facts", "--dry-run"), "facts/2 same", "facts/3 published", "facts/4 done")
	expectDeadLetters(t, deadLetters(t, d.Env, 0, "resend", "--stream", "facts"), "facts/2 same", "facts/3 published", "facts/4 done")
	d.Start()
	world.AwaitReady(t, d)
	expectDeadLetters(t, deadLetters(t, d.Env, 0, "resend", "--stream", "facts"), "facts/2 same", "facts/3 published", "facts/4 done")
	expectDeadLetters(t, deadLetters(t, d.Env, 0, "resend", "--stream", "things"), "things/1 same", "things/3 same", "things/4 done", "things/5 done")
	expectAllResent(t, d, "things", "dryRun=true", `"fates":{"done":2,"published":2}`)
	expectAllResent(t, d, "facts", "dryRun=false", `"fates":{"done":1,"published":2}`)
	// The flood is still missing; what was refused of d and e nobody ever got.
	mustVerify(t, d.Env, "missing 150", "not judged deadLetter 2")
}
