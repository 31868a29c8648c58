package acceptance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/tests/testall"
	"bridge/tests/testenv"
)

// tour returns the environment at each "bin/bridge run" of the README's tour: the lines so far that
// set a variable.
func tour(t testing.TB) (stages []world.Env) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	now := world.Env{}
	for line := range strings.Lines(string(text)) {
		typed, ok := strings.CutPrefix(line, "    ")
		if !ok {
			continue
		}
		if name, value, ok := strings.Cut(strings.TrimSpace(typed), "="); ok && strings.HasPrefix(name, "BRIDGE_") {
			now[name] = value
		}
		if strings.TrimSpace(typed) == "bin/bridge run" {
			stages = append(stages, now.With(nil))
		}
	}
	return stages
}

func TestTheTourOfTheREADME(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	script, err := os.ReadFile("../../deploy/orders.sql")
	if err != nil {
		t.Fatal(err)
	}
	server, nats := testenv.StartMariaDB(t), testenv.StartNATS(t)
	kafka := testenv.StartKafka(t, testenv.KafkaOptions{})
	kafka.CreateTopic(t, "orders", 3, nil)
	if _, err := server.Root(t).Exec(string(script)); err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("127.0.0.1:3306", server.Addr, "127.0.0.1:9092", kafka.Brokers()[0], "127.0.0.1:4222", nats.Addr())

	stages := tour(t)
	if len(stages) != 3 {
		t.Fatalf("%d times bin/bridge run, want one each for stdout, Kafka and NATS", len(stages))
	}
	for _, e := range stages {
		t.Run(e["BRIDGE_SINK_URL"], func(t *testing.T) {
			for name := range e {
				e[name] = here.Replace(e[name])
			}
			file := strings.TrimPrefix(e["BRIDGE_CHECKPOINT_URL"], "file:")
			e["BRIDGE_CHECKPOINT_URL"] = "file:" + filepath.Join(t.TempDir(), file+".db")
			if e["BRIDGE_NATS_CREATE_STREAM"] == "" {
				mustBeSilent(t, e)
			}
			d := world.NewDaemon(t, world.Binary(t, false), e)
			d.Start()
			world.Eventually(t, time.Minute, "the three rows are published", func() bool { return d.Position("orders") == 3 })
			world.AwaitReady(t, d)
			if status, _ := d.Term(); status != 0 {
				t.Errorf("exit status %d", status)
			}
			mustBeSilent(t, d.Env)
		})
	}
}
