package world

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"bridge/tests/testenv"
)

// formerCommit is the version before this one, whose topics and checkpoints this one continues.
const formerCommit = "310f6f7e1993fcd9f05374270e679a72bd7514a5"

// Former is the former version: the program, and a consumer with its package client.
type Former struct{ Bridge, Reader string }

// BuildFormer builds the former version from the history of the repository, once. The test is
// skipped where the history does not have it; with CI=true it fails.
func BuildFormer(t testing.TB, reader string) Former {
	t.Helper()
	if !hasFormer() {
		testenv.Missing(t, "former version", fmt.Errorf("git does not have the commit %.12s, and origin does not give it: fetch the whole history", formerCommit))
	}
	former.once.Do(func() { former.built, former.err = compileFormer(reader) })
	if former.err != nil {
		t.Fatal(former.err)
	}
	return former.built
}

// hasFormer reports whether git has the former version, which it fetches for a shallow clone.
func hasFormer() bool {
	has := func() bool { return git("cat-file", "-e", formerCommit+"^{commit}").Run() == nil }
	return has() || git("fetch", "--quiet", "--depth=1", "origin", formerCommit).Run() == nil && has()
}

var former struct {
	once  sync.Once
	built Former
	err   error
}

func git(args ...string) *exec.Cmd { return exec.Command("git", args...) }

// compileFormer builds both programs into a folder that is removed after the last test. The flags
// are those of compile, so that packages that have not changed are compiled once.
func compileFormer(reader string) (f Former, err error) {
	dir, err := os.MkdirTemp("", "bridge-former-")
	if err != nil {
		return f, err
	}
	testenv.AtExit(func() { os.RemoveAll(dir) })
	source := filepath.Join(dir, "source")
	top, err := git("rev-parse", "--show-toplevel").Output()
	if err == nil {
		err = os.CopyFS(filepath.Join(source, "reader"), os.DirFS(reader))
	}
	if err != nil {
		return f, err
	}
	unpack := exec.Command("tar", "-x", "-C", source)
	archive := git("-C", strings.TrimSpace(string(top)), "archive", formerCommit)
	if unpack.Stdin, err = archive.StdoutPipe(); err != nil {
		return f, err
	}
	if err = archive.Start(); err == nil {
		err = unpack.Run()
	}
	if err == nil {
		err = archive.Wait()
	}
	if err != nil {
		return f, fmt.Errorf("unpack the former version: %w", err)
	}
	f = Former{filepath.Join(dir, "bridge"), filepath.Join(dir, "reader")}
	for output, of := range map[string]string{f.Bridge: "./cmd/bridge", f.Reader: "./reader"} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-w", "-tags=", "-o", output, of)
		build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0", "PWD="+source)
		if out, err := build.CombinedOutput(); err != nil {
			return f, fmt.Errorf("build the former %s: %w: %s", of, err, out)
		}
	}
	return f, nil
}

// FormerReader is a consumer with the former package client that runs.
type FormerReader struct {
	t     testing.TB
	in    io.Writer
	lines *bufio.Reader
	log   *Log
}

// FormerRead is what a FormerReader has read: the entities of the streams of entities, and the ids
// of the events of the other one, without repeats.
type FormerRead struct {
	Error    string
	Entities []struct {
		Key, Stream string
		Body        json.RawMessage
	}
	Events []string
}

// Read runs a consumer of both streams of a publisher until the test ends.
func (f Former) Read(p *Publisher) *FormerReader {
	p.T.Helper()
	reads := func(stream string) string {
		return strings.ReplaceAll(p.Env["BRIDGE_STREAM_"+strings.ToUpper(stream)+"_DESTINATION"], "{type}", ">")
	}
	var server string
	if p.Bus.Kafka != nil {
		server = strings.Join(p.Bus.Kafka.Brokers(), ",")
	} else {
		server = p.Bus.NATS.URL()
	}
	r := &FormerReader{t: p.T, log: new(Log)}
	cmd := exec.Command(f.Reader, p.Bus.String(), server, "former_"+p.Destination("reader"), Strict, reads(Strict), Orders, reads(Orders))
	cmd.Stderr = r.log
	// It ends at the end of its standard input, also where this process is killed.
	in, err := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if err == nil {
		err = errOut
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.T.Fatal(err)
	}
	r.in, r.lines = in, bufio.NewReader(out)
	p.T.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if p.T.Failed() {
			p.T.Logf("log of the former client:\n%s", r.log.Tail(20))
		}
	})
	return r
}

// Now returns what it has read by now.
func (r *FormerReader) Now() (read FormerRead) {
	r.t.Helper()
	_, err := fmt.Fprintln(r.in)
	var line []byte
	if err == nil {
		line, err = r.lines.ReadBytes('\n')
	}
	if err == nil {
		err = json.Unmarshal(line, &read)
	}
	if err != nil {
		r.t.Fatalf("the former client: %v\n%s", err, r.log.Tail(20))
	}
	return read
}
