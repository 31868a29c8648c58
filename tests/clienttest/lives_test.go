package clienttest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"example.org/bridge/client"
	"example.org/bridge/sink"
	"example.org/bridge/sink/sinktest/memory"
	"example.org/bridge/tests/clienttest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/script"
)

var buses = map[string]memory.Options{"topics": {}, "partitions": {Partitions: 3}, "a stream": {Stream: "events"}}

// TestLives plays what happens to a table and to those who are handed events. Entities are written
// as key=what they say, nothing where they are gone, and are handed over with ! where that is a
// repeat.
func TestLives(t *testing.T) {
	const followed = "create orders; write a=1 b=1 a=2; table orders; ready; has a=2 b=1; write c=1 b=; has a=2 c=1; " +
		"foreign stream; foreign domain; foreign dead; has a=2 c=1; write a=2; has a=2 c=1; " +
		"stats Entities:2 Applied:5 Repeated:1 Foreign:3; well"
	const again = "create orders; pass 3s; has a=2 b=1 returns=1; epoch 2; write a=3 c=1 returns=1; pass 3s; has a=3 b=1 c=1 returns=1; " +
		"pass 2m; has a=3 c=1 returns=1; rebuilt"
	for name, life := range map[string][2]string{
		"a table follows partitions": {"partitions", followed},
		"a table follows a stream":   {"a stream", followed},
		"a table of topics that are made later": {"topics", "table orders more; pass 1m; unready; fault orders; write a=1; ready; " +
			"to more; write a=2 b=1; pass 2s; has a=2 b=1; well"},
		// It serves what it has until the new bus says otherwise, and then drops what that lacks.
		"a bus that is made again":    {"partitions", "create orders; write a=1 b=1 a=2 returns=1; table orders; ready; wipe; " + again},
		"a bus back to an older time": {"partitions", "create orders; write a=1 b=1 a=2 returns=1; table orders; ready; lose; " + again},
		"what a bus made again says":  {"a stream", "write a=1 b=1 a=2 c=1; table orders; ready; wipe; epoch 2; write b=2 b= a=2 c=2; pass 3s; has a=2 c=2; pass 2m; has a=2 c=2"},
		"a bus that was out of reach": {"topics", "write a=1 b=1; table orders; ready; forget 2 3; away; write b=; pass 2h; has a=1 b=1; back; pass 2m; has a=1; rebuilt"},
		// What has expired there is not to be had again.
		"a bus with a retention that was out of reach": {"a stream", "write a=1 b=1 a=2; table orders; ready; expire 3; away; pass 2h; back; write b=2; pass 20m; " +
			"has a=2 b=2; stats Rebuilds:0"},
		// Its first message is replaced between the look at it and the reading.
		"a bus that keeps one message of a subject": {"a stream", "write a=1 b=1 a=2; thin 1; table orders; pass 1m; has a=2 b=1; stats Rebuilds:0; well"},
		"tables that share keys":                    {"topics", "write a=1; table orders; ready; shard more; logged; write a=2; has a=2; logged Options.ByTable"},
		"tables with entities of their own": {"topics", "write a=1 b=1; shard more; write a=2 b=; tables orders; ready; has more a=2 orders a=1 orders b=1; " +
			"write a=; has orders a=1 orders b=1; logged"},
		"a tombstone deletes":         {"topics", "write a=1 b=1; tombstone a; table orders; ready; has b=1"},
		"a tombstone hands over none": {"topics", "write a=1 a=; tombstone a; events orders; gave a=1 a="},
		"one topic is held up, not others": {"topics", "write a=1; to more; write b=1; refuse a=1 20; events orders more; write b=2; " +
			"gave b=1 b=2; fault not now; pass 1m; gave b=1 b=2 a=1; well"},
		"events, and another process goes on": {"a stream", "write a=1 b=1; foreign stream; refuse b=1 3; events orders; write a=2; gave a=1; fault not now; pass 1m; " +
			"write a=2 a=; gave a=1 b=1 a=2 a=2! a=; well; stats Handled:5 Repeated:1 Failed:3 Foreign:1; stop; write c=1; events orders; gave c=1"},
		// The first one is taken at once, what follows while nobody takes it is one change.
		"a watcher": {"a stream", "create orders; write a=1 b=1 a=2; table orders; ready; watch; write c=1; write c=2; write a= a=3 d=1 d= b=; " +
			"took c:added c:modified a:modified b:deleted; watch present; took a:added c:added"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBus(buses[life[0]])
				s := &stage{Player: script.Player{TB: t}, t: t, bus: b, w: newWriter(t, b, "orders", 1), refused: make(map[string]int), changes: make(chan string)}
				ctx, cancel := context.WithCancel(t.Context())
				s.Play(life[1], func(name string, words []string) bool { return s.step(ctx, name, words) })
				cancel()
				s.stop()
			})
		})
	}
}

// stage is a bus in memory, what publishes to it, and what reads it: a table or a process of a
// group.
type stage struct {
	script.Player
	t      *testing.T
	bus    *memoryBus
	w      *writer
	table  *client.Table
	events *client.Events
	stop   func()
	// shard is the table of what is written, as added, "" for that of the writer.
	shard string
	log   bytes.Buffer
	// changes are those of watchers.
	changes chan string
	present bool

	mu sync.Mutex
	// refused says for which events the handler fails, and how often; handed are the others.
	refused map[string]int
	handed  []string
}

func (s *stage) handle(_ context.Context, e client.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var data struct{ Says string }
	if err := e.Decode(&data); err != nil {
		return err
	}
	if e.Operation == client.Deleted {
		data.Says = ""
	}
	one := e.Key + "=" + data.Says
	if s.refused[one] > 0 {
		s.refused[one]--
		return errors.New("not now")
	}
	if e.Repeat {
		one += "!"
	}
	s.handed = append(s.handed, one)
	return nil
}

func (s *stage) step(ctx context.Context, name string, words []string) bool {
	switch name {
	case "create":
		s.bus.Create(words[0])
	case "to":
		s.w.Destination = words[0]
	case "epoch":
		s.w = newWriter(s.t, s.bus, "orders", s.Number(words[0]))
	case "write":
		for _, word := range words {
			key, says, _ := strings.Cut(word, "=")
			m := s.w.message(key, says)
			if s.shard != "" {
				m.Shard, m.Value = s.shard, bytes.Replace(m.Value, []byte("Modified"), []byte("Added"), 1)
			}
			s.w.Publish(m)
		}
	case "foreign", "tombstone":
		m := s.w.message("x", "1")
		switch words[0] {
		case "stream":
			m.Stream = "others"
		case "domain":
			m.Domain = "elsewhere"
		case "dead":
			m.Type = sink.DeadLetterType
		default:
			m = s.w.message(words[0], "")
			m.Value = nil
		}
		s.w.Publish(m)
	case "wipe":
		s.bus.Wipe()
		return true // what follows is met with it
	case "lose":
		for partition := range 3 {
			s.bus.Lose(fmt.Sprint("orders/", partition), 2)
		}
		return true
	case "forget":
		for _, word := range words {
			s.bus.Delete("orders", s.Number(word))
		}
	case "thin", "expire":
		s.bus.thinned = name == "thin"
		s.bus.Expire("events", s.Number(words[0]))
	case "away", "back":
		s.bus.mu.Lock()
		s.bus.away = name == "away"
		s.bus.mu.Unlock()
	case "shard":
		s.shard = words[0]
	case "refuse":
		s.refused[words[0]], _ = strconv.Atoi(words[1])
	case "table", "tables":
		o := options(words...)
		o.ByTable, o.Logger = name == "tables", slog.New(slog.NewTextHandler(&s.log, nil))
		s.table = must.Get(client.NewTable(s.bus, o))(s.t)
		s.stop = clienttest.Start(s.t, s.table.Run)
	case "events":
		s.handed = nil
		s.events, s.stop = clienttest.Handle(s.t, s.bus, "group", options(words...), s.handle)
	case "stop":
		s.stop()
	case "pass":
		pass(s.t, s.Duration(words[0]))
	case "watch":
		s.present = len(words) > 0
		go func() {
			for c := range s.table.Watch(ctx, s.present) {
				s.changes <- fmt.Sprint(c.Key, ":", c.Operation)
			}
		}()
	default:
		return s.compare(name, words)
	}
	synctest.Wait()
	return true
}

func (s *stage) compare(name string, words []string) bool {
	text := strings.Join(words, " ")
	switch name {
	case "ready":
		<-s.table.Ready()
	case "unready":
		select {
		case <-s.table.Ready():
			s.Errorf("it is ready without a topic")
		default:
		}
	case "has":
		s.Want(contents(s.table), text)
		s.Want(s.table.Len(), strings.Count(text, "="))
	case "gave":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.Want(strings.Join(s.handed, " "), text)
	case "well":
		s.Want(s.err(), nil)
	case "fault":
		if err := s.err(); err == nil || !strings.Contains(err.Error(), text) {
			s.Errorf("%s: %v", s.Step, err)
		}
	case "logged":
		if log := s.log.String(); !strings.Contains(log, text) || text == "" && log != "" {
			s.Errorf("%s: the log says %q", s.Step, log)
		}
	case "rebuilt":
		if s.table.Stats().Rebuilds == 0 {
			s.Errorf("it was not made again")
		}
	case "stats":
		var stats any
		if s.table != nil {
			stats = s.table.Stats()
		} else {
			stats = s.events.Stats()
		}
		counts := strings.Fields(strings.Trim(fmt.Sprintf("%+v", stats), "{}"))
		for _, word := range words {
			if !slices.Contains(counts, word) {
				s.Errorf("%s: %s", s.Step, counts)
			}
		}
	case "took":
		var got []string
		for range words {
			got = append(got, <-s.changes)
		}
		if s.present {
			slices.Sort(got) // they have no order
		}
		s.Want(strings.Join(got, " "), text)
		synctest.Wait()
		select {
		case more := <-s.changes:
			s.Errorf("%s: %s, too", s.Step, more)
		default:
		}
	default:
		return false
	}
	return true
}

func (s *stage) err() error {
	if s.table != nil {
		return s.table.Err()
	}
	return s.events.Err()
}
