package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/bridge/tests/testenv"
)

// initialized is a file that bridge init has written, by name and value.
func initialized(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	set := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if len(line) > 80 && strings.HasPrefix(line, "#") {
			t.Errorf("wider than a terminal: %s", line)
		}
		if name, value, is := strings.Cut(strings.TrimSpace(line), "="); is && !strings.HasPrefix(name, "#") {
			set[strings.TrimPrefix(name, "BRIDGE_STREAM_")] = value
		}
	}
	return set
}

// initCase is a table, and what bridge init makes of it: variables without the stream's prefix, or
// an error.
type initCase struct {
	create, table, stream string
	want                  map[string]string
	refused               string
}

// plays has bridge init write a file for each table, and bridge check accept it.
func plays(t *testing.T, url string, exec func(string), all map[string]initCase) {
	t.Helper()
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			exec(c.create)
			path := filepath.Join(t.TempDir(), "made.env")
			got := outcome{}.call(settingsOf{}, "init", "--out", path, url, c.table)
			if c.refused != "" {
				if _, err := os.Stat(path); got.status != exitFailed || !strings.Contains(got.err, c.refused) || err == nil {
					t.Errorf("%+v, %v", got, err)
				}
				return
			}
			if got.status != exitFine || !strings.Contains(got.out, "bridge check --env-file "+path) {
				t.Fatalf("%+v", got)
			}
			set, prefix := initialized(t, path), strings.ToUpper(c.stream)+"_"
			if set["BRIDGE_STREAMS"] != c.stream {
				t.Errorf("the stream is %s", set["BRIDGE_STREAMS"])
			}
			for _, role := range []string{"TABLE", "KIND", "ID", "KEY", "CREATED", "MODIFIED", "DELETED"} {
				if set[prefix+role] != c.want[role] {
					t.Errorf("%s is %q, want %q", role, set[prefix+role], c.want[role])
				}
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
			if got := (outcome{}).call(settingsOf{}, "check", "--env-file", path); got.status != exitFine {
				t.Errorf("bridge check: %+v", got)
			}
			if again := (outcome{}).call(settingsOf{}, "init", "--out", path, url, c.table); again.status != exitFailed || !strings.Contains(again.err, "is there and is left alone") {
				t.Errorf("again: %+v", again)
			}
		})
	}
}

func TestInitOfSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shop.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(statement string) {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	url := "sqlite:" + file
	exec("PRAGMA user_version = 1") // makes the file
	mustCall(t, settingsOf{}, exitFailed, "the database has no table", "init "+url)
	plays(t, url, exec, map[string]initCase{
		"states": {"CREATE TABLE stock (id INTEGER PRIMARY KEY AUTOINCREMENT, region TEXT NOT NULL, sku TEXT NOT NULL, note TEXT UNIQUE, created_at TEXT, updated_at INTEGER, updated_by TEXT, is_deleted INT, UNIQUE (region, sku))",
			"stock", "stock", map[string]string{"TABLE": "stock", "KIND": "capability", "ID": "id", "KEY": "region,sku", "CREATED": "created_at", "MODIFIED": "updated_at"}, ""},
		"a table with nothing but an id": {"CREATE TABLE account (id INTEGER PRIMARY KEY, owner TEXT, balance INT)", "account", "account",
			map[string]string{"TABLE": "account", "KIND": "capability", "ID": "id"}, ""},
		"times of something else": {"CREATE TABLE rate (id INTEGER PRIMARY KEY, exchange_date TEXT, next_update_at TEXT, update_due_date TEXT, price_updated_at TEXT)", "rate", "rate",
			map[string]string{"TABLE": "rate", "KIND": "capability", "ID": "id"}, ""},
		"a name in camel case": {"CREATE TABLE camel (id INTEGER PRIMARY KEY, exchangeDate TEXT, DataChange_LastTime TEXT)", "camel", "camel",
			map[string]string{"TABLE": "camel", "KIND": "capability", "ID": "id", "MODIFIED": "DataChange_LastTime"}, ""},
		"a log": {"CREATE TABLE [Order Log] (seq INTEGER PRIMARY KEY, line TEXT, insert_time TEXT)", "Order Log", "order_log",
			map[string]string{"TABLE": "'Order Log'", "KIND": "capability", "ID": "seq", "CREATED": "insert_time"}, ""},
		"a name with a quote":        {`CREATE TABLE "it's" (id INTEGER PRIMARY KEY)`, "it's", "it_s", map[string]string{"TABLE": `"it's"`, "KIND": "capability", "ID": "id"}, ""},
		"a name that a shell obeys":  {"CREATE TABLE \"$(id)`x`;#\" (id INTEGER PRIMARY KEY)", "$(id)`x`;#", "id_x", map[string]string{"TABLE": "'$(id)`x`;#'", "KIND": "capability", "ID": "id"}, ""},
		"a name with both":           {`CREATE TABLE "'$(id)'" (id INTEGER PRIMARY KEY)`, "'$(id)'", "", nil, "a file of variables cannot hold"},
		"a name with a line":         {"CREATE TABLE \"a\nBRIDGE_X=1\" (id INTEGER PRIMARY KEY)", "a\nBRIDGE_X=1", "", nil, "a file of variables cannot hold"},
		"a name with a comma":        {`CREATE TABLE "a,b" (id INTEGER PRIMARY KEY)`, "a,b", "", nil, "a name that a variable cannot hold"},
		"a column with a comma":      {`CREATE TABLE c (id INTEGER PRIMARY KEY, "x,y" TEXT NOT NULL UNIQUE)`, "c", "", nil, "a name that a variable cannot hold"},
		"no letters":                 {`CREATE TABLE "+" (id INTEGER PRIMARY KEY)`, "+", "stream", map[string]string{"TABLE": "+", "KIND": "capability", "ID": "id"}, ""},
		"a table without an integer": {"CREATE TABLE n (x TEXT UNIQUE)", "n", "", nil, "n has no integer column that a unique index covers alone"},
		"a view":                     {"CREATE VIEW v AS SELECT 1 AS id", "v", "", nil, "v has no integer column"},
		"a table that is not there":  {"SELECT 1", "none", "", nil, "missing in the source"},
	})
	mustCall(t, settingsOf{}, exitFine, "Name one of them: bridge init <url> <table>", "init "+url)
	mustCall(t, settingsOf{}, exitUsage, "BRIDGE_SOURCE_URL: ", "init nosuch://x t")
	mustCall(t, settingsOf{}, exitFailed, "file", "init sqlite:"+file+".none t")
}

// TestInitWithoutAURLInTheCommand keeps a password out of the list of processes.
func TestInitWithoutAURLInTheCommand(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "shop.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE stock (id INTEGER PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	url, secret, env := "sqlite:"+file, filepath.Join(dir, "url"), filepath.Join(dir, "env")
	for path, text := range map[string]string{secret: url + "\n", env: "BRIDGE_SOURCE_URL_FILE=" + secret + "\nBRIDGE_STREAMS=x\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		set              settingsOf
		flags            []string
		written, pointed string
	}{
		"a file":              {settingsOf{"BRIDGE_SOURCE_URL_FILE": secret}, nil, "", secret},
		"the environment":     {settingsOf{"BRIDGE_SOURCE_URL": url}, nil, url, ""},
		"a file of variables": {settingsOf{}, []string{"--env-file", env}, "", secret},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "made.env")
			if got := (outcome{}).call(c.set, append([]string{"init", "--out", path, "stock"}, c.flags...)...); got.status != exitFine {
				t.Fatalf("%+v", got)
			}
			set := initialized(t, path)
			if set["BRIDGE_SOURCE_URL"] != c.written || set["BRIDGE_SOURCE_URL_FILE"] != c.pointed {
				t.Errorf("the file has %v", set)
			}
			if got := (outcome{}).call(settingsOf{}, "check", "--env-file", path); got.status != exitFine {
				t.Errorf("bridge check: %+v", got)
			}
			got := outcome{}.call(c.set, append([]string{"init"}, c.flags...)...)
			if got.status != exitFine || !strings.Contains(got.out, "stock\n\nName one of them: bridge init <table>") {
				t.Errorf("the list: %+v", got)
			}
		})
	}
	mustCall(t, settingsOf{}, exitUsage, "Set BRIDGE_SOURCE_URL_FILE", "init stock")
	mustCall(t, settingsOf{}, exitUsage, "stock is not a URL", "init stock orders")
}

func TestInitOfMariaDB(t *testing.T) {
	server := testenv.MariaDB(t)
	database, root := server.NewDatabase(t), server.Root(t)
	exec := func(statement string) {
		if _, err := root.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	user := "init_" + database
	exec("CREATE USER '" + user + "'@'%' IDENTIFIED BY 'p:w@1'")
	t.Cleanup(func() { exec("DROP USER '" + user + "'@'%'") })
	exec("GRANT SELECT ON " + database + ".* TO '" + user + "'@'%'")
	url := server.URL(user, "p:w@1", database)
	plays(t, url, exec, map[string]initCase{
		"states": {"CREATE TABLE " + database + ".stock (id BIGINT AUTO_INCREMENT PRIMARY KEY, sku VARCHAR(20) NOT NULL, old_no INT UNIQUE, gmt_create DATETIME NOT NULL, changed TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, deleted_at DATETIME, UNIQUE (sku), KEY (changed))",
			"stock", "stock", map[string]string{"TABLE": "stock", "KIND": "capability", "ID": "id", "KEY": "sku", "CREATED": "gmt_create", "MODIFIED": "changed"}, ""},
		"the database knows better than names": {"CREATE TABLE " + database + ".fx (id INT AUTO_INCREMENT PRIMARY KEY, updated_at DATETIME, seen TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, KEY (seen))",
			"fx", "fx", map[string]string{"TABLE": "fx", "KIND": "capability", "ID": "id", "MODIFIED": "seen"}, ""},
		"with another number": {"CREATE TABLE " + database + ".Log (n INT NOT NULL, seq BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, day DATE NOT NULL, PRIMARY KEY (seq, day))",
			"Log", "log", map[string]string{"TABLE": "Log", "KIND": "capability", "ID": "seq"}, ""},
		"a hostile name":    {"CREATE TABLE " + database + ".`$(x)``; #\"` (id INT NOT NULL PRIMARY KEY)", "$(x)`; #\"", "x", map[string]string{"TABLE": "'$(x)`; #\"'", "KIND": "capability", "ID": "id"}, ""},
		"with its database": {"CREATE TABLE " + database + ".orders (id INT AUTO_INCREMENT PRIMARY KEY)", database + ".orders", "orders", map[string]string{"TABLE": database + ".orders", "KIND": "capability", "ID": "id"}, ""},
		"a missing table":   {"SELECT 1", "none", "", nil, "none"},
	})
	got := mustCall(t, settingsOf{}, exitFine, "Name one of them", "init "+url)
	if !strings.HasPrefix(got.out, "$(x)`; #\"\nfx\nLog\norders\nstock\n") {
		t.Errorf("lists %s", got.out)
	}
	wrong := outcome{}.call(settingsOf{}, "init", strings.Replace(url, "@", "hunter2@", 1), "stock")
	if wrong.status != exitFailed || strings.Contains(wrong.err, "hunter2") {
		t.Errorf("a wrong password: %+v", wrong)
	}
}
