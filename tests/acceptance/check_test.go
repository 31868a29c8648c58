package acceptance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

type checkReport struct {
	Severity string
	Groups   []struct {
		Group, Stream, Severity, Summary string
		Findings                         []checkFinding
	}
}

// All but remarks about variables.
func (r checkReport) findings() (all []checkFinding) {
	for _, g := range r.Groups {
		if g.Group != "configuration" {
			// The tests' servers do not flush each commit.
			all = append(all, slices.DeleteFunc(slices.Clone(g.Findings), func(f checkFinding) bool { return f.Code == "log-flush" })...)
		}
	}
	return all
}

func (r checkReport) summary(kind string) string {
	for _, g := range r.Groups {
		if g.Group == kind {
			return g.Summary
		}
	}
	return ""
}

func (r checkReport) find(code string) (found []checkFinding) {
	for _, g := range r.Groups {
		for _, f := range g.Findings {
			if f.Code == code && g.Group != "configuration" {
				found = append(found, f)
			}
		}
	}
	return found
}

// The exit status has to fit what check found.
func runCheck(t testing.TB, e world.Env) checkReport {
	t.Helper()
	status, stdout, stderr := world.Command(t, e, "check", "--json")
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

type checkFinding struct{ Severity, Code, Subject, What, Do, Statement string }

// answered returns the report of a check; it checks again while a server that may only be slow has
// not answered in time, unless that is what the test wants.
func answered(t testing.TB, e world.Env, wanted ...string) (r checkReport) {
	t.Helper()
	for range 5 {
		r = runCheck(t, e)
		if !slices.ContainsFunc(r.findings(), func(f checkFinding) bool {
			slow := strings.HasSuffix(f.Code, "-unreachable") || strings.Contains(f.What, "no answer within")
			return slow && !slices.Contains(wanted, f.Code)
		}) {
			break
		}
	}
	return r
}

func mustBeSilent(t testing.TB, e world.Env) checkReport {
	t.Helper()
	r := answered(t, e)
	if found := r.findings(); len(found) > 0 {
		t.Errorf("found on a healthy set-up: %+v", found)
	}
	return r
}

// mustFind fails the test unless a check finds what the codes say and nothing else, and returns the
// first finding with the first of the codes, which has this severity.
func mustFind(t testing.TB, e world.Env, severity, codes string, words ...string) checkFinding {
	t.Helper()
	r := answered(t, e, strings.Fields(codes)...)
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

func shop(t testing.TB, server *testenv.DatabaseServer) (*world.World, world.Env) {
	t.Helper()
	table := world.Empty(t, server)
	table.Exec(healthyTable)
	table.Exec("INSERT INTO orders (region, order_no, state) VALUES ('eu', '1', 'paid'), ('eu', '2', NULL)")
	return table, world.Env{
		"BRIDGE_SOURCE_URL":             table.URL,
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
	testall.Beside(t)
	// The shared server flushes no commit, which check notes.
	durable := testenv.StartMariaDB(t, "--innodb-flush-log-at-trx-commit=1")
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		table, e := shop(t, durable)
		e = e.With(b.Env()).With(world.Env{"BRIDGE_STREAM_ORDERS_DESTINATION": b.Open(t, table.Name)})
		folder := filepath.Dir(strings.TrimPrefix(e["BRIDGE_CHECKPOINT_URL"], "file:"))
		before := b.Count(t, table.Name)
		r := mustBeSilent(t, e)
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("left behind %v, %v", left, err)
		}
		if after := b.Count(t, table.Name); after != before {
			t.Errorf("%d messages before, %d after", before, after)
		}
		if got := r.summary("stream"); got != "1 table, ids strict (auto_increment_increment is 1), tail begins at the first row, if the bus has nothing of it" || r.Severity != "ok" {
			t.Errorf("%s: the stream is summed up as %q", r.Severity, got)
		}

		t.Run("before, while and after a bridge runs", func(t *testing.T) {
			d := world.NewDaemon(t, world.Binary(t, false), e)
			d.Start()
			world.Eventually(t, time.Minute, "published", func() bool { return d.Position("orders") == 2 })
			mustFind(t, d.Env, "note", "checkpoint-locked", "running")
			d.Ends()
			if log := d.Log.String(); strings.Contains(log, "finding about") {
				t.Errorf("the log of a healthy set-up names findings:\n%s", log)
			}
			if got := mustBeSilent(t, d.Env).summary("stream"); !strings.HasSuffix(got, "tail goes on after id 2") {
				t.Errorf("the stream is summed up as %q", got)
			}
		})
		t.Run("for people, in 80 columns and without colour", func(t *testing.T) {
			status, stdout, stderr := world.Command(t, e, "check")
			if status != 0 || stderr != "" || !strings.Contains(stdout, "stream orders  ok") || !strings.HasSuffix(stdout, "nothing found: bridge run can be started\n") {
				t.Errorf("status %d, printed\n%s%s", status, stdout, stderr)
			}
			if strings.Contains(stdout, "\x1b") {
				t.Errorf("coloured in a pipe: %q", stdout)
			}
		})
	})
}

func TestCheckFindsWhatIsWrongWithACheckpoint(t *testing.T) {
	testall.Beside(t)
	server := testenv.MariaDB(t)
	t.Run("the checkpoint of another table", func(t *testing.T) {
		_, e := shop(t, server)
		for _, args := range []string{"orders orders 5000", "orders orders_old 7", "bills bills 9"} {
			// By the folder alone any name is taken.
			folder := world.Env{"BRIDGE_CHECKPOINT_URL": e["BRIDGE_CHECKPOINT_URL"]}
			types(t, folder, 0, append([]string{"checkpoint", "set"}, strings.Fields(args)...)...)
		}
		r := runCheck(t, e)
		if f := r.find("ids-reused"); len(f) != 1 || f[0].Severity != "unsafe" || f[0].Statement != "bridge checkpoint set orders orders 0" {
			t.Errorf("found %+v", r.findings())
		}
		if f := r.find("checkpoint-other"); len(f) != 2 || f[0].Severity != "warning" || !strings.Contains(f[0].What, "bills") || !strings.Contains(f[1].What, "orders_old") {
			t.Errorf("found %+v", r.findings())
		}
		for _, command := range []string{"bridge checkpoint reset orders", "bridge checkpoint reset bills"} {
			types(t, e, 0, strings.Fields(command)[1:]...)
		}
		mustBeSilent(t, e)
	})
	t.Run("a checkpoint that is not one", func(t *testing.T) {
		_, e := shop(t, server)
		path := strings.TrimPrefix(e["BRIDGE_CHECKPOINT_URL"], "file:")
		must.OK(t, os.WriteFile(path, []byte("a shopping list"), 0o600))
		mustFind(t, e, "unsafe", "checkpoint-foreign", path)
	})
	t.Run("a checkpoint that cannot be written", func(t *testing.T) {
		_, e := shop(t, server)
		missing := filepath.Join(t.TempDir(), "none")
		f := mustFind(t, e.With(world.Env{"BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(missing, "bridge.db")}), "unsafe", "checkpoint-not-writable")
		if f.Statement != "mkdir -p "+missing {
			t.Errorf("the command is %q", f.Statement)
		}
	})
}

// TestCheckReadsRows: what keeps a stream from publishing its rows, or has it publish live ones as
// deleted, is found before it runs, and the remedy is what the stream needs.
func TestCheckReadsRows(t *testing.T) {
	testall.Beside(t)
	table, e := shop(t, testenv.MariaDB(t))
	table.Exec("CREATE TABLE later (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, x enum('LIVE','GONE') NOT NULL)")
	table.Exec("ALTER TABLE orders ADD reason int, ADD user_id int, ADD userId int")
	for _, c := range []struct {
		column, deleted string
		set             world.Env
		// code is found with this severity, which is empty where nothing is found.
		code, severity string
		words          []string
	}{
		{"int", "", nil, "table-unfit", "unsafe", []string{`member "reason"`, `member "userId"`, "BRIDGE_STREAM_ORDERS_EXCLUDE"}},
		{"int", "", world.Env{"BRIDGE_STREAM_ORDERS_EXCLUDE": "reason,userId"}, "table-unfit", "", nil},
		{"int", "", world.Env{"BRIDGE_STREAM_ORDERS_EXCLUDE": "userId", "BRIDGE_STREAM_ORDERS_KIND": "release"}, "table-unfit", "", nil},
		{"enum('ACTIVE','DELETED') NOT NULL DEFAULT 'ACTIVE'", "x", nil, "deleted-values", "warning", []string{"BRIDGE_STREAM_ORDERS_DELETED=x=VALUE"}},
		{"varchar(20) NOT NULL DEFAULT 'active'", "x", nil, "deleted-values", "warning", []string{"BRIDGE_STREAM_ORDERS_DELETED=x=VALUE"}},
		{"int NOT NULL DEFAULT 1", "x", nil, "deleted-values", "warning", []string{"BRIDGE_STREAM_ORDERS_DELETED=x=VALUE"}},
		{"datetime NOT NULL DEFAULT '9999-12-31 23:59:59'", "x", nil, "deleted-values", "warning", []string{"BRIDGE_STREAM_ORDERS_DELETED=x=VALUE"}},
		{"enum('N','Y') NOT NULL DEFAULT 'N'", "x", nil, "deleted-values", "", nil},
		{"enum('ACTIVE','DELETED') NOT NULL", "x=status=DELETE", nil, "deleted-values", "warning", []string{`never has "status=DELETE"`}},
		{"enum('ACTIVE','DELETED') NOT NULL", "x=DELETED", nil, "deleted-values", "", nil},
		{"enum('ACTIVE','DELETED') NOT NULL", "x!=ACTIVE|LIVE", nil, "deleted-values", "warning", []string{`never has "LIVE"`}},
		{"set('a','it''s') NOT NULL", "x=b", nil, "deleted-values", "warning", []string{`never has "b"`}},
		{"set('a','it''s') NOT NULL DEFAULT 'a,it''s'", "x=a,IT's", nil, "deleted-values", "", nil},
		{"varchar(20) NOT NULL DEFAULT 'deleted'", "x=DELETED", nil, "deleted-values", "", nil},
		{"varchar(20) NOT NULL DEFAULT 'deleted'", "x=DELETED|DELETE", nil, "deleted-values", "note", []string{`has "DELETE"`}},
		{"int NOT NULL DEFAULT 1", "x=9", nil, "deleted-values", "note", []string{`has "9"`, "in none of 2 rows"}},
		{"datetime", "x=DELETED", nil, "table-unfit", "unsafe", []string{`"DELETED"`}},
		{"date", "x!=9999-12-31 00:00:00", nil, "table-unfit", "unsafe", []string{`"9999-12-31 00:00:00"`}},
		{"int", "x", world.Env{
			"BRIDGE_STREAM_ORDERS_TABLE": "later", "BRIDGE_STREAM_ORDERS_EXCLUDE": "",
			"BRIDGE_STREAM_ORDERS_KEY": "", "BRIDGE_STREAM_ORDERS_CREATED": "", "BRIDGE_STREAM_ORDERS_MODIFIED": "",
		}, "deleted-values", "warning", []string{`"GONE", "LIVE"`}},
	} {
		t.Run(c.column+" "+c.deleted, func(t *testing.T) {
			table.Exec("ALTER TABLE orders ADD x " + c.column)
			defer table.Exec("ALTER TABLE orders DROP x")
			e := e.With(world.Env{"BRIDGE_STREAM_ORDERS_DELETED": c.deleted, "BRIDGE_STREAM_ORDERS_EXCLUDE": "reason,userId"}).With(c.set)
			if c.deleted == "" && c.set == nil {
				e["BRIDGE_STREAM_ORDERS_EXCLUDE"] = ""
			}
			found := answered(t, e).find(c.code)
			if c.severity == "" {
				if len(found) > 0 {
					t.Errorf("found %+v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Severity != c.severity {
				t.Fatalf("found %+v", found)
			}
			for _, word := range c.words {
				if text := found[0].What + " " + found[0].Do; !strings.Contains(text, word) {
					t.Errorf("%q lacks %q", text, word)
				}
			}
		})
	}
}
