package fold

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

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

// loadBetweenRests is how long there is load before a rest.
const loadBetweenRests = 3 * time.Second

// live has the program live through d of load and harm.
func (s *scene) live(d time.Duration) {
	s.t.Helper()
	s.start()
	world.AwaitReady(s.t, s.daemon)
	s.write()
	harms := slices.DeleteFunc(slices.Clone(everyHarm), func(h harm) bool { return !regexp.MustCompile(*foldHarm).MatchString(h.name) })
	loaded, order := time.Duration(0), s.rng.Perm(len(harms))
	for rest, next := 0, 0; loaded < d; rest++ {
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
			s.t.Fatalf("rest %d, after %v: %v", rest, s.harms, err)
		}
	}
	s.t.Logf("%d changes, %.0f a second; %d events, %d repeats, %d late; %v", s.made.Load(), float64(s.made.Load())/loaded.Seconds(),
		len(s.judge.ids), s.judge.repeats, s.judge.late, s.harms)
}
