package acceptance

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/tests/testall"
	"bridge/tests/testenv"
)

// TestARefusedRow feeds the bus a row that it refuses as too large, in one of two streams.
func TestARefusedRow(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		setUp := func(t *testing.T) (*world.World, world.Env) {
			table := world.Empty(t, testenv.MariaDB(t))
			for _, name := range []string{"big", "small"} {
				table.Exec("CREATE TABLE " + name + " (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, body longtext NOT NULL)")
				table.Exec("INSERT INTO " + name + " SELECT seq, seq FROM " + testenv.Sequence(100))
			}
			table.Exec("INSERT INTO big VALUES (101, ?)", world.Incompressible(6_000_000))
			table.Exec("INSERT INTO big SELECT 101 + seq, seq FROM " + testenv.Sequence(100))
			e := b.Env().With(world.Env{
				"BRIDGE_SOURCE_URL":               table.URL,
				"BRIDGE_STREAMS":                  "big,small",
				"BRIDGE_STREAM_BIG_TABLE":         "big",
				"BRIDGE_STREAM_BIG_KIND":          "release",
				"BRIDGE_STREAM_BIG_DESTINATION":   b.Open(t, table.Name+"_big"),
				"BRIDGE_STREAM_SMALL_TABLE":       "small",
				"BRIDGE_STREAM_SMALL_KIND":        "release",
				"BRIDGE_STREAM_SMALL_DESTINATION": b.Open(t, table.Name+"_small"),
			})
			return table, e
		}
		smallGoesOn := func(t *testing.T, table *world.World, d *world.Daemon) {
			t.Helper()
			table.Exec("INSERT INTO small SELECT 100 + seq, seq FROM " + testenv.Sequence(50))
			world.Eventually(t, time.Minute, "the other stream goes on", func() bool { return d.Position("small") == 150 })
		}

		t.Run("stops its stream alone", func(t *testing.T) {
			table, e := setUp(t)
			d := world.NewDaemon(t, world.Binary(t, false), e)
			d.Start()
			if got := world.AwaitStopped(t, d, "big"); got.Position > 100 || !strings.Contains(got.LastError, "row 101") || !strings.Contains(got.LastError, "BRIDGE_STREAM_BIG_DEAD_LETTER") {
				t.Errorf("position %d, want at most 100; error %s", got.Position, got.LastError)
			}
			if code, body := d.Get("/readyz"); code != 503 || !strings.Contains(body, "row 101") {
				t.Errorf("/readyz %d: %s", code, body)
			}
			smallGoesOn(t, table, d)
		})

		t.Run("goes to the dead-letter destination", func(t *testing.T) {
			table, e := setUp(t)
			d := world.NewDaemon(t, world.Binary(t, false), e.With(world.Env{"BRIDGE_DEAD_LETTER": b.OpenDeadLetters(t, table.Name+"_dead")}))
			d.Start()
			world.Eventually(t, time.Minute, "drained", func() bool { return d.Position("big") == 201 })
			smallGoesOn(t, table, d)
			world.AwaitReady(t, d)
			dead := b.ReadAll(t, table.Name+"_dead")
			if len(dead) != 1 {
				t.Fatalf("%d dead letters, want 1", len(dead))
			}
			for _, want := range []string{`"rowId":101`, `"stream":"big"`, `"truncated":true`, `"excerpt":"{\"meta\"`} {
				if !bytes.Contains(dead[0].Value, []byte(want)) {
					t.Errorf("the dead letter lacks %s: %.400s", want, dead[0].Value)
				}
			}
			if got := len(b.ReadAll(t, table.Name+"_big")); got != 200 {
				t.Errorf("%d events of the other rows, want 200", got)
			}
		})
	})
}

// TestWhatOnlyAPersonCanMend takes away a table, a column and a grant, each from one of four
// streams.
func TestWhatOnlyAPersonCanMend(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	b := world.NATSBus(testenv.NATS(t))
	table := world.Empty(t, testenv.MariaDB(t))
	for _, name := range []string{"fine", "columnless", "hidden"} {
		table.Exec("CREATE TABLE " + name + " (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, body text)")
		table.Exec("INSERT INTO " + name + " (body) VALUES ('x')")
	}
	user := "narrow_" + table.Name[max(0, len(table.Name)-12):]
	table.Exec(fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY 'hunter2-secret'", user))
	for _, name := range []string{"fine", "columnless"} {
		table.Exec(fmt.Sprintf("GRANT SELECT ON `%s`.%s TO '%s'@'%%'", table.Name, name, user))
	}
	// A grant outlives its table.
	table.Exec("CREATE TABLE gone (id int)")
	table.Exec(fmt.Sprintf("GRANT SELECT ON `%s`.gone TO '%s'@'%%'", table.Name, user))
	table.Exec("DROP TABLE gone")
	e := b.Env().With(world.Env{
		"BRIDGE_SOURCE_URL":                    table.Server.URL(user, "hunter2-secret", table.Name),
		"BRIDGE_STREAMS":                       "fine,gone,columnless,hidden",
		"BRIDGE_STREAM_COLUMNLESS_CREATED":     "born",
		"BRIDGE_STREAM_FINE_DESTINATION":       b.Open(t, table.Name+"_fine"),
		"BRIDGE_STREAM_GONE_DESTINATION":       b.Open(t, table.Name+"_gone"),
		"BRIDGE_STREAM_COLUMNLESS_DESTINATION": b.Open(t, table.Name+"_columnless"),
		"BRIDGE_STREAM_HIDDEN_DESTINATION":     b.Open(t, table.Name+"_hidden"),
	})
	for _, stream := range []string{"fine", "gone", "columnless", "hidden"} {
		e["BRIDGE_STREAM_"+strings.ToUpper(stream)+"_TABLE"] = stream
		e["BRIDGE_STREAM_"+strings.ToUpper(stream)+"_KIND"] = "release"
	}
	d := world.NewDaemon(t, world.Binary(t, false), e)
	d.Start()
	for stream, words := range map[string][]string{
		"gone":       {"gone", "exist"},
		"columnless": {"born"},
		"hidden":     {"GRANT SELECT ON", "hidden"},
	} {
		world.Eventually(t, time.Minute, stream+" stopped", func() bool {
			shards := d.Shards(stream)
			return len(shards) == 1 && shards[0].State == "stopped"
		})
		for _, word := range words {
			if got := d.Shards(stream)[0].LastError; !strings.Contains(got, word) {
				t.Errorf("%s: the error lacks %q: %s", stream, word, got)
			}
		}
	}
	world.Eventually(t, time.Minute, "the fine stream goes on", func() bool { return d.Position("fine") == 1 })

	t.Run("and goes on by itself once it is mended", func(t *testing.T) {
		table.Exec("CREATE TABLE gone (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, body text)")
		table.Exec("INSERT INTO gone (body) VALUES ('x')")
		table.Exec("ALTER TABLE columnless ADD COLUMN born datetime(6) NOT NULL DEFAULT '2020-01-01'")
		table.Exec(fmt.Sprintf("GRANT SELECT ON `%s`.hidden TO '%s'@'%%'", table.Name, user))
		for _, stream := range []string{"gone", "columnless", "hidden"} {
			world.Eventually(t, time.Minute, stream+" goes on", func() bool { return d.Position(stream) == 1 })
		}
		world.AwaitReady(t, d)
	})
	if strings.Contains(d.Log.String(), "hunter2-secret") {
		t.Error("the log holds the password")
	}
}

// TestWrongConfigurationsAreReportedAllAtOnce runs the binary with every kind of fault in one
// environment.
func TestWrongConfigurationsAreReportedAllAtOnce(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	cmd := exec.Command(world.Binary(t, false), "run")
	cmd.Env = []string{
		"BRIDGE_SOURCE_URL=mysql://user:s3cr3t-pa@ss@host:notaport/db",
		"BRIDGE_SINK_URL=rabbit://user:s3cr3t-bus@host",
		"BRIDGE_STREAMS=a,b",
		"BRIDGE_STREAM_A_TABLE=t_{9..1}",
		"BRIDGE_STREAM_A_KIND=capabilty",
		"BRIDGE_STREAM_B_KIND=release",
		"BRIDGE_STREAM_B_STABILTY_WINDOW=1s",
		"BRIDGE_STREAM_B_EVENT=EiffelThing",
		"BRIDGE_POLL_INTERVAL=fast",
		"BRIDGE_MAX_INFLIGHT_BYTES=32MB!",
		"BRIDGE_GAP_POLICY=hold",
		"BRIDGE_ID_ORDER=segmented",
		"BRIDGE_KAFKA_SASL_PASSWORD_FILE=/nowhere/s3cr3t-file",
		"BRIDGE_POL_INTERVAL=1s",
	}
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 2 {
		t.Errorf("exit status %d, want 2 (%v)", code, err)
	}
	for _, name := range []string{
		"BRIDGE_SOURCE_URL", "BRIDGE_SINK_URL", "BRIDGE_STREAM_A_TABLE", "BRIDGE_STREAM_A_KIND", "BRIDGE_STREAM_B_TABLE",
		"BRIDGE_STREAM_B_STABILTY_WINDOW", "BRIDGE_STREAM_B_STABILITY_WINDOW", "BRIDGE_STREAM_B_EVENT", "BRIDGE_POLL_INTERVAL", "BRIDGE_MAX_INFLIGHT_BYTES",
		"GAP_POLICY", "BRIDGE_KAFKA_SASL_PASSWORD_FILE", "BRIDGE_POL_INTERVAL",
	} {
		if !bytes.Contains(out, []byte(name)) {
			t.Errorf("the report lacks %s", name)
		}
	}
	if bytes.Contains(out, []byte("s3cr3t")) {
		t.Error("the report holds a secret")
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}
