package acceptance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

// TestUpgrade has the former version and this one publish a world in turn, with the checkpoint of
// the other one and without it, killed and ended in order: each goes on where the other one was.
// The former package client reads what both write.
func TestUpgrade(t *testing.T) {
	testall.Beside(t)
	former := buildFormer(t)
	kafka, nats := world.KafkaBus(testenv.Kafka(t)), world.NATSBus(testenv.NATS(t))
	for mode, b := range map[string]*world.Bus{"at-least-once": nats, "exactly-once": kafka, progressOnTheBus: kafka} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			upgrade(t, b, mode, former)
		})
	}
}

const progressOnTheBus = "progress on the bus"

func upgrade(t *testing.T, b *world.Bus, mode string, former former) {
	exactlyOnce := mode == "exactly-once"
	if exactlyOnce {
		b = b.ExactlyOnce(t.Name())
	}
	// Both streams may have a batch in flight.
	const batchRows, batches = 50, 2
	p := underLoad(t, b, world.Binary(t, false), nil)
	if mode == progressOnTheBus {
		p.Env = p.Env.With(progressOnBus(t, b))
	}
	current, kills, had := p.Path, 0, int64(0)
	read := former.read(p)
	_, stop := p.World.Write()
	goesOn := func(path, what string) {
		t.Helper()
		p.Path = path
		p.Start()
		p.CaughtUp(2*time.Minute, what)
		world.Eventually(t, time.Minute, what, func() bool {
			return b.Count(t, p.Destination(world.Orders))+b.Count(t, p.Destination(world.Strict)) >= had+100
		})
		had = b.Count(t, p.Destination(world.Orders)) + b.Count(t, p.Destination(world.Strict))
	}
	killed := func() { p.Kill(); kills++ }
	ended := func() {
		t.Helper()
		p.Ends()
	}
	goesOn(former.bridge, "the former version publishes")
	ended()
	goesOn(current, "this version goes on with the checkpoint of the former one")
	killed()
	goesOn(former.bridge, "the former version goes on with the checkpoint of this one, which was killed")
	killed()
	p.LoseCheckpoint()
	goesOn(current, "this version goes on without a checkpoint")
	ended()
	p.LoseCheckpoint()
	goesOn(former.bridge, "the former version goes on without a checkpoint")
	killed()
	goesOn(current, "this version goes on with the checkpoint of the former one, which was killed")
	stop()
	most := 0
	if !exactlyOnce {
		// JetStream knows a repeat by an id of which another version may have another form.
		most = kills * batches * batchRows
	}
	p.MustHold(most, world.Expect{})
	formerReads(t, p, read)
}

func formerReads(t *testing.T, p *world.Publisher, r *formerReader) {
	t.Helper()
	ids := make(map[string]bool)
	for _, m := range p.Received(world.Orders) {
		e := decode(t, m)
		ids[e.ID] = true
	}
	world.Until(t, time.Minute, "the former client has read all", func() any {
		read, given := r.now(), make(map[string]bool)
		var messages []world.Message
		for _, e := range read.Entities {
			messages = append(messages, world.Message{Key: e.Key, Value: e.Body, Headers: map[string]string{"bridge-stream": e.Stream}})
		}
		for _, id := range read.Events {
			if given[id] = true; !ids[id] {
				t.Errorf("the former client was given an event %s that the bus does not have", id)
			}
		}
		wrong := p.World.Difference(world.Strict, messages)
		if wrong == "" && len(messages) > 0 && len(read.Events) == len(ids) && len(given) == len(ids) {
			return nil
		}
		return fmt.Sprintf("%d entities, %d events of %d (%s): %s", len(messages), len(read.Events), len(ids), read.Error, wrong)
	})
}

// TestUpgradeOfAStandby: one process of a group is of the former version. Either takes over from
// the other one. What the former one forwards is done; what the newer one forwards counts as a
// request without a token.
func TestUpgradeOfAStandby(t *testing.T) {
	testall.Beside(t)
	former := buildFormer(t)
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		w := world.New(t, world.Options{Database: testenv.MariaDB(t), Rows: new(workload.Options)})
		p := w.Publish(b, world.Publishing{Path: world.Binary(t, false), Env: world.Env{
			"BRIDGE_STANDBY": strings.ReplaceAll(w.Name, ".", "_"), "BRIDGE_STANDBY_TIMEOUT": shortTimeout.String(), "BRIDGE_HTTP_TOKEN": "0123456789abcdef",
		}})
		newer := p.Daemon
		older := world.NewDaemon(t, former.bridge, p.Env.WithoutOwn())
		post := func(d *world.Daemon, want int) {
			t.Helper()
			if status, body := d.Post("/api/v1/streams/orders/reconcile?dryRun=true"); status != want {
				t.Errorf("a request that was forwarded: %d %s, want %d", status, body, want)
			}
		}
		works := func(d *world.Daemon) bool { s, _ := d.Standby(); return s.Works }
		waits := func(d *world.Daemon) {
			t.Helper()
			d.Start()
			world.AwaitReady(t, d)
			world.Eventually(t, time.Minute, "it waits for the other one", func() bool { s, _ := d.Standby(); return !s.Works && s.Working != "" })
		}
		older.Start()
		world.Eventually(t, time.Minute, "the former version works", func() bool { return works(older) })
		waits(newer)
		if code, body := newer.Get("/api/v1/status?working=true"); code != http.StatusOK || !strings.Contains(body, `"works":true`) {
			t.Errorf("the status by way of the newer one: %d %s", code, body)
		}
		post(newer, http.StatusBadGateway)
		w.Insert("before", 20)
		older.Kill()
		world.Eventually(t, time.Minute, "the newer version works", func() bool { return works(newer) })
		p.CaughtUp(time.Minute, "the newer version goes on")
		waits(older)
		if code, body := older.Get("/api/v1/status?working=true"); code != http.StatusOK || !strings.Contains(body, `"works":true`) {
			t.Errorf("the status by way of the former one: %d %s", code, body)
		}
		post(older, http.StatusAccepted)
		w.Insert("behind", 20)
		p.CaughtUp(time.Minute, "the newer version publishes")
		newer.Kill()
		world.Eventually(t, time.Minute, "the former version works again", func() bool { return works(older) })
		w.Insert("again", 20)
		p.Daemon = older
		p.CaughtUp(time.Minute, "the former version goes on")
		p.MustMatch(world.Orders, world.Expect{Reconciled: true})
	})
}

// formerCommit is the version before this one, whose topics and checkpoints this one continues.
const formerCommit = "310f6f7e1993fcd9f05374270e679a72bd7514a5"

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
	built := must.Get(compileFormer())(t)
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
	unpack.Dir = testenv.Root()
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
	in := must.Get(cmd.StdinPipe())(p.T)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.OK(p.T, err)
	p.T.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if p.T.Failed() {
			p.T.Logf("log of the former client:\n%s", log.Tail(20))
		}
	})
	return &formerReader{t: p.T, in: in, lines: bufio.NewReader(out)}
}

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
