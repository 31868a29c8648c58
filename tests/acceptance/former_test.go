package acceptance

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

	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// formerCommit is the version before this one, whose topics and checkpoints this one continues.
const formerCommit = "310f6f7e1993fcd9f05374270e679a72bd7514a5"

// former is the former version: the program, and a consumer with its package client.
type former struct{ bridge, reader string }

// buildFormer builds the former version from the history of the repository, once. The test is
// skipped where the history does not have it; with CI=true it fails.
func buildFormer(t testing.TB) former {
	t.Helper()
	// A shallow clone fetches it.
	has := func() bool { return exec.Command("git", "cat-file", "-e", formerCommit+"^{commit}").Run() == nil }
	if !has() && (exec.Command("git", "fetch", "--quiet", "--depth=1", "origin", formerCommit).Run() != nil || !has()) {
		testenv.Missing(t, "former version", fmt.Errorf("git does not have the commit %.12s, and origin does not give it: fetch the whole history", formerCommit))
	}
	built, err := compileFormer()
	check(t, err)
	return built
}

// compileFormer builds both programs into a folder that is removed after the last test. The flags
// are those of world.Binary, so that packages that have not changed are compiled once.
var compileFormer = sync.OnceValues(func() (f former, err error) {
	dir, err := os.MkdirTemp("", "bridge-former-")
	if err != nil {
		return f, err
	}
	testenv.AtExit(func() { os.RemoveAll(dir) })
	source := filepath.Join(dir, "source")
	if err := os.CopyFS(filepath.Join(source, "reader"), os.DirFS("testdata/formerclient")); err != nil {
		return f, err
	}
	unpack := exec.Command("sh", "-c", `git archive "$0" | tar -x -C "$1"`, formerCommit, source)
	unpack.Dir = world.Root
	if out, err := unpack.CombinedOutput(); err != nil {
		return f, fmt.Errorf("unpack the former version: %w: %s", err, out)
	}
	f = former{filepath.Join(dir, "bridge"), filepath.Join(dir, "reader")}
	for output, of := range map[string]string{f.bridge: "./cmd/bridge", f.reader: "./reader"} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-w", "-tags=", "-o", output, of)
		build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0", "PWD="+source)
		if out, err := build.CombinedOutput(); err != nil {
			return f, fmt.Errorf("build the former %s: %w: %s", of, err, out)
		}
	}
	return f, nil
})

// formerReader is a consumer with the former package client that runs.
type formerReader struct {
	t     testing.TB
	in    io.Writer
	lines *bufio.Reader
}

// formerRead is what a formerReader has read: the entities of the streams of entities, and the ids
// of the events of the other one, without repeats.
type formerRead struct {
	Error    string
	Entities []struct {
		Key, Stream string
		Body        json.RawMessage
	}
	Events []string
}

// read runs a consumer of both streams of a publisher until the test ends.
func (f former) read(p *world.Publisher) *formerReader {
	p.T.Helper()
	reads := func(stream string) string {
		return strings.ReplaceAll(p.Env["BRIDGE_STREAM_"+strings.ToUpper(stream)+"_DESTINATION"], "{type}", ">")
	}
	server := strings.TrimPrefix(p.Env["BRIDGE_SINK_URL"], "kafka://")
	cmd := exec.Command(f.reader, p.Bus.String(), server, "former_"+p.Destination("reader"), world.Strict, reads(world.Strict), world.Orders, reads(world.Orders))
	log := new(world.Log)
	cmd.Stderr = log
	// It ends at the end of its standard input, also where this process is killed.
	in, err := cmd.StdinPipe()
	check(p.T, err)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	check(p.T, err)
	p.T.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if p.T.Failed() {
			p.T.Logf("log of the former client:\n%s", log.Tail(20))
		}
	})
	return &formerReader{t: p.T, in: in, lines: bufio.NewReader(out)}
}

// now returns what it has read by now.
func (r *formerReader) now() (read formerRead) {
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
		r.t.Fatalf("the former client: %v", err)
	}
	return read
}
