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
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/must"
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

type scene struct {
	*world.Publisher
	variant variant
	rng     *rand.Rand
	points  *world.Failpoints
	// streams are all three, pause pauses their writers.
	streams map[string]*stream
	pause   func()
	// topics are the topics of all streams, with how far each is read.
	topics map[string]*topic
	// shared is the topic of together.
	shared string
	// last is the last message of each topic-partition; nulls counts those without a body.
	last  map[string]world.Message
	nulls int
	// copies are folders with former states of the checkpoint.
	copies []string
	// cuts counts the ends of the program in the midst of batches, harms what was done, rests those
	// so far.
	cuts, rests int
	harms       map[string]int
}

// stream is a stream with its judge and, but for that of rows, the writers of its entities.
type stream struct {
	tables  []string
	writers *workload.Capabilities
	judge   *world.Judge
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
		variant: v, rng: rand.New(rand.NewPCG(seed, 1)), points: world.NewFailpoints(t),
		streams: map[string]*stream{logged: {tables: []string{world.Orders}}},
		topics:  make(map[string]*topic), last: make(map[string]world.Message), harms: make(map[string]int),
	}
	stem := strings.ReplaceAll(db.Name, "-", "_")
	for i, name := range []string{together, apart} {
		of := new(stream)
		for n := range 3 {
			of.tables = append(of.tables, fmt.Sprintf("%s_%s_%d", stem, name[:1], n))
		}
		of.writers = workload.NewCapabilities(workload.CapabilityOptions{
			DB: db.DB, Tables: of.tables, Entities: 180, Writers: 6, Rate: entityRate, Seed: seed + uint64(i), Mix: workload.HoppingChanges(v.filtered),
		})
		must.OK(t, of.writers.Create(t.Context()))
		for _, table := range of.tables {
			db.Exec("ALTER TABLE " + table + " ADD hidden tinyint(1) NOT NULL DEFAULT 0, ADD secret varchar(100) NOT NULL DEFAULT '" + secret + "x'")
		}
		s.streams[name] = of
	}
	s.publish(db, b, stem+"_shared", seed)
	for name, of := range s.streams {
		if of.writers != nil {
			expect := world.Expect{Hops: true, Sampled: true}
			if v.forgets && name == together {
				expect.Forgets = forgetsAfter
			}
			of.judge = world.NewEntityJudge(t, nil, expect)
		} else {
			of.judge = world.NewRowJudge(t, nil, world.Expect{Reconciled: true, Sampled: true})
		}
		of.judge.Of(t, s.Env, name)
	}
	world.ShareStamps(s.rows(), s.streams[together].judge, s.streams[apart].judge)
	return s
}

func (s *scene) rows() *world.Judge { return s.streams[logged].judge }

// publish makes the topics and the program. The seed chooses the format of each stream. What makes
// the program a mutant is passed on.
func (s *scene) publish(db *world.World, b *world.Bus, shared string, seed uint64) {
	s.shared = shared
	to := s.open(db, b, shared)
	if s.variant.compacted {
		s.compact(db.T, b)
	}
	var by string
	for _, table := range s.streams[apart].tables {
		by = strings.ReplaceAll(s.open(db, b, table), table, "{table}")
		if b.NATS != nil {
			// JetStream drops no repeats.
			b.Configure(db.T, table, func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.Duplicates = 100 * time.Millisecond })
		}
	}
	states := world.Env{"KEY": "app,name", "CREATED": "created", "MODIFIED": "modified", "DELETED": "deleted"}
	streams := []world.Stream{
		{Name: together, Kind: "capability", Env: states.With(s.variant.env(together)).With(world.Env{"DESTINATION": to, "RECONCILE_INTERVAL": "4s"})},
		{Name: apart, Kind: "capability", Env: states.With(s.variant.env(apart)).With(world.Env{"DESTINATION": by, "STABILITY_WINDOW": "0s"})},
		{Name: logged, Kind: "release", Env: world.Env{"KEY": "entity", "CREATED": "created", "DESTINATION": to}},
	}
	for i := range streams {
		streams[i].Table = strings.Join(s.streams[streams[i].Name].tables, ",")
		streams[i].Env["EVENT_FORMAT"] = []string{"eiffel", "cloudevents", "row"}[(seed+uint64(i))%3]
	}
	s.Publisher = db.Publish(b, world.Publishing{Path: world.Faulty(db.T), Streams: streams, Env: s.points.Env().With(world.Env{
		"BRIDGE_POLL_INTERVAL": "50ms", "BRIDGE_STABILITY_WINDOW": window.String(), "BRIDGE_BATCH_ROWS": "50", "BRIDGE_RECONCILE_MAX_DELETES": "100%",
		failpoint.MutantVariable: os.Getenv(failpoint.MutantVariable), "BRIDGE_MASK_KEY": "0123456789abcdef",
	})})
}

func (s *scene) open(db *world.World, b *world.Bus, name string) (destination string) {
	db.T.Helper()
	destination = b.Open(db.T, name)
	s.topics[name] = &topic{tape: b.Follow(db.T, name)}
	return destination
}

func (s *scene) start() {
	s.T.Helper()
	for _, of := range s.streams {
		of.judge.Starts = append(of.judge.Starts, time.Now())
	}
	s.Start()
}

// Until they are paused or the test ends.
func (s *scene) write() {
	s.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var writers sync.WaitGroup
	_, pauseRows := s.World.Write()
	for name, of := range s.streams {
		if of.writers != nil {
			writers.Go(func() {
				if err := of.writers.Run(ctx); err != nil {
					s.T.Errorf("the writers of %s: %v", name, err)
				}
			})
		}
	}
	s.pause = sync.OnceFunc(func() { cancel(); pauseRows(); writers.Wait() })
	s.T.Cleanup(s.pause)
}

func (s *scene) receive() {
	for _, name := range slices.Sorted(maps.Keys(s.topics)) {
		o := s.topics[name]
		for _, m := range o.tape.From(o.read) {
			o.read++
			m.Partition = name + "/" + m.Partition
			if s.pair(m); m.Value == nil {
				continue
			}
			of := s.streams[m.Headers["bridge-stream"]]
			if of == nil {
				s.rows().Add("unknown stream", "%v", m.Headers)
				continue
			}
			of.judge.Message(m)
		}
	}
}

// pair judges that a message without a body follows each deleted event of the stream that is
// compacted, and nothing else.
func (s *scene) pair(m world.Message) {
	last := s.last[m.Partition]
	s.last[m.Partition] = m
	deleted := s.variant.compacted && last.Headers["bridge-stream"] == together && last.Value != nil && strings.HasSuffix(world.TypeOf(last), "DeletedEvent")
	if m.Value == nil {
		s.nulls++
	}
	if null := m.Value == nil; null != deleted || null && (m.Key != last.Key || m.Headers["eiffel-id"] != last.Headers["eiffel-id"]) {
		s.rows().Add("tombstone", "a message of %q, without a body: %t, comes behind %s of %q", m.Key, null, world.TypeOf(last), last.Key)
	}
}

func (s *scene) tableFold(of *stream) world.Fold {
	s.T.Helper()
	return s.World.TableFold("deleted = 0 AND hidden = 0", of.tables...)
}

// rest has the writers pause, waits until what they have done is published, and compares. After
// one reconcile the fold of the bus is what the tables hold and what the writers recorded. At the
// last rest `bridge verify` finds nothing either.
func (s *scene) rest(last bool) error {
	s.T.Helper()
	if s.pause != nil {
		s.pause()
		defer s.write()
	}
	world.Pause(window + window/2)
	s.rests++
	s.CaughtUp(time.Minute, fmt.Sprintf("rest %d, after %v: what was written is published", s.rests, s.harms))
	if status, stdout, stderr := world.Command(s.T, s.Env, "reconcile", "--json"); status != 0 {
		return fmt.Errorf("bridge reconcile: exit status %d: %s%s", status, stdout, stderr)
	}
	s.rows().AddRows(s.World.Rows.Forget()...)
	now := map[string]world.Fold{together: s.tableFold(s.streams[together]), apart: s.tableFold(s.streams[apart])}
	within(2*time.Minute, func() bool { return s.complete(now) })
	s.receive()
	var found []string
	for name, of := range s.streams {
		if of.writers != nil {
			of.judge.SetHistories(of.writers.Histories())
			of.judge.Compare(now[name])
		}
		of.judge.EndSection()
		if of.judge.Repeated > 0 && s.Bus.Once() {
			of.judge.Add("stored twice", "%d events: %s", of.judge.Repeated, strings.Join(of.judge.Repeats, "; "))
		}
	}
	if last && s.variant.masked {
		s.T.Logf("%d bytes were searched for masked values", s.searched())
	}
	if last && s.variant.compacted {
		s.isCompacted()
	}
	for name, of := range s.streams {
		if wrong := of.judge.Wrong(); wrong != "" {
			found = append(found, name+": "+wrong)
		}
	}
	if found != nil {
		return errors.New(strings.Join(found, "\n"))
	}
	if last {
		if r := world.Verify(s.T, s.Env); !r.Good {
			text, err := json.Marshal(r)
			return fmt.Errorf("bridge verify: %s %w", text, err)
		}
	}
	return nil
}

func (s *scene) complete(now map[string]world.Fold) bool {
	s.receive()
	for name, fold := range now {
		if s.streams[name].judge.Difference(fold) != "" {
			return false
		}
	}
	return s.rows().Missing() == 0
}

func within(limit time.Duration, condition func() bool) bool {
	for deadline := time.Now().Add(limit); !condition(); {
		if time.Now().After(deadline) {
			return false
		}
		world.Pause(50 * time.Millisecond)
	}
	return true
}
