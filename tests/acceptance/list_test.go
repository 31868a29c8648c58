package acceptance

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/shard"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/world"
)

// TestFullList asks for full lists beside writes, while bridge is killed at random moments and
// loses its folder, and has them published by the clock. A consumer that swaps what it holds at the
// end of each list has what the messages before say, in each partition.
func TestFullList(t *testing.T) {
	testall.Beside(t)
	eachDelivery(t, fullList)
}

func fullListOf(d *world.Daemon, stream string) *shard.RepublishStatus {
	s, _ := d.Stream(stream)
	return s.List
}

// swapping is a consumer of one partition, which knows a list by the documented header alone. fold
// has the event of each entity that lives by all messages, list those since the list began.
type swapping struct {
	fold, list map[string]string
	id         string
	// early are entities that a list did not have: what is said of them next is that they are gone.
	early map[string]string
	swaps int
}

func (s *swapping) apply(t *testing.T, m world.Message) {
	if boundary, is := m.Headers["bridge-list"]; is {
		s.bound(t, m.Partition, strings.Split(boundary, ";"))
		return
	}
	e := decode(t, m)
	key := string(e.Data["app"]) + string(e.Data["name"])
	if was, is := s.early[key]; is && e.Reason == "" && e.ID != was {
		t.Errorf("a list in %s lacks %s, whose next event is %s", m.Partition, key, &e)
	}
	delete(s.early, key)
	for _, in := range []map[string]string{s.fold, s.list} {
		if in == nil {
			continue
		}
		if in[key] = e.ID; e.Reason != "" {
			delete(in, key)
		}
	}
}

func (s *swapping) bound(t *testing.T, partition string, boundary []string) {
	switch {
	case len(boundary) != 3 || boundary[2] != world.Strict:
		t.Errorf("a boundary says %q", boundary)
	case boundary[0] == "begin" && boundary[1] != s.id:
		s.id, s.list = boundary[1], make(map[string]string)
	case boundary[0] == "end" && boundary[1] == s.id && s.list != nil:
		for key, id := range s.list {
			if s.fold[key] != id {
				t.Errorf("%s: the list %s has another event of %s", partition, s.id, key)
			}
		}
		for key, id := range s.fold {
			if _, is := s.list[key]; !is {
				s.early[key] = id
			}
		}
		s.fold, s.list = maps.Clone(s.list), nil
		s.swaps++
	}
}

// swapped has a consumer of each partition take all that a stream has published, and returns the
// least number of lists that one has swapped.
func swapped(t *testing.T, p *world.Publisher) (least int) {
	t.Helper()
	consumers := make(map[string]*swapping)
	boundaries := 0
	for _, m := range p.Received(world.Strict) {
		s := consumers[m.Partition]
		if s == nil {
			s = &swapping{fold: make(map[string]string), early: make(map[string]string)}
			consumers[m.Partition] = s
		}
		s.apply(t, m)
		if _, is := m.Headers["bridge-list"]; is {
			boundaries++
		}
	}
	var swaps []int
	for _, s := range consumers {
		swaps = append(swaps, s.swaps)
		for key := range s.early {
			t.Errorf("a list lacks %s, and nothing says that it is gone", key)
		}
	}
	t.Logf("%d boundaries, the lists that were swapped in each partition: %v", boundaries, swaps)
	return slices.Min(swaps)
}

func fullList(t *testing.T, b *world.Bus) {
	p := underLoad(t, b, world.Binary(t, world.RaceDetector), progressOnBus(t, b))
	stop := begins(p)
	world.Eventually(t, 2*time.Minute, "some hundred rows are published", func() bool { return p.Position(world.Strict) > 600 })
	types(t, p.Env, 1, "republish", world.Orders, "--all")
	types(t, p.Env, 0, "republish", world.Strict, "--all", "--rate", "150")
	types(t, p.Env, 1, "republish", world.Strict, "--from", "1")
	const cuts = 4
	killed(p, cuts)
	world.Eventually(t, 2*time.Minute, "the full list has ended", func() bool { return fullListOf(p.Daemon, world.Strict).State == "done" })
	types(t, p.Env, 0, "republish", world.Strict, "--all")
	types(t, p.Env, 0, "republish", world.Strict, "--cancel")
	p.Env["BRIDGE_STREAM_STRICT_FULL_LIST_INTERVAL"] = "1s"
	p.Kill()
	p.Start()
	last, lists := "", 0
	world.Eventually(t, 2*time.Minute, "lists are published by the clock", func() bool {
		if list := fullListOf(p.Daemon, world.Strict); list.List != "" && string(list.List) != last {
			last = string(list.List)
			lists++
		}
		return lists > 3
	})
	arrives(p)
	stop()
	p.AllPublished()
	p.ReconcileByHTTP(world.Strict, "")
	if swaps := swapped(t, p); swaps < 3 {
		t.Errorf("a partition has %d whole lists", swaps)
	}
	p.MustHold(p.MostRepeats(cuts+1), world.Expect{})
}
