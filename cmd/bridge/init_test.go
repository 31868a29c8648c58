package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// plays has bridge init write a file for each table of a recording, a statement that makes it and
// its name, and bridge check accept it.
func plays(t *testing.T, recording, url, database string, exec func(string)) {
	t.Helper()
	hide := strings.NewReplacer(url, "URL", database, "DATABASE").Replace
	configtest.Recorded(t, recording, *update, func(t *testing.T, input []string) string {
		statement, table := strings.ReplaceAll(input[0], "DATABASE", database), strings.ReplaceAll(input[1], "DATABASE", database)
		exec(strings.ReplaceAll(statement, "\\n", "\n"))
		path := filepath.Join(t.TempDir(), "made.env")
		args := []string{"init", "--out", path, url, strings.ReplaceAll(table, "\\n", "\n")}
		got := outcome{}.call(settingsOf{}, args...)
		text, err := os.ReadFile(path)
		if got.status != exitFine {
			if err == nil {
				t.Errorf("it has written %s", text)
			}
			return hide(fmt.Sprintf("%s= %d\n", got.err, got.status))
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(got.out, "bridge check --env-file "+path) {
			t.Errorf("%v, %v, %+v", info, err, got)
		}
		if got := (outcome{}).call(settingsOf{}, "check", "--env-file", path); got.status != exitFine {
			t.Errorf("bridge check: %+v", got)
		}
		if again := (outcome{}).call(settingsOf{}, args...); again.status != exitFailed || !strings.Contains(again.err, "is there and is left alone") {
			t.Errorf("again: %+v", again)
		}
		for line := range strings.Lines(string(text)) {
			if len(line) > 80 && strings.HasPrefix(line, "#") {
				t.Errorf("wider than a terminal: %s", line)
			}
		}
		return hide(string(text))
	})
}

func TestInitOfSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shop.db")
	db := must.Get(sql.Open("sqlite", file))(t)
	defer db.Close()
	exec := func(statement string) {
		must.Get(db.Exec(statement))(t)
	}
	url := "sqlite:" + file
	exec("PRAGMA user_version = 1") // makes the file
	mustCall(t, settingsOf{}, exitFailed, "the database has no table", "init "+url)
	plays(t, "testdata/init.sqlite.txt", url, file, exec)
	mustCall(t, settingsOf{}, exitFine, "Name one of them: bridge init <url> <table>", "init "+url)
	mustCall(t, settingsOf{}, exitUsage, "BRIDGE_SOURCE_URL: ", "init nosuch://x t")
	mustCall(t, settingsOf{}, exitFailed, "file", "init sqlite:"+file+".none t")
}

// TestInitWithoutAURLInTheCommand keeps a password out of the list of processes.
func TestInitWithoutAURLInTheCommand(t *testing.T) {
	dir, url := t.TempDir(), newShop(t).env["BRIDGE_SOURCE_URL"]
	secret, env := filepath.Join(dir, "url"), filepath.Join(dir, "env")
	for path, text := range map[string]string{secret: url + "\n", env: "BRIDGE_SOURCE_URL_FILE=" + secret + "\nBRIDGE_STREAMS=x\n"} {
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for name, c := range map[string]struct {
		set     settingsOf
		flags   []string
		written string
	}{
		"a file":              {settingsOf{"BRIDGE_SOURCE_URL_FILE": secret}, nil, "BRIDGE_SOURCE_URL_FILE=" + secret},
		"the environment":     {settingsOf{"BRIDGE_SOURCE_URL": url}, nil, "BRIDGE_SOURCE_URL=" + url},
		"a file of variables": {settingsOf{}, []string{"--env-file", env}, "BRIDGE_SOURCE_URL_FILE=" + secret},
		"an empty variable":   {settingsOf{"BRIDGE_SOURCE_URL": ""}, []string{"--env-file", env}, "BRIDGE_SOURCE_URL_FILE=" + secret},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "made.env")
			if got := (outcome{}).call(c.set, append([]string{"init", "--out", path, "orders"}, c.flags...)...); got.status != exitFine {
				t.Fatalf("%+v", got)
			}
			if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "\n"+c.written+"\n") {
				t.Errorf("no %s in the file: %v\n%s", c.written, err, text)
			}
			if got := (outcome{}).call(settingsOf{}, "check", "--env-file", path); got.status != exitFine {
				t.Errorf("bridge check: %+v", got)
			}
			got := outcome{}.call(c.set, append([]string{"init"}, c.flags...)...)
			if got.status != exitFine || !strings.Contains(got.out, "orders\n\nName one of them: bridge init <table>") {
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
		must.Get(root.Exec(statement))(t)
	}
	user := "init_" + database
	exec("CREATE USER '" + user + "'@'%' IDENTIFIED BY 'p:w@1'")
	t.Cleanup(func() { exec("DROP USER '" + user + "'@'%'") })
	exec("GRANT SELECT ON " + database + ".* TO '" + user + "'@'%'")
	url := server.URL(user, "p:w@1", database)
	plays(t, "testdata/init.mariadb.txt", url, database, exec)
	got := mustCall(t, settingsOf{}, exitFine, "Name one of them", "init "+url)
	if !strings.HasPrefix(got.out, "$(x)`; #\"\nLog\nfx\norders\nstock\n") {
		t.Errorf("lists %s", got.out)
	}
	wrong := outcome{}.call(settingsOf{}, "init", strings.Replace(url, "@", "hunter2@", 1), "stock")
	if wrong.status != exitFailed || strings.Contains(wrong.err, "hunter2") {
		t.Errorf("a wrong password: %+v", wrong)
	}
}

// runDemo runs the demo in this process, with a temporary folder and an environment of its own,
// until it has printed all words, and returns what it printed and what it left in the folder.
func runDemo(t *testing.T, words, env []string, args ...string) (status int, out, errs string, left []string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if words == nil {
		cancel()
	}
	stdout, stderr := &interrupting{words: words, cancel: cancel}, new(bytes.Buffer)
	status = newProcess(env, stdout, stderr).run(ctx, append([]string{"demo"}, args...))
	entries := must.Get(os.ReadDir(dir))(t)
	for _, e := range entries {
		left = append(left, filepath.Join(dir, e.Name()))
	}
	return status, stdout.text.String(), stderr.String(), left
}

var summary = regexp.MustCompile(`(?s)\nwritten    [1-9]\d* changes in [^\n]+\nreceived   [1-9]\d* events: tail \d+, late [1-9]\d*, second cursor [1-9]\d*, reconcile \d+
latency    p50 \d+m?s, p99 \d+m?s from COMMIT to the screen, reconcile apart\n.*
bus: [1-9]\d* messages.*\nstream products: .*\nstream stock: .*\nstream orders: .*\nnothing is wrong, as far as it can be judged\n$`)

// TestDemo publishes events of all kinds, prints how to subscribe, verifies, and keeps its folder.
func TestDemo(t *testing.T) {
	// What is wrong in the environment is none of its business.
	env := []string{"BRIDGE_SOURCE_URL=nonsense", "BRIDGE_UNKNOWN=1", "BRIDGE_POLL_INTERVAL=x"}
	words := []string{"ProductAddedEvent", "ProductModifiedEvent", "StockAddedEvent", "OrderPublishedEvent", " late ", " edit ", "never sees it"}
	status, out, errs, left := runDemo(t, words, env, "--for", "2m", "--keep")
	if status != 0 || !summary.MatchString(out) || strings.Contains(out, "\x1b") || len(left) != 1 || !strings.Contains(out, "kept       "+left[0]) {
		t.Fatalf("status %d, left %v: %s\n%s", status, left, errs, out)
	}
	for _, word := range words {
		if !strings.Contains(out, word) {
			t.Errorf("no %q in\n%s", word, out)
		}
	}
	if !regexp.MustCompile(`nats sub 'eiffel\.>' -s nats://127\.0\.0\.1:\d+\n`).MatchString(out) {
		t.Errorf("it does not say how to subscribe\n%s", out)
	}
	text := must.Get(os.ReadFile(filepath.Join(left[0], "bridge.env")))(t)
	cfg := must.Get(config.Load(strings.Split(strings.TrimSpace(string(text)), "\n"), &config.Redactor{}))(t)
	if _, err := os.Stat(cfg.Sources[0].Addr); err != nil {
		t.Error(err)
	}
}

// interrupting cancels a context once it has got all words.
type interrupting struct {
	text   bytes.Buffer
	words  []string
	cancel context.CancelFunc
}

func (w *interrupting) Write(p []byte) (int, error) {
	n, err := w.text.Write(p)
	if !slices.ContainsFunc(w.words, func(word string) bool { return !bytes.Contains(w.text.Bytes(), []byte(word)) }) {
		w.cancel()
	}
	return n, err
}

// TestDemoInterrupted: before it begins, at its first event, and by a pipe that goes away it ends
// with status 0, and nothing is left.
func TestDemoInterrupted(t *testing.T) {
	status, _, errs, left := runDemo(t, nil, nil)
	if status != 0 || errs != "" || len(left) > 0 {
		t.Errorf("status %d: %s, left %v", status, errs, left)
	}
	if status, out, errs, left := runDemo(t, []string{"AddedEvent "}, nil); status != 0 || len(left) > 0 {
		t.Errorf("status %d, left %v, %s\n%s", status, left, errs, out)
	}
	var broken bytes.Buffer
	if status := newProcess(nil, brokenPipe{}, &broken).run(t.Context(), []string{"demo"}); status != 0 || broken.Len() > 0 {
		t.Errorf("status %d: %s", status, broken.String())
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
}

func TestDemoSaysWhatIsWrong(t *testing.T) {
	t.Run("no temporary folder", func(t *testing.T) {
		t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
		var out, errs bytes.Buffer
		if status := newProcess(nil, &out, &errs).run(t.Context(), []string{"demo"}); status != 1 || !strings.Contains(errs.String(), "set TMPDIR") {
			t.Errorf("status %d: %s", status, errs.String())
		}
	})
	t.Run("a full disk", func(t *testing.T) {
		for _, full := range []error{syscall.ENOSPC, errors.New("commit: database or disk is full (13)")} {
			if err := explainDemo(full, "/tmp/x"); !strings.Contains(err.Error(), "no room on the disk of /tmp") || !errors.Is(err, full) {
				t.Errorf("%v", err)
			}
		}
	})
}
