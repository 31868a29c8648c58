package fold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

// The streams. The tables of together share one topic, on which the release stream is, too. Each
// table of apart has its own, so that an entity that hops goes on in another topic-partition.
const (
	together = "together"
	apart    = "apart"
	logged   = "logged"
)

// Changes a second, by stream.
const (
	entityRate = 220
	factRate   = 60
)

// window is BRIDGE_STABILITY_WINDOW, but for apart: there rows are read at once, so that two tables
// have an entity in flight that hops.
const window = 300 * time.Millisecond

// scene is one program that publishes what the writers do to one bus.
type scene struct {
	t       testing.TB
	variant variant
	bus     *world.Bus
	world   *world.World
	daemon  *world.Daemon
	rng     *rand.Rand
	points  *world.Failpoints
	streams map[string]*hopping
	// pauseRows pauses the writers of the release stream.
	pauseRows func()
	judge     *judge
	// topics are the topics of all streams, with how far each is read.
	topics map[string]*topic
	// shared is the topic of together.
	shared string
	// gate is held while no change may begin; made counts the changes.
	gate sync.RWMutex
	made atomic.Int64
	// copies are folders with former states of the checkpoint.
	copies []string
	// cuts counts the ends of the program in the midst of batches, harms what was done.
	cuts  int
	harms map[string]int
}

type topic struct {
	tape *world.Tape
	read int
}

func newScene(t testing.TB, b *world.Bus, seed uint64, v variant) *scene {
	t.Helper()
	db := world.New(t, world.Options{Database: testenv.MariaDB(t), Rows: &workload.Options{
		Writers: 3, Rate: factRate, Seed: seed, Mix: workload.Mix{Rollback: 0.05, MultiRow: 0.3},
		Hold: workload.Hold{Long: 1500 * time.Millisecond, LongShare: 0.03},
	}})
	s := &scene{
		t: t, variant: v, bus: b, world: db, rng: rand.New(rand.NewPCG(seed, 1)), points: world.NewFailpoints(t),
		streams: make(map[string]*hopping), topics: make(map[string]*topic), harms: make(map[string]int),
	}
	stem := strings.ReplaceAll(db.Name, "-", "_")
	records := make(map[string]*record)
	for i, stream := range []string{together, apart} {
		var tables []string
		for n := range 3 {
			tables = append(tables, fmt.Sprintf("%s_%s_%d", stem, stream[:1], n))
		}
		h := newHopping(db, tables, seed+uint64(i))
		h.filtered = v.filtered
		s.streams[stream], records[stream] = h, h.record
	}
	s.judge = newJudge(records)
	s.judge.once = b.Once()
	if v.compacted {
		s.judge.compacted, s.judge.forgets = together, v.forgets
	}
	s.daemon = world.NewDaemon(t, world.Faulty(t), s.env(stem).With(formats(seed)))
	return s
}

// env makes the topics and returns the environment of the program. That of a mutant is passed on.
func (s *scene) env(stem string) world.Env {
	s.t.Helper()
	e := s.bus.Env().With(s.points.Env()).With(world.Env{
		"BRIDGE_SOURCE_URL": s.world.URL, "BRIDGE_POLL_INTERVAL": "50ms", "BRIDGE_STABILITY_WINDOW": window.String(),
		"BRIDGE_BATCH_ROWS": "50", "BRIDGE_RECONCILE_MAX_DELETES": "100%", "BRIDGE_STREAMS": together + "," + apart + "," + logged,
		failpoint.MutantVariable: os.Getenv(failpoint.MutantVariable), "BRIDGE_MASK_KEY": "0123456789abcdef",
	})
	s.shared = stem + "_shared"
	shared := s.open(s.shared)
	for stream, h := range s.streams {
		e = e.With(world.StreamEnv(stream, world.Env{
			"TABLE": strings.Join(h.tables, ","), "KIND": "capability", "KEY": "k", "CREATED": "created", "MODIFIED": "modified", "DELETED": "deleted",
			"DESTINATION": shared,
		})).With(world.StreamEnv(stream, s.variant.env(stream)))
	}
	if s.variant.compacted {
		s.compact(s.shared)
	}
	e = e.With(world.StreamEnv(together, world.Env{"RECONCILE_INTERVAL": "4s"}))
	var by string
	for _, table := range s.streams[apart].tables {
		by = strings.ReplaceAll(s.open(table), table, "{table}")
		if s.bus.NATS != nil {
			// JetStream drops no repeats.
			s.bus.Configure(s.t, table, func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.Duplicates = 100 * time.Millisecond })
		}
	}
	return e.With(world.StreamEnv(apart, world.Env{"DESTINATION": by, "STABILITY_WINDOW": "0s"})).
		With(world.StreamEnv(logged, world.Env{"TABLE": world.Orders, "KIND": "release", "CREATED": "created", "DESTINATION": shared}))
}

// formats has the seed choose the format of each stream.
func formats(seed uint64) world.Env {
	all, e := []string{"eiffel", "cloudevents", "row"}, make(world.Env)
	for i, stream := range []string{together, apart, logged} {
		e = e.With(world.StreamEnv(stream, world.Env{"EVENT_FORMAT": all[(seed+uint64(i))%3]}))
	}
	return e
}

func (s *scene) open(name string) (destination string) {
	s.t.Helper()
	destination = s.bus.Open(s.t, name)
	s.topics[name] = &topic{tape: s.bus.Follow(s.t, name)}
	return destination
}

// start runs the program.
func (s *scene) start() {
	s.t.Helper()
	s.judge.starts = append(s.judge.starts, time.Now())
	s.daemon.Start()
}

// write sets the writers going until the test ends.
func (s *scene) write() {
	ctx, cancel := context.WithCancel(context.Background())
	var writers sync.WaitGroup
	for _, h := range s.streams {
		for _, o := range h.owners {
			writers.Go(func() {
				if err := s.writeAt(ctx, entityRate/ownersPerStream, o.step); err != nil && ctx.Err() == nil {
					s.t.Errorf("a writer: %v", err)
				}
			})
		}
	}
	s.t.Cleanup(func() { cancel(); writers.Wait() })
	s.writeRows()
}

// writeRows sets the writers of the release stream going.
func (s *scene) writeRows() { _, s.pauseRows = s.world.Write() }

// writeAt makes so many changes a second while the gate is open.
func (s *scene) writeAt(ctx context.Context, rate float64, step func(context.Context) error) error {
	gap := time.Duration(float64(time.Second) / rate)
	for next := time.Now(); ctx.Err() == nil; next = next.Add(gap) {
		if behind := time.Since(next); behind > 100*time.Millisecond {
			next = time.Now()
		}
		world.Pause(time.Until(next))
		s.gate.RLock()
		err := step(ctx)
		s.gate.RUnlock()
		if err != nil {
			return err
		}
		s.made.Add(1)
	}
	return nil
}

// receive hands what has arrived to the judge.
func (s *scene) receive() {
	for _, name := range slices.Sorted(maps.Keys(s.topics)) {
		o := s.topics[name]
		for _, m := range o.tape.From(o.read) {
			o.read++
			if s.judge.pair(name+"/"+m.Partition, m); m.Value == nil {
				continue
			}
			e, err := decode(name, m)
			if err != nil {
				s.judge.Add("no event", "%v: %.300s", err, m.Value)
				continue
			}
			s.judge.add(e)
		}
	}
}

// passed reports whether the position of each table has reached its highest row, and the program is
// ready.
func (s *scene) passed() bool {
	for _, stream := range slices.Sorted(maps.Keys(s.streams)) {
		if !s.passedAll(stream, s.streams[stream].tables) {
			return false
		}
	}
	code, _ := s.daemon.Get("/readyz")
	return s.passedAll(logged, []string{world.Orders}) && code == 200
}

func (s *scene) passedAll(stream string, tables []string) bool {
	shards := s.daemon.Shards(stream)
	if len(shards) != len(tables) {
		return false
	}
	for _, shard := range shards {
		i := slices.IndexFunc(tables, func(table string) bool { return strings.HasSuffix(shard.Shard, table) })
		if i < 0 {
			s.t.Fatalf("a shard %q of %s", shard.Shard, stream)
		}
		if shard.Position < s.world.Highest(tables[i]) {
			return false
		}
	}
	return true
}

// rest has the writers pause, waits until what they have done is published, and compares. After
// one reconcile the fold of the bus is what the tables hold and what the writers recorded. At the
// last rest `bridge verify` finds nothing either.
func (s *scene) rest(last bool) error {
	s.t.Helper()
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.pauseRows != nil {
		s.pauseRows()
		defer s.writeRows()
	}
	world.Pause(window + window/2)
	if !within(4*time.Minute, s.passed) {
		_, why := s.daemon.Get("/readyz")
		return fmt.Errorf("what was written is not published after four minutes: %s", why)
	}
	if status, stdout, stderr := world.Command(s.t, s.daemon.Env, "reconcile", "--json"); status != 0 {
		return fmt.Errorf("bridge reconcile: exit status %d: %s%s", status, stdout, stderr)
	}
	within(2*time.Minute, s.complete)
	s.receive()
	s.judge.check()
	for _, stream := range slices.Sorted(maps.Keys(s.streams)) {
		h := s.streams[stream]
		s.judge.compare(stream, "the record", h.record.present())
		s.judge.compare(stream, "the tables", h.rows())
	}
	s.judge.compareRows(s.world.AllRows(), s.judge.Add)
	if last && s.variant.masked {
		s.t.Logf("%d bytes were searched for masked values", s.searched())
	}
	if last && s.variant.compacted {
		s.isCompacted()
	}
	if found := s.judge.Wrong(); found != "" {
		return errors.New(found)
	}
	if last {
		if r := world.Verify(s.t, s.daemon.Env); !r.Good {
			text, err := json.Marshal(r)
			return fmt.Errorf("bridge verify: %s %w", text, err)
		}
	}
	return nil
}

// complete reports whether what has arrived is what it has to be.
func (s *scene) complete() bool {
	s.receive()
	for stream, h := range s.streams {
		if !maps.Equal(s.judge.fold(stream), h.record.present()) {
			return false
		}
	}
	complete := true
	s.judge.compareRows(s.world.AllRows(), func(string, string, ...any) { complete = false })
	return complete
}

// within waits for a condition.
func within(limit time.Duration, condition func() bool) bool {
	for deadline := time.Now().Add(limit); !condition(); {
		if time.Now().After(deadline) {
			return false
		}
		world.Pause(50 * time.Millisecond)
	}
	return true
}
