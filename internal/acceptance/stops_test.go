package acceptance

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"bridge/internal/testenv"
)

// TestARefusedRow feeds the bus a row that it refuses as too large, in one of two streams.
func TestARefusedRow(t *testing.T) {
	eachBus(t, func(t *testing.T, b bus) {
		setUp := func(t *testing.T) (*revisions, env) {
			table := newRevisions(t, testenv.MariaDB(t))
			for _, name := range []string{"big", "small"} {
				table.exec("CREATE TABLE " + name + " (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, body longtext NOT NULL)")
				table.exec("INSERT INTO " + name + " SELECT seq, seq FROM seq_1_to_100")
			}
			table.exec("INSERT INTO big VALUES (101, ?)", incompressible(6_000_000))
			table.exec("INSERT INTO big SELECT 101 + seq, seq FROM seq_1_to_100")
			e := b.env().with(env{
				"BRIDGE_SOURCE_URL":               table.sourceURL(),
				"BRIDGE_STREAMS":                  "big,small",
				"BRIDGE_STREAM_BIG_TABLE":         "big",
				"BRIDGE_STREAM_BIG_KIND":          "release",
				"BRIDGE_STREAM_BIG_DESTINATION":   b.open(t, table.name+"_big"),
				"BRIDGE_STREAM_SMALL_TABLE":       "small",
				"BRIDGE_STREAM_SMALL_KIND":        "release",
				"BRIDGE_STREAM_SMALL_DESTINATION": b.open(t, table.name+"_small"),
			})
			return table, e
		}
		smallGoesOn := func(t *testing.T, table *revisions, d *daemon) {
			t.Helper()
			table.exec("INSERT INTO small SELECT 100 + seq, seq FROM seq_1_to_50")
			eventually(t, 20*time.Second, "the other stream goes on", func() bool { return d.position("small") == 150 })
		}

		t.Run("stops its stream alone", func(t *testing.T) {
			table, e := setUp(t)
			d := newDaemon(t, binary(t, false), e)
			d.start()
			eventually(t, 30*time.Second, "stopped", func() bool {
				shards := d.shards("big")
				return len(shards) == 1 && shards[0].State == "stopped"
			})
			if got := d.shards("big")[0]; got.Position > 100 || !strings.Contains(got.LastError, "row 101") || !strings.Contains(got.LastError, "BRIDGE_DEAD_LETTER") {
				t.Errorf("position %d, want at most 100; error %s", got.Position, got.LastError)
			}
			if code, body := d.get("/readyz"); code != 503 || !strings.Contains(body, "row 101") {
				t.Errorf("/readyz %d: %s", code, body)
			}
			smallGoesOn(t, table, d)
		})

		t.Run("goes to the dead-letter destination", func(t *testing.T) {
			table, e := setUp(t)
			dead := strings.TrimSuffix(b.open(t, table.name+"_dead"), "{type}") // a subject of the stream, or the topic
			dead = strings.TrimSuffix(dead, ".")
			if _, onNATS := b.(natsBus); onNATS {
				dead += ".letters"
			}
			d := newDaemon(t, binary(t, false), e.with(env{"BRIDGE_DEAD_LETTER": dead}))
			d.start()
			eventually(t, 30*time.Second, "drained", func() bool { return d.position("big") == 201 })
			smallGoesOn(t, table, d)
			becomesReady(t, d)
			letters := b.read(t, table.name+"_dead")
			if len(letters) != 1 {
				t.Fatalf("%d dead letters, want 1", len(letters))
			}
			for _, want := range []string{`"rowId":101`, `"stream":"big"`, `"truncated":true`, `"excerpt":"{\"meta\"`} {
				if !bytes.Contains(letters[0].value, []byte(want)) {
					t.Errorf("the dead letter lacks %s: %.400s", want, letters[0].value)
				}
			}
			if got := len(b.read(t, table.name+"_big")); got != 200 {
				t.Errorf("%d events of the other rows, want 200", got)
			}
		})
	})
}

// incompressible returns n bytes of text that no codec makes small.
func incompressible(n int) string {
	raw := make([]byte, n*3/4)
	rand.NewChaCha8([32]byte{}).Read(raw)
	return base64.StdEncoding.EncodeToString(raw)
}

// TestWhatOnlyAPersonCanMend takes away a table, a column and a grant, each from one of four streams.
func TestWhatOnlyAPersonCanMend(t *testing.T) {
	b := natsBus{testenv.NATS(t)}
	table := newRevisions(t, testenv.MariaDB(t))
	for _, name := range []string{"fine", "columnless", "hidden"} {
		table.exec("CREATE TABLE " + name + " (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, body text)")
		table.exec("INSERT INTO " + name + " (body) VALUES ('x')")
	}
	user := "narrow_" + table.name[max(0, len(table.name)-12):]
	table.exec(fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY 'hunter2-secret'", user))
	for _, name := range []string{"fine", "columnless", "app_revision"} {
		table.exec(fmt.Sprintf("GRANT SELECT ON `%s`.%s TO '%s'@'%%'", table.name, name, user))
	}
	// A grant outlives its table.
	table.exec("CREATE TABLE gone (id int)")
	table.exec(fmt.Sprintf("GRANT SELECT ON `%s`.gone TO '%s'@'%%'", table.name, user))
	table.exec("DROP TABLE gone")
	e := b.env().with(env{
		"BRIDGE_SOURCE_URL":                    table.server.URL(user, "hunter2-secret", table.name),
		"BRIDGE_STREAMS":                       "fine,gone,columnless,hidden",
		"BRIDGE_STREAM_COLUMNLESS_CREATED":     "born",
		"BRIDGE_STREAM_FINE_DESTINATION":       b.open(t, table.name+"_fine"),
		"BRIDGE_STREAM_GONE_DESTINATION":       b.open(t, table.name+"_gone"),
		"BRIDGE_STREAM_COLUMNLESS_DESTINATION": b.open(t, table.name+"_columnless"),
		"BRIDGE_STREAM_HIDDEN_DESTINATION":     b.open(t, table.name+"_hidden"),
	})
	for _, stream := range []string{"fine", "gone", "columnless", "hidden"} {
		e["BRIDGE_STREAM_"+strings.ToUpper(stream)+"_TABLE"] = stream
		e["BRIDGE_STREAM_"+strings.ToUpper(stream)+"_KIND"] = "release"
	}
	d := newDaemon(t, binary(t, false), e)
	d.start()
	for stream, words := range map[string][]string{
		"gone":       {"gone", "exist"},
		"columnless": {"born"},
		"hidden":     {"GRANT SELECT ON", "hidden"},
	} {
		eventually(t, 20*time.Second, stream+" stopped", func() bool {
			shards := d.shards(stream)
			return len(shards) == 1 && shards[0].State == "stopped"
		})
		for _, word := range words {
			if got := d.shards(stream)[0].LastError; !strings.Contains(got, word) {
				t.Errorf("%s: the error lacks %q: %s", stream, word, got)
			}
		}
	}
	eventually(t, 20*time.Second, "the fine stream goes on", func() bool { return d.position("fine") == 1 })

	t.Run("and goes on by itself once it is mended", func(t *testing.T) {
		table.exec("CREATE TABLE gone (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, body text)")
		table.exec("INSERT INTO gone (body) VALUES ('x')")
		table.exec("ALTER TABLE columnless ADD COLUMN born datetime(6) NOT NULL DEFAULT '2020-01-01'")
		table.exec(fmt.Sprintf("GRANT SELECT ON `%s`.hidden TO '%s'@'%%'", table.name, user))
		for _, stream := range []string{"gone", "columnless", "hidden"} {
			eventually(t, 60*time.Second, stream+" goes on", func() bool { return d.position(stream) == 1 })
		}
		becomesReady(t, d)
	})
	if strings.Contains(d.log.String(), "hunter2-secret") {
		t.Error("the log holds the password")
	}
}

// TestWrongConfigurationsAreReportedAllAtOnce runs the binary with every kind of fault in one environment.
func TestWrongConfigurationsAreReportedAllAtOnce(t *testing.T) {
	cmd := exec.Command(binary(t, false), "run")
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
