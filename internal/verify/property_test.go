package verify_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/tests/testall"
)

// life publishes a random history of a few entities, whose events follow on one another as bridge
// has them do. It returns the messages of each entity.
func life(t *testing.T, random *rand.Rand, sharing bool) (w *world, of map[string][]int) {
	t.Helper()
	w, of = newWorld(t, event.Capability), make(map[string][]int)
	w.sharing = sharing
	rows, state := make(map[string]uint64), 0
	for range 60 {
		name := string(rune('a' + random.IntN(6)))
		of[name] = append(of[name], len(w.bus.messages))
		state++
		switch row, there := rows[name]; {
		case !there:
			rows[name] = w.insert(name, fmt.Sprint(state))
		case random.IntN(4) == 0:
			w.remove(row, name)
			delete(rows, name)
		default:
			rows[name] = w.replace(row, name, fmt.Sprint(state))
		}
	}
	return w, of
}

var (
	moments = regexp.MustCompile(`"time":[0-9]+`)
	ulids   = regexp.MustCompile(`("id":"[0-9A-Z]{13})[^"]{13}"`)
	names   = regexp.MustCompile(`"[^"]*":`)
)

// TestNoSingleFaultIsMissed plants every fault at every message of random histories.
func TestNoSingleFaultIsMissed(t *testing.T) {
	for seed := range uint64(testall.Cases(2, 4)) {
		w, of := life(t, rand.New(rand.NewPCG(seed, 1)), seed%2 == 1)
		clean := slices.Clone(w.bus.messages)
		mustFind := func(what string, messages []*message) {
			t.Helper()
			w.bus.messages = messages
			if r := w.check(); r.Good {
				t.Errorf("seed %d: nothing was found although %s", seed, what)
			}
		}
		want(t, w.check(), "")
		for i := range clean {
			mustFind(fmt.Sprintf("message %d was removed", i), slices.Delete(slices.Clone(clean), i, i+1))
			altered := slices.Clone(clean)
			m := *clean[i]
			m.Value = slices.Clone(m.Value)
			// Any byte: a random one of every message.
			m.Value[rand.New(rand.NewPCG(seed, uint64(i))).IntN(len(m.Value))] ^= 1
			altered[i] = &m
			if bytes.Contains(m.Value, []byte("ABSENT")) && bytes.Equal(moments.ReplaceAll(m.Value, nil), moments.ReplaceAll(clean[i].Value, nil)) {
				// When a row was looked for and not found is told by nothing else.
				continue
			}
			if of := []byte("$1"); w.sharing && bytes.Equal(ulids.ReplaceAll(m.Value, of), ulids.ReplaceAll(clean[i].Value, of)) {
				// The last bits of an id that is not the key are told by nothing else.
				continue
			}
			if i == 0 && !slices.EqualFunc(names.FindAll(m.Value, -1), names.FindAll(clean[i].Value, -1), bytes.Equal) {
				// The first event may be from before a column was renamed.
				continue
			}
			mustFind(fmt.Sprintf("message %d was altered: %s", i, m.Value), altered)
		}
		for name, partitions := range of {
			for n := 1; n < len(partitions); n++ {
				swapped := slices.Clone(clean)
				swapped[partitions[n-1]], swapped[partitions[n]] = swapped[partitions[n]], swapped[partitions[n-1]]
				mustFind(fmt.Sprintf("messages %d and %d of %s were swapped", partitions[n-1], partitions[n], name), swapped)
			}
		}
	}
}

// TestRepeatedRunsAreNoFault repeats runs of messages as kills do: each begins again somewhere and
// goes on to its newest.
func TestRepeatedRunsAreNoFault(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2))
		w, _ := life(t, random, seed%2 == 1)
		var messages []*message
		for i := 0; i < len(w.bus.messages); i++ {
			m := *w.bus.messages[i]
			if messages = append(messages, &m); random.IntN(10) == 0 {
				i -= min(i, random.IntN(8)) + 1
			}
		}
		w.bus.messages = messages
		want(t, w.check(), "")
	}
}
