package acceptance

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// contentsFaults are done to what the bus holds, and to what it lets in.
var contentsFaults = []fault{
	{
		name: "places-remade", family: "bus contents", repeats: true, torn: true,
		what: "both topics or streams are deleted and made again; the streams stop, and a person types the command that they name",
		inject: func(tr *trial) {
			for _, stream := range []string{facts, entities} {
				tr.lane.remake(tr.t, tr.destination(stream))
			}
			tr.republish()
		},
	},
	{
		name: "stream-full", family: "bus contents", only: "nats", because: "a topic of Kafka has no limit at which it refuses messages",
		what: "both streams reach a limit and discard what is new, for 20 s",
		inject: func(tr *trial) {
			for _, stream := range []string{facts, entities} {
				tr.limit(stream, func(c *jetstream.StreamConfig, now jetstream.StreamState) { c.MaxMsgs = int64(now.Msgs) + 20 })
			}
			tr.refuses("maximum messages")
			tr.outage(20 * time.Second)
			for _, stream := range []string{facts, entities} {
				tr.limit(stream, func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.MaxMsgs = -1 })
			}
		},
	},
}

// shardStops waits until a stream has stopped for a reason that names all of words, and returns it.
func (tr *trial) shardStops(stream string, words ...string) (reason string) {
	tr.t.Helper()
	eventually(tr.t, 30*time.Second, stream+" stops", func() bool {
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

// refuses waits until the program is unready for a reason that has a phrase in it.
func (tr *trial) refuses(phrase string) {
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

// republish waits until the streams stop, stops the program, types what they ask for, and starts the program.
func (tr *trial) republish() {
	tr.t.Helper()
	var commands [][]string
	for _, stream := range []string{facts, entities} {
		reason := tr.shardStops(stream, "the bus has lost acknowledged messages", tr.destination(stream))
		found := resolving.FindStringSubmatch(reason)
		if found == nil {
			tr.t.Fatalf("%s stops and names no command: %s", stream, reason)
		}
		commands = append(commands, strings.Fields(found[1]))
	}
	if status, _ := tr.term(); status != 0 {
		tr.score.find("exit status %d after SIGTERM", status)
	}
	for _, command := range commands {
		if status, stdout, stderr := bridge(tr.t, tr.env, command...); status != 0 {
			tr.t.Fatalf("bridge %q: exit status %d: %s%s", command, status, stdout, stderr)
		}
	}
	tr.start()
}

// limit changes the limits of a stream of JetStream, given how it stands.
func (tr *trial) limit(stream string, change func(*jetstream.StreamConfig, jetstream.StreamState)) {
	tr.t.Helper()
	ctx, cancel := context.WithTimeout(tr.t.Context(), 20*time.Second)
	defer cancel()
	js := tr.lane.nats.JetStream(tr.t)
	s, err := js.Stream(ctx, tr.destination(stream))
	if err != nil {
		tr.t.Fatal(err)
	}
	config := s.CachedInfo().Config
	config.Discard = jetstream.DiscardNew
	change(&config, s.CachedInfo().State)
	if _, err := js.UpdateStream(ctx, config); err != nil {
		tr.t.Fatal(err)
	}
}
