package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/pebble"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/app"
	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/tests/must"
)

// shop is a database with the commands of a bridge that publishes it.
type shop struct {
	*apptest.Shop
	t   *testing.T
	env settingsOf
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := apptest.NewShop(t)
	return &shop{Shop: s, t: t, env: s.Env}
}

func (s *shop) exec(statement string) {
	s.t.Helper()
	s.Exec(s.t, statement)
}

func (s *shop) call(status int, words, line string) {
	s.t.Helper()
	mustCall(s.t, s.env, status, words, line)
}

// playShop plays each block of a file in a shop of its own, side by side. A block is a name behind
// "#" and lines: a variable that is set, or unset where it has no value, SQL behind ">", a command
// behind "$" and its exit status, what it prints behind "|", and does not behind "!", whatever
// blanks are between the words. "=" reconciles, and has so many messages on the bus then.
func playShop(t *testing.T, path string) {
	text := string(must.Get(os.ReadFile(path))(t))
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		title, block, _ := strings.Cut(block, "\n")
		t.Run(strings.TrimPrefix(title, "# "), func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			p := &playing{shop: s, path: strings.TrimPrefix(s.env["BRIDGE_CHECKPOINT_URL"], "file:")}
			for line := range strings.SplitSeq(strings.ReplaceAll(block, "DIR", filepath.Dir(p.path)), "\n") {
				p.play(line)
			}
		})
	}
}

// playing has the lines of a block: the folder of the checkpoint, what the last command has
// printed, and what the folder had at "keep".
type playing struct {
	*shop
	path, said, kept string
}

func (p *playing) play(line string) {
	t := p.t
	step, rest, _ := strings.Cut(line, " ")
	key, rest2, _ := strings.Cut(rest, " ")
	at := store.Key{Stream: "orders", Shard: key}
	switch step {
	case "#":
	case ">":
		p.exec(rest)
	case "$", "1$", "2$":
		got := outcome{}.call(p.env, strings.Fields(rest)...)
		if p.said = strings.Join(strings.Fields(got.out+" "+got.err), " "); fmt.Sprint(got.status) != cmp.Or(strings.TrimSuffix(step, "$"), "0") {
			t.Errorf("%s: status %d\n%s", line, got.status, p.said)
		}
	case "|", "!":
		if strings.Contains(p.said, rest) != (step == "|") {
			t.Errorf("%s\n%s", line, p.said)
		}
	case "=":
		if p.call(exitFine, "orders orders", "reconcile"); fmt.Sprint(p.messages()) != rest {
			t.Errorf("%s: %d messages", line, p.messages())
		}
	case "keep": // what the folder has
		p.kept = contents(t, p.path)
	case "same":
		if contents(t, p.path) != p.kept {
			t.Error("the checkpoint has changed")
		}
	case "hold": // the checkpoint, as a bridge that runs
		held := must.Get(pebble.Open(t.Context(), p.path, pebble.Options{}))(t)
		t.Cleanup(func() { must.OK(t, held.Close()) })
	case "filled": // the checkpoint, and no other variable is set
		p.env, p.path = filled(t)
	case "minimal": // what is required is set, too
		p.env = with("BRIDGE_CHECKPOINT_URL", p.env["BRIDGE_CHECKPOINT_URL"])
	case "kind": // SHARD KIND, which the checkpoint has
		putPart(t, p.path, at, store.Part{Kind: store.MeaningPart, Bytes: store.AppendMeaning(nil, &store.Meaning{Kind: rest2, Table: "shop." + key, ID: "id"})})
	case "damage": // SHARD, the gaps of which
		putPart(t, p.path, at, store.Part{Kind: store.Gaps, Bytes: []byte("damaged")})
	case "has": // SHARD TEXT
		image := after(t, p.path)
		one, since := image.Shards[at], "since ever"
		if one.Since != 0 && one.Since == image.Epoch {
			since = "since the last change"
		}
		if got := fmt.Sprintf("floor %d, snapshot %d to %d, %s", one.Floor, one.Snapshot.First, one.Snapshot.Last, since); got != rest2 {
			t.Errorf("%s: %s", line, got)
		}
	default:
		name, value, set := strings.Cut(line, "=")
		if !strings.HasPrefix(name, "BRIDGE_") {
			t.Fatalf("unknown step %q", line)
		}
		if p.env[name] = value; !set {
			delete(p.env, name)
		}
	}
}

func TestReconcileAlone(t *testing.T) { playShop(t, "testdata/reconcile.txt") }

func TestCheckpointCommands(t *testing.T) { playShop(t, "testdata/checkpoint.txt") }

func TestRowsThatDoNotMatch(t *testing.T) { playShop(t, "testdata/rows.txt") }

func TestEveryFormatOfEvents(t *testing.T) { playShop(t, "testdata/formats.txt") }

func TestMasks(t *testing.T) { playShop(t, "testdata/masks.txt") }

func TestCommandsOfAShop(t *testing.T) { playShop(t, "testdata/shop.txt") }

// TestADryRunOfNoStream: where all tables are stopped none is asked for, and nothing is published.
func TestADryRunOfNoStream(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.call(exitFine, "", "reconcile")
	s.exec("INSERT INTO orders (name, total) VALUES ('new', 1)")
	path := strings.TrimPrefix(s.env["BRIDGE_CHECKPOINT_URL"], "file:")
	before := contents(t, path)
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	o := app.InsideOptions{Config: load(t, s.env), Logger: slog.New(slog.DiscardHandler), DryRun: true}
	if _, err := app.RunInside(ctx, o, func(ctx context.Context, bridge *app.Inside) error {
		bridge.Begin(ctx)
		for {
			status, err := bridge.Working(ctx)
			if err != nil || status.Streams[0].Shards[0].Reconcile.LastDryRun != nil {
				return err
			}
			if err := backoff.Pause(ctx, time.Millisecond); err != nil {
				return err
			}
		}
	}); err != nil {
		t.Errorf("the run was not a dry run: %v", err)
	}
	if contents(t, path) != before {
		t.Error("the checkpoint has changed")
	}
}

func contents(t *testing.T, path string) string {
	t.Helper()
	var all strings.Builder
	must.OK(t, filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		fmt.Fprintf(&all, "%s %d\n%s\n", name, len(text), text)
		return err
	}))
	return all.String()
}

func (s *shop) messages() int {
	s.t.Helper()
	got := outcome{}.call(s.env, "verify", "--json")
	var report struct{ Messages int }
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		s.t.Fatalf("%v, %+v", err, got)
	}
	return report.Messages
}
