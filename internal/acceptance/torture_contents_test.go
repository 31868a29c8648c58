package acceptance

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// contentsFaults are done to what the bus holds, and to what it lets in.
var contentsFaults = []fault{
	{
		name: "places-remade", family: "bus contents", repeats: true, behind: true, torn: true, empties: true,
		what: "both topics or streams are deleted and made again; the streams stop, and a person types the command that they name",
		inject: func(tr *trial) {
			for _, stream := range []string{facts, entities} {
				tr.lane.remake(tr.t, tr.destination(stream))
			}
			tr.republish(false)
		},
	},
	{
		name: "bus-restored", family: "bus contents", repeats: true, behind: true, torn: true,
		what: "the bus goes back to how it was seconds ago, while bridge runs; a person types the commands that the streams name",
		inject: func(tr *trial) {
			before := tr.lane.snapshot(tr.t)
			tr.flows()
			tr.sometime(3 * time.Second)
			tr.lane.restore(tr.t, before)
			tr.republish(true)
		},
	},
	{
		name: "bus-restored-meanwhile", family: "bus contents", repeats: true, behind: true, torn: true,
		what: "the same while bridge does not run",
		inject: func(tr *trial) {
			before := tr.lane.snapshot(tr.t)
			tr.flows()
			tr.sometime(3 * time.Second)
			if status, _ := tr.term(); status != 0 {
				tr.score.find("exit status %d after SIGTERM", status)
			}
			tr.lane.restore(tr.t, before)
			tr.start()
			tr.republish(true)
		},
	},
	{
		name: "stream-full", family: "bus contents", only: "nats", because: "a topic of Kafka has no limit at which it refuses messages",
		what: "both streams reach a limit and discard what is new, for 20 s",
		inject: func(tr *trial) {
			for _, stream := range []string{facts, entities} {
				tr.lane.configure(tr.t, tr.destination(stream), func(c *jetstream.StreamConfig, now jetstream.StreamState) {
					c.Discard, c.MaxMsgs = jetstream.DiscardNew, int64(now.Msgs)+20
				})
			}
			tr.unreadyFor("maximum messages")
			tr.outage(20 * time.Second)
			for _, stream := range []string{facts, entities} {
				tr.lane.configure(tr.t, tr.destination(stream), func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.MaxMsgs = -1 })
			}
		},
	},
	{
		name: "leader-moved", family: "bus contents", what: "on a bus of three servers other leaders are elected again and again for 30 s",
		on: func(t testing.TB, l *lane) *lane { return l.clustered(t) },
		inject: func(tr *trial) {
			moved := make(map[string]int)
			for end := time.Now().Add(tr.within(30 * time.Second)); time.Now().Before(end); {
				for _, stream := range []string{facts, entities} {
					moved[stream] += tr.lane.moveLeaders(tr.t, tr.destination(stream))
					tr.sometime(500 * time.Millisecond)
				}
			}
			for _, stream := range []string{facts, entities} {
				tr.met(moved[stream], "no leader of "+stream+" has moved")
			}
		},
	},
	{
		name: "row-too-large", family: "bus contents", what: "rows that the bus refuses as too large, in both streams: they are put aside", prepare: toPutAside,
		inject: func(tr *trial) {
			for range 6 {
				tr.swell(facts)
				tr.swell(entities)
				tr.sometime(500 * time.Millisecond)
			}
			tr.flows()
			// What is too large for an event is none of its states: the last one has to arrive.
			tr.exec("UPDATE strict SET bulk = NULL, modified = now(6) WHERE bulk IS NOT NULL")
			tr.gatherLetters()
		},
	},
	{
		// A shard that stops at a row sends the rows of the batch before it once more.
		name: "row-too-large-alone", family: "bus contents", prepare: swelling, repeats: true,
		what: "the same without a place for dead letters: that stream stops, the other goes on; the bus's limit is raised and bridge restarted",
		inject: func(tr *trial) {
			for _, turn := range [][2]string{{facts, entities}, {entities, facts}} {
				stream, other := turn[0], turn[1]
				for shards := tr.shards(stream); len(shards) == 1 && shards[0].State == "running"; shards = tr.shards(stream) {
					tr.swell(stream)
					pause(300 * time.Millisecond)
				}
				tr.shardStops(stream, "refuses row", "BRIDGE_DEAD_LETTER", "raise")
				tr.cuts++
				tr.goesOn(other)
				tr.lane.admit(tr.t, tr.destination(stream), 0)
				if status, _ := tr.term(); status != 0 {
					tr.score.find("exit status %d after SIGTERM", status)
				}
				tr.start()
				tr.flows()
			}
		},
	},
}

// shardStops waits until a stream has stopped for a reason that names all of words, and returns it.
func (tr *trial) shardStops(stream string, words ...string) (reason string) {
	tr.t.Helper()
	eventually(tr.t, 90*time.Second, stream+" stops", func() bool {
		shards := tr.shards(stream)
		if len(shards) != 1 || shards[0].State != "stopped" {
			return false
		}
		reason = shards[0].LastError
		return true
	})
	for _, word := range words {
		if !strings.Contains(reason, word) {
			tr.score.find("%s stops and does not say %q: %s", stream, word, reason)
		}
	}
	if code, body := tr.get("/readyz"); code != 503 || !strings.Contains(body, stream) {
		tr.score.find("%s has stopped, /readyz says %d: %s", stream, code, body)
	}
	return reason
}

// unreadyFor waits until the program is unready for a reason that has a phrase in it.
func (tr *trial) unreadyFor(phrase string) {
	tr.t.Helper()
	body := ""
	defer func() {
		if tr.t.Failed() {
			tr.t.Logf("/readyz: %s", body)
		}
	}()
	eventually(tr.t, 30*time.Second, "/readyz 503 with "+phrase, func() bool {
		var code int
		code, body = tr.get("/readyz")
		return code == 503 && strings.Contains(body, phrase)
	})
}

// resolving is the command in the reason of a stream that has stopped because the bus has lost messages.
var resolving = regexp.MustCompile("stop bridge, then `bridge ([^`]+)`")

// republish waits until the streams stop, stops the program, does what they ask for, and starts the program. restored says that the bus
// has gone back to an earlier state.
func (tr *trial) republish(restored bool) {
	tr.t.Helper()
	var commands [][]string
	var empty []bool
	for _, stream := range []string{facts, entities} {
		reason := tr.shardStops(stream, "the bus has lost acknowledged messages", tr.destination(stream))
		found := resolving.FindStringSubmatch(reason)
		if found == nil {
			tr.t.Fatalf("%s stops and names no command: %s", stream, reason)
		}
		commands = append(commands, strings.Fields(found[1]))
		empty = append(empty, strings.Contains(reason, "empty the destination"))
	}
	if status, _ := tr.term(); status != 0 {
		tr.score.find("exit status %d after SIGTERM", status)
	}
	for i, command := range commands {
		if restored && empty[i] {
			tr.lane.remake(tr.t, tr.destination(command[2]))
		}
		if status, stdout, stderr := bridge(tr.t, tr.env, command...); status != 0 {
			tr.t.Fatalf("bridge %q: exit status %d: %s%s", command, status, stdout, stderr)
		}
	}
	tr.start()
}
