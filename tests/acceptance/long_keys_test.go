package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/world"
)

// TestLongKeysOnNATS has keys that make a subject too long for a line of the protocol, or headers
// too long for JetStream: the row becomes a dead letter, or stops its stream alone.
func TestLongKeysOnNATS(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	server := testenv.OwnNATS(t)
	server.CreateStream(t, natsjs.StreamConfig{Name: "EVENTS", Subjects: []string{"s.>"}})
	server.CreateStream(t, natsjs.StreamConfig{Name: "SMALL", Subjects: []string{"small.>"}, MaxMsgSize: 4096})
	b := world.NATSBus(server)
	for i, c := range []struct {
		name, destination, kind string
		key                     string
		says                    string
		// twice is what the stream says where the dead letter is refused, too.
		twice string
	}{
		{"a long key in the subject", "k.{key}", "capability", strings.Repeat("订", 460), "max_control_line", ""},
		{"a long key in headers", "h", "release", strings.Repeat("k", 64<<10), "65535", ""},
		{"a key of an entity that the stream has no room for", "e", "capability", strings.Repeat("e", 6000), "max_msg_size",
			"give the bus a higher limit, set BRIDGE_STREAM_LONG_KEY to shorter columns, or leave the row out with BRIDGE_STREAM_LONG_FILTER"},
	} {
		name := fmt.Sprint(c.kind, i)
		for _, aside := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, with dead letters %t", c.name, aside), func(t *testing.T) {
				w := world.Empty(t, nil)
				for _, table := range []string{"long", "other"} {
					w.Exec("CREATE TABLE " + table + " (id integer PRIMARY KEY AUTOINCREMENT, k text NOT NULL UNIQUE)")
				}
				stream, prefix := "EVENTS", fmt.Sprintf("s.%s%t.", name, aside)
				if c.twice != "" {
					stream, prefix = "SMALL", fmt.Sprintf("small.%s%t.", name, aside)
				}
				e := b.Env().With(world.Env{
					"BRIDGE_SOURCE_URL": w.URL, "BRIDGE_STREAMS": "long,other", "BRIDGE_NATS_STREAM": stream, "BRIDGE_STABILITY_WINDOW": "0s",
					"BRIDGE_POLL_INTERVAL": "50ms", "BRIDGE_DOMAIN_ID": name,
				})
				for _, stream := range []string{"LONG", "OTHER"} {
					e["BRIDGE_STREAM_"+stream+"_TABLE"], e["BRIDGE_STREAM_"+stream+"_KIND"] = strings.ToLower(stream), c.kind
					e["BRIDGE_STREAM_"+stream+"_KEY"] = "k"
				}
				e["BRIDGE_STREAM_LONG_DESTINATION"] = prefix + c.destination
				e["BRIDGE_STREAM_OTHER_DESTINATION"] = prefix + "other"
				if aside {
					e["BRIDGE_DEAD_LETTER"] = prefix + "dead"
				}
				d := world.NewDaemon(t, world.Binary(t, false), e)
				d.Start()
				insert := func(key string) {
					for _, table := range []string{"long", "other"} {
						w.Exec("INSERT INTO "+table+" (k) VALUES (?)", map[bool]string{true: key, false: key[:1] + fmt.Sprint(len(key))}[table == "long"])
					}
				}
				insert("a")
				insert(c.key)
				insert("b")
				world.Eventually(t, time.Minute, "the other stream goes on", func() bool { return d.Position("other") >= 3 })
				if !aside || c.twice != "" {
					s := world.AwaitStopped(t, d, "long")
					if !strings.Contains(s.LastError, "row 2 of") || !strings.Contains(s.LastError, c.says) || len(s.LastError) > 1000 {
						t.Errorf("the stream stops with %.2000s", s.LastError)
					}
					if follow := "set BRIDGE_STREAM_LONG_DEAD_LETTER"; aside && !strings.Contains(s.LastError, c.twice) || strings.Contains(s.LastError, follow) == aside {
						t.Errorf("the stream says what to do: %.2000s", s.LastError)
					}
				} else {
					world.Eventually(t, time.Minute, "the stream goes on", func() bool { return d.Position("long") >= 3 })
					if got := d.Metric("bridge_dead_letters_total"); got != 1 {
						t.Errorf("%v dead letters", got)
					}
				}
				if log := d.Log.String(); strings.Contains(log, "outage begins") {
					t.Error("a connection was lost")
				}
				if status, _ := d.Term(); status != 0 {
					t.Errorf("exit status %d", status)
				}
			})
		}
	}
}
