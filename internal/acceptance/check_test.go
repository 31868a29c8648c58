package acceptance

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"bridge/internal/testenv"
)

// checkReport is what `bridge check --json` prints.
type checkReport struct {
	Severity string
	Groups   []struct {
		Group, Stream, Severity, Summary string
		Findings                         []checkFinding
	}
}

type checkFinding struct{ Severity, Code, Subject, What, Do, Statement string }

// findings returns all findings but remarks about variables.
func (r checkReport) findings() (all []checkFinding) {
	for _, g := range r.Groups {
		if g.Group != "configuration" {
			all = append(all, g.Findings...)
		}
	}
	return all
}

// summary returns that of the first group of a kind.
func (r checkReport) summary(kind string) string {
	for _, g := range r.Groups {
		if g.Group == kind {
			return g.Summary
		}
	}
	return ""
}

// find returns the findings with a code.
func (r checkReport) find(code string) (found []checkFinding) {
	for _, f := range r.findings() {
		if f.Code == code {
			found = append(found, f)
		}
	}
	return found
}

// bridge runs a command to its end and returns what it printed.
func bridge(t testing.TB, e env, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(binary(t, false), args...)
	cmd.Env = []string{}
	for _, name := range slices.Sorted(maps.Keys(e)) {
		cmd.Env = append(cmd.Env, name+"="+e[name])
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// check runs bridge check and fails the test when its exit status does not fit what it found.
func check(t testing.TB, e env) checkReport {
	t.Helper()
	status, stdout, stderr := bridge(t, e, "check", "--json")
	var r checkReport
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	if want := map[bool]int{true: 1}[r.Severity == "unsafe"]; status != want {
		t.Errorf("exit status %d for %s: %s", status, r.Severity, stderr)
	}
	for _, f := range r.findings() {
		if f.Code == "" || f.Subject == "" || f.What == "" || f.Do == "" && f.Code != "setting" {
			t.Errorf("an incomplete finding: %+v", f)
		}
	}
	return r
}

// mustBeSilent fails the test unless a check finds nothing.
func mustBeSilent(t testing.TB, e env) checkReport {
	t.Helper()
	r := check(t, e)
	if found := r.findings(); len(found) > 0 {
		t.Errorf("found on a healthy set-up: %+v", found)
	}
	return r
}

// mustFind fails the test unless a check finds what the codes say and nothing else, and returns the first finding with the first of the
// codes, which has this severity.
func mustFind(t testing.TB, e env, severity, codes string, words ...string) checkFinding {
	t.Helper()
	r := check(t, e)
	for _, f := range r.findings() {
		if !slices.Contains(strings.Fields(codes), f.Code) {
			t.Errorf("want %s, found %+v", codes, f)
		}
	}
	found := r.find(strings.Fields(codes)[0])
	if len(found) == 0 {
		t.Fatalf("want %s, found %+v", codes, r.findings())
	}
	if found[0].Severity != severity {
		t.Errorf("%s is %s, want %s", codes, found[0].Severity, severity)
	}
	for _, word := range words {
		if text := fmt.Sprint(found); !strings.Contains(text, word) {
			t.Errorf("%q lacks %q", text, word)
		}
	}
	return found[0]
}

// mustFindAll fails the test unless a check finds one thing of each code and nothing else, and returns them.
func mustFindAll(t testing.TB, e env, codes ...string) []checkFinding {
	t.Helper()
	found := check(t, e).findings()
	if len(found) != len(codes) {
		t.Fatalf("want %q, found %+v", codes, found)
	}
	for i, f := range found {
		if f.Code != codes[i] {
			t.Fatalf("want %q, found %+v", codes, found)
		}
	}
	return found
}

// healthyTable is a table in which check finds nothing.
const healthyTable = `CREATE TABLE orders (
	id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
	region varchar(20) NOT NULL COMMENT 'where, NULL never',
	order_no varchar(40) NOT NULL,
	state varchar(20) DEFAULT NULL,
	gmt_create timestamp(6) NOT NULL DEFAULT current_timestamp(6),
	gmt_modified timestamp(6) NOT NULL DEFAULT current_timestamp(6) ON UPDATE current_timestamp(6),
	is_deleted tinyint(1) NOT NULL DEFAULT 0,
	UNIQUE KEY uk (region, order_no),
	KEY modified (gmt_modified)
) ENGINE=InnoDB`

// shop is a database with a healthy table and the environment that publishes it to nowhere.
func shop(t testing.TB, server *testenv.MariaDBServer) (*revisions, env) {
	t.Helper()
	table := newRevisions(t, server)
	table.exec(healthyTable)
	table.exec("INSERT INTO orders (region, order_no, state) VALUES ('eu', '1', 'paid'), ('eu', '2', NULL)")
	return table, env{
		"BRIDGE_SOURCE_URL":             table.sourceURL(),
		"BRIDGE_SINK_URL":               "stdout:",
		"BRIDGE_CHECKPOINT_URL":         "file:" + filepath.Join(t.TempDir(), "bridge.db"),
		"BRIDGE_STREAMS":                "orders",
		"BRIDGE_STREAM_ORDERS_TABLE":    "orders",
		"BRIDGE_STREAM_ORDERS_KIND":     "capability",
		"BRIDGE_STREAM_ORDERS_KEY":      "region,order_no",
		"BRIDGE_STREAM_ORDERS_CREATED":  "gmt_create",
		"BRIDGE_STREAM_ORDERS_MODIFIED": "gmt_modified",
		"BRIDGE_STREAM_ORDERS_DELETED":  "is_deleted",
	}
}

func TestCheckIsSilentOnAHealthySetUp(t *testing.T) {
	eachBus(t, func(t *testing.T, b bus) {
		table, e := shop(t, testenv.MariaDB(t))
		e = e.with(b.env()).with(env{"BRIDGE_STREAM_ORDERS_DESTINATION": b.open(t, table.name)})
		folder := filepath.Dir(strings.TrimPrefix(e["BRIDGE_CHECKPOINT_URL"], "file:"))
		before := b.count(t, table.name)
		r := mustBeSilent(t, e)
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("left behind %v, %v", left, err)
		}
		if after := b.count(t, table.name); after != before {
			t.Errorf("%d messages before, %d after", before, after)
		}
		if got := r.summary("stream"); got != "1 table, ids strict (auto_increment_increment is 1), tail begins at the first row" || r.Severity != "ok" {
			t.Errorf("%s: the stream is summed up as %q", r.Severity, got)
		}

		t.Run("before, while and after a bridge runs", func(t *testing.T) {
			d := newDaemon(t, binary(t, false), e)
			d.start()
			eventually(t, 30*time.Second, "published", func() bool { return d.position("orders") == 2 })
			mustFind(t, d.env, "note", "checkpoint-locked", "running")
			if status, _ := d.term(); status != 0 {
				t.Errorf("exit status %d", status)
			}
			if log := d.log.String(); strings.Contains(log, "finding about") {
				t.Errorf("the log of a healthy set-up names findings:\n%s", log)
			}
			if got := mustBeSilent(t, d.env).summary("stream"); !strings.HasSuffix(got, "tail goes on behind id 2") {
				t.Errorf("the stream is summed up as %q", got)
			}
		})
		t.Run("for people, in 80 columns and without colour", func(t *testing.T) {
			status, stdout, stderr := bridge(t, e, "check")
			if status != 0 || stderr != "" || !strings.Contains(stdout, "stream orders  ok") || !strings.HasSuffix(stdout, "nothing found: bridge run can be started\n") {
				t.Errorf("status %d, printed\n%s%s", status, stdout, stderr)
			}
			if strings.Contains(stdout, "\x1b") {
				t.Errorf("coloured in a pipe: %q", stdout)
			}
		})
	})
}

func TestCheckDoesNotWaitForHostsThatDoNotAnswer(t *testing.T) {
	// Connections are taken by the system, and nobody ever reads from them.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	for name, addr := range map[string]string{"takes connections and says nothing": silent.Addr().String(), "refuses connections": closed} {
		for _, sink := range []string{"kafka", "nats"} {
			t.Run("a host that "+name+", "+sink, func(t *testing.T) {
				e := env{
					"BRIDGE_SOURCE_URL": "mysql://u:hunter2-secret@" + addr + "/db", "BRIDGE_SINK_URL": sink + "://" + addr,
					"BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(t.TempDir(), "none", "bridge.db"),
					"BRIDGE_STREAMS":        "a", "BRIDGE_STREAM_A_TABLE": "a_{0..9}", "BRIDGE_STREAM_A_KIND": "release",
				}
				started := time.Now()
				r := check(t, e)
				if took := time.Since(started); took > 15*time.Second {
					t.Errorf("took %s", took)
				}
				for _, code := range []string{"source-unreachable", "sink-unreachable", "checkpoint-not-writable"} {
					if f := r.find(code); len(f) != 1 || f[0].Severity != "unsafe" || f[0].Statement == "" {
						t.Errorf("%s: found %+v", code, f)
					}
				}
				if t.Failed() {
					t.Logf("%+v", r)
				}
			})
		}
	}
}

func TestCheckFindsWhatIsWrongWithACheckpoint(t *testing.T) {
	server := testenv.MariaDB(t)
	t.Run("the checkpoint of another table", func(t *testing.T) {
		_, e := shop(t, server)
		for _, args := range []string{"orders orders 5000", "orders orders_old 7", "bills bills 9"} {
			if status, _, stderr := bridge(t, e, append([]string{"checkpoint", "set"}, strings.Fields(args)...)...); status != 0 {
				t.Fatal(stderr)
			}
		}
		r := check(t, e)
		if f := r.find("ids-reused"); len(f) != 1 || f[0].Severity != "unsafe" || !strings.Contains(f[0].Statement, "bridge checkpoint set orders orders 0\nbridge checkpoint set orders orders 2") {
			t.Errorf("found %+v", r.findings())
		}
		if f := r.find("checkpoint-other"); len(f) != 2 || f[0].Severity != "warning" || !strings.Contains(f[0].What, "bills") || !strings.Contains(f[1].What, "orders_old") {
			t.Errorf("found %+v", r.findings())
		}
		for _, command := range []string{"bridge checkpoint reset orders", "bridge checkpoint reset bills"} {
			if status, _, stderr := bridge(t, e, strings.Fields(command)[1:]...); status != 0 {
				t.Fatal(stderr)
			}
		}
		mustBeSilent(t, e)
	})
	t.Run("a checkpoint that is not one", func(t *testing.T) {
		_, e := shop(t, server)
		path := strings.TrimPrefix(e["BRIDGE_CHECKPOINT_URL"], "file:")
		if err := os.WriteFile(path, []byte("a shopping list"), 0o600); err != nil {
			t.Fatal(err)
		}
		mustFind(t, e, "unsafe", "checkpoint-foreign", path)
	})
	t.Run("a checkpoint that cannot be written", func(t *testing.T) {
		_, e := shop(t, server)
		missing := filepath.Join(t.TempDir(), "none")
		f := mustFind(t, e.with(env{"BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(missing, "bridge.db")}), "unsafe", "checkpoint-not-writable")
		if f.Statement != "mkdir -p "+missing {
			t.Errorf("the command is %q", f.Statement)
		}
	})
}

// TestCheckOfAFileAndABusInside needs no server.
func TestCheckOfAFileAndABusInside(t *testing.T) {
	dir := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(dir, "app.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, no TEXT NOT NULL, at TEXT); INSERT INTO orders (no) VALUES ('1')"); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	e := env{
		"BRIDGE_SOURCE_URL": "sqlite://" + filepath.Join(dir, "app.db"), "BRIDGE_SINK_URL": "embedded:",
		"BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(data, "bridge.db"), "BRIDGE_STREAMS": "orders",
		"BRIDGE_STREAM_ORDERS_TABLE": "orders", "BRIDGE_STREAM_ORDERS_KIND": "capability", "BRIDGE_STREAM_ORDERS_KEY": "no",
		"BRIDGE_STREAM_ORDERS_MODIFIED": "at",
	}
	for _, f := range mustFindAll(t, e, "key-not-unique", "modified-index") {
		if _, err := db.Exec(f.Statement); err != nil {
			t.Fatalf("%s: %v", f.Statement, err)
		}
	}
	mustBeSilent(t, e)
	if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
		t.Errorf("left behind %v, %v", left, err)
	}
	d := newDaemon(t, binary(t, false), e)
	d.env["BRIDGE_CHECKPOINT_URL"] = e["BRIDGE_CHECKPOINT_URL"]
	d.start()
	eventually(t, 20*time.Second, "published", func() bool { return d.position("orders") == 1 })
	if r := check(t, d.env); r.Severity != "note" || len(r.find("checkpoint-locked")) != 1 {
		t.Errorf("beside a running bridge: %+v", r.findings())
	}
	d.term()
	mustBeSilent(t, d.env)
}

func TestCheckReportsAWrongConfigurationAsRunDoes(t *testing.T) {
	status, stdout, stderr := bridge(t, env{"BRIDGE_STREAMS": "a", "BRIDGE_POL_INTERVAL": "1s", "BRIDGE_SINK_URL": "rabbit://x"}, "check")
	if status != 2 || stdout != "" || strings.Count(stderr, "\n  BRIDGE_") < 4 {
		t.Errorf("status %d, printed %s%s", status, stdout, stderr)
	}
}
