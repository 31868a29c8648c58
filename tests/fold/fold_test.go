// Package fold has writers change entities that hop between the tables of a stream, while the
// program is killed and its checkpoint is replaced by older copies or removed. Again and again the
// writers pause, one reconcile runs, and what the messages on the bus fold to has to be what the
// tables hold and what the writers recorded, by the judge of package world.
package fold

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

var (
	foldSeed = flag.Uint64("seed", 0, "what chance is drawn from; 0 takes the time")
	foldFor  = flag.Duration("for", 15*time.Second, "how long there is load, on each bus")
	foldHarm = flag.String("harm", "", "a regular expression: only the harm whose name it matches")
	foldBus  = flag.String("bus", "", "only this bus: kafka, kafka-once or nats")
)

func TestMain(m *testing.M) { world.Main(m) }

// TestFold is the randomised test of recovery: about 500 changes a second on each bus, harm by
// chance, and every few seconds a rest in which all has to agree. In the end `bridge verify` has to
// find nothing. On kafka-once, with exactly-once, a read_committed consumer may see nothing twice.
// By chance columns are masked, rows hidden by a condition, and the topic compacted all the time:
// what one run has not on kafka it has on the other two.
// With a mutant (see package failpoint) it has to fail.
func TestFold(t *testing.T) {
	testall.Beside(t)
	seed := *foldSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano() % 1_000_000)
	}
	for name, start := range map[string]func(t *testing.T) *world.Bus{
		"kafka": func(t *testing.T) *world.Bus { return world.KafkaBus(testenv.StartKafka(t, compacting)) },
		"kafka-once": func(t *testing.T) *world.Bus {
			return world.KafkaBus(testenv.StartKafka(t, compacting)).ExactlyOnce(t.Name())
		},
		"nats": func(t *testing.T) *world.Bus { return world.NATSBus(testenv.StartNATS(t)) },
	} {
		if *foldBus == "" || *foldBus == name {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				t.Logf("-seed %d -bus %s -for %s", seed, name, *foldFor)
				b := start(t)
				v := variantOf(seed, b, name != "kafka")
				t.Logf("%+v", v)
				newScene(t, b, seed, v).live(*foldFor)
			})
		}
	}
}

// compacting has a broker compact often, where a topic is to be compacted.
var compacting = testenv.KafkaOptions{Config: map[string]string{"log.cleaner.backoff.ms": "500"}}

const loadBetweenRests = 3 * time.Second

func (s *scene) live(d time.Duration) {
	s.T.Helper()
	s.start()
	world.AwaitReady(s.T, s.Daemon)
	s.write()
	harms := slices.DeleteFunc(slices.Clone(everyHarm), func(h harm) bool { return !regexp.MustCompile(*foldHarm).MatchString(h.name) })
	loaded, order := time.Duration(0), s.rng.Perm(len(harms))
	for next := 0; loaded < d; {
		begun := time.Now()
		for again := true; again; again = time.Since(begun) < loadBetweenRests {
			s.sometime(1200 * time.Millisecond)
			harm := harms[order[next]]
			harm.do(s)
			s.harms[harm.name]++
			if next++; next == len(order) {
				order, next = s.rng.Perm(len(harms)), 0
			}
			s.sometime(1200 * time.Millisecond)
		}
		loaded += time.Since(begun)
		if err := s.rest(loaded >= d); err != nil {
			s.T.Fatalf("rest %d, after %v: %v", s.rests, s.harms, err)
		}
	}
	for name, of := range s.streams {
		s.T.Logf("%s: %s; %d late, %d forgotten and published again", name, &of.judge.Verdict, of.judge.Behind, of.judge.Forgotten)
		if of.writers == nil {
			continue
		}
		sums := of.writers.Sums()
		s.T.Logf("%s: %v", name, sums)
		for change, weight := range workload.HoppingChanges(s.variant.filtered) {
			// The others are chance.
			if weight >= 5 && sums[change] == 0 {
				s.T.Errorf("the writers of %s have made no %s", name, change)
			}
		}
	}
	s.T.Logf("in %s: %v", loaded, s.harms)
}

type harm struct {
	name string
	do   func(*scene)
}

var everyHarm = []harm{
	{"killed", (*scene).killed},
	{"killed at a point", (*scene).killedAtAPoint},
	{"older checkpoint", (*scene).olderCheckpoint},
	{"no checkpoint", (*scene).noCheckpoint},
	{"killed with requests held", (*scene).killedWithRequestsHeld},
	{"bus held", (*scene).busHeld},
	{"terminated", (*scene).terminated},
}

func (s *scene) sometime(d time.Duration) { world.Pause(time.Duration(s.rng.Int64N(int64(d)))) }

// Mostly by SIGKILL. Now and then the checkpoint is copied.
func (s *scene) stop() {
	if s.rng.IntN(4) == 0 {
		s.term()
	} else {
		s.kill()
	}
	s.copy()
}

// term ends the program in good order, or kills one that cannot receive the signal yet: it has
// logged nothing.
func (s *scene) term() {
	s.T.Helper()
	const killed = -1
	switch status, _ := s.Daemon.Term(); {
	case status == killed && strings.HasSuffix(strings.TrimSpace(s.Daemon.Log.Tail(1)), world.StartLine):
		s.cuts++
	case status != 0:
		s.T.Errorf("exit status %d after SIGTERM, its log ends:\n%s", status, s.Daemon.Log.Tail(10))
	}
}

func (s *scene) kill() {
	s.cuts++
	s.Daemon.Kill()
}

// copy keeps a copy of the checkpoint of a program that has ended; by chance instead of another
// one, so that some become old.
func (s *scene) copy() {
	if _, err := os.Stat(s.Daemon.Checkpoint()); err != nil {
		// It was removed, and the program killed before it made another one.
		return
	}
	folder := s.Daemon.CopyCheckpoint()
	const most = 4
	if len(s.copies) < most {
		s.copies = append(s.copies, folder)
	} else {
		i := s.rng.IntN(most)
		os.RemoveAll(s.copies[i])
		s.copies[i] = folder
	}
}

// killed kills the program once or several times, also while it catches up.
func (s *scene) killed() {
	for range 1 + s.rng.IntN(3) {
		s.sometime(800 * time.Millisecond)
		s.kill()
		s.sometime(300 * time.Millisecond)
		s.start()
	}
}

// pointsToKill are those between which a kill leaves something half done. Those of transactions
// come first.
var pointsToKill = []failpoint.Point{
	failpoint.TransactionAdded, failpoint.TransactionSent, failpoint.TransactionEnds, failpoint.TransactionEnded,
	failpoint.BeforePublish, failpoint.AfterPublish, failpoint.BeforeAck, failpoint.BeforeSave, failpoint.AfterSave,
	failpoint.BeforeCatchUp, failpoint.AfterCatchUp, failpoint.AfterReread, failpoint.StoreSync,
}

// And perhaps at another point of the next process.
func (s *scene) killedAtAPoint() {
	points := pointsToKill
	if !s.Bus.Once() {
		points = points[4:]
	}
	for range 1 + s.rng.IntN(2) {
		point := points[s.rng.IntN(len(points))]
		s.points.Set(failpoint.Action{Point: point, Kill: true, Chance: []float64{1, 0.3, 0.05}[s.rng.IntN(3)]})
		select {
		case <-s.Daemon.Done:
		case <-time.After(2 * time.Second):
			s.Daemon.Kill()
		}
		s.cuts++
		s.points.Set()
		s.start()
	}
}

func (s *scene) olderCheckpoint() {
	s.stop()
	s.Daemon.PutCheckpoint(s.copies[s.rng.IntN(len(s.copies))])
	s.start()
}

func (s *scene) noCheckpoint() {
	s.stop()
	s.Daemon.LoseCheckpoint()
	s.start()
}

// killedWithRequestsHeld has the bus stand still with requests of the program, which is killed
// meanwhile and started again: they are stored when it goes on.
func (s *scene) killedWithRequestsHeld() {
	server := s.Bus.Server()
	server.Pause()
	s.sometime(500 * time.Millisecond)
	s.kill()
	s.start()
	s.sometime(time.Second)
	server.Resume()
}

// busHeld has the bus stand still again and again, for about as long as a table fills its batches.
// So entities go to another table while what the former one says of them is in flight.
func (s *scene) busHeld() {
	server := s.Bus.Server()
	for range 4 {
		server.Pause()
		world.Pause(150 * time.Millisecond)
		s.sometime(300 * time.Millisecond)
		server.Resume()
		s.sometime(300 * time.Millisecond)
	}
}

func (s *scene) terminated() {
	s.term()
	s.copy()
	s.sometime(500 * time.Millisecond)
	s.start()
}
