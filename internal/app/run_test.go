package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/app/apptest"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/must"
)

// sharedLog is a log that several goroutines write.
type sharedLog = sourcetest.Log

// until waits for a condition. It fails the test after four minutes, with what state says.
func until(t *testing.T, what string, state func() any, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(4 * time.Minute); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s: %v", what, state())
		}
	}
}

type runner interface {
	Run(context.Context) error
	Close() error
}

// start runs an app or a process. stop ends it and closes it.
func start(t *testing.T, a runner) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	return func() {
		cancel()
		if err := errors.Join(<-ended, a.Close()); err != nil {
			t.Error(err)
		}
	}
}

// runUntil runs an app until its log has a text, and ends it in good order.
func runUntil(t *testing.T, cfg *config.Config, log *sharedLog, text string) {
	t.Helper()
	a := must.Get(OpenProcess(t.Context(), ProcessOptions{Config: cfg, Logger: slog.New(slog.NewTextHandler(log, nil)), Build: build}))(t)
	stop := start(t, a)
	until(t, "the log has "+text, func() any { return log.String() }, func() bool { return strings.Contains(log.String(), text) })
	stop()
}

// TestTheLogOfAHealthyRun: it says what was read from the bus, where the stream begins, when it has
// caught up and what a stop waits for, and nothing twice.
func TestTheLogOfAHealthyRun(t *testing.T) {
	t.Parallel()
	s := apptest.NewShop(t)
	log := new(sharedLog)
	cfg := load(t, s.Env)
	runUntil(t, cfg, log, "caught up")
	seen := make(map[string]int)
	for line := range strings.Lines(log.String()) {
		_, rest, _ := strings.Cut(line, "msg=")
		seen[rest]++
		if seen[rest] > 1 {
			t.Errorf("logged twice: %s", line)
		}
		if strings.Contains(line, `=""`) {
			t.Errorf("an empty attribute: %s", line)
		}
	}
	for _, want := range []string{
		`msg="bridge runs" version=1.2.3 streams=1 shards=1`, "checkpoint=" + filepath.Dir(cfg.CheckpointPath),
		`msg="the bus was read" streams=1 stopped=0 messages=0`, `msg="stream begins" stream=orders shard=orders position=0`, `msg="caught up" stream=orders shard=orders published=60 position=60 after=`,
		`msg="stopping, Ctrl-C again stops at once, nothing is lost" timeout=10s`, `msg="bridge ended"`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log.String())
		}
	}
	// Under another name the stream publishes all again.
	renamed := configtest.Env{"BRIDGE_STREAMS": "bills", "BRIDGE_STREAM_BILLS_TABLE": "orders", "BRIDGE_STREAM_BILLS_KIND": "capability"}
	for name, value := range s.Env {
		if !strings.HasPrefix(name, "BRIDGE_STREAM") {
			renamed[name] = value
		}
	}
	again := new(sharedLog)
	runUntil(t, load(t, renamed), again, "caught up")
	before, _, _ := strings.Cut(again.String(), `msg="stream begins" stream=bills`)
	want := `level=WARN msg="finding about the checkpoint" code=checkpoint-other severity=warning subject=` + cfg.CheckpointPath + ` finding="holds the stream orders (orders), which is not configured" remedy="where it is the checkpoint of another installation, set BRIDGE_CHECKPOINT_URL to this one's; where the stream was renamed, give it its name back; `
	if !strings.Contains(before, want) || strings.Contains(log.String(), "about the checkpoint") {
		t.Errorf("the log lacks %s, or has it before:\n%s", want, again.String())
	}
}

func TestGCPercent(t *testing.T) {
	percent := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := percent()
	for variable, want := range map[string]uint64{"": gcPercent, "GOGC": before, "GOMEMLIMIT": before} {
		t.Run("with "+variable, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			if variable != "" {
				t.Setenv(variable, "70MiB")
			}
			undo := setGCPercent()
			got := percent()
			if undo(); got != want || percent() != before {
				t.Errorf("the percent is %d, want %d, and at the end %d, it was %d", got, want, percent(), before)
			}
		})
	}
}

func TestLedgersStayBelow64MiB(t *testing.T) {
	for _, shards := range []int{0, 1, 2, 3, 100, 128, 129, 500, 1024} {
		one := ledgerBytes(shards)
		if sum := one * shards; one < leastLedgerBytes || one > mostLedgerBytes || sum > 64<<20 || shards <= 128 && sum > ledgersBytes {
			t.Errorf("%d shards: %d bytes each, %d in all", shards, one, sum)
		}
	}
}

// TestAReloadWaitsForNoOtherServer: behind a reload the quiet tables of a server that is away,
// which come first, do not hold up those of another one.
func TestAReloadWaitsForNoOtherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers(t)
		// By the 5 s that four of them may take, those of a would need 50 s.
		names := "b/shop.t,b/shop.u"
		for i := range 40 {
			names = fmt.Sprintf("a/shop.t_%d,%s", i, names)
			s.newShop("a")
			s.tables[fmt.Sprintf("a/shop.t_%d", i)] = s.tables["a/shop.t"]
		}
		s.tables["b/shop.u"] = s.tables["b/shop.t"]
		s.newShop("b")
		s.configure(serversEnv("BRIDGE_STREAM_MOVES_TABLE", names))
		s.start()
		s.insert("b/shop.t", "bertha", "one")
		s.insert("a/shop.t_0", "anna", "one")
		s.published("bertha", "one")
		s.published("anna", "one")
		s.stop()
		s.away.Store("a", true)
		began := time.Now()
		a := must.Get(Open(t.Context(), Options{
			Config: s.cfg, Logger: textLogger(t.Output()), former: &legacy{busy: map[store.Key]bool{{Stream: "moves", Shard: "b/shop.t"}: true}},
			openStore: func(context.Context, string, *slog.Logger) (store.Store, error) { return keptStore{s.store}, nil },
		}))(t)
		s.app = a
		stop := start(t, a)
		defer stop()
		for _, name := range []string{"b/shop.t", "b/shop.u"} {
			s.eventually(name+" runs", func() bool { return s.shard(name).State == "running" })
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the tables of b run after %s", took)
		}
		s.away.Delete("a")
		s.eventually("the tables of a run", func() bool {
			return s.shard("a/shop.t_0").State == "running" && s.shard("a/shop.t_39").State == "running"
		})
	})
}
