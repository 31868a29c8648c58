package acceptance

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/workload"
	"bridge/tests/world"
)

// TestServedEntitiesSayWhatTheirEventsSay pages through the entities of tables with every type of
// column, and asks for some of them by key.
func TestServedEntitiesSayWhatTheirEventsSay(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	s := newEntities(t, testenv.MariaDB(t), workload.CapabilityOptions{Entities: 300, Writers: 4, Changes: 2000, Seed: 7}, world.Strict, world.Loose)
	s.Run()
	p := follow(s, world.KafkaBus(testenv.Kafka(t)), "served", world.Env{"BRIDGE_SERVE": "true"})
	p.Start()
	p.Drained()
	for stream := range s.Entities {
		p.ReconcileByHTTP(stream, "")
		p.MustMatch(stream, world.Expect{})
		path := "/api/v1/streams/" + stream + "/entities"
		want := published(p, stream)
		for key := range want {
			var one served
			world.Eventually(t, time.Minute, key+" is shown", func() bool { one = served{}; return getJSON(p, path+"/"+url.PathEscape(key), &one) == 200 })
			if one.Changed || one.Key != key || string(one.Data) != want[key] {
				t.Errorf("%s is shown as %s (changed: %v), its last event says %s", key, one.Data, one.Changed, want[key])
			}
		}
		shown := 0
		for after := ""; ; {
			var page struct {
				Entities []served
				Next     string
			}
			if status := getJSON(p, path+"?limit=70&after="+url.QueryEscape(after), &page); status != 200 {
				t.Fatalf("a page of %s: status %d", stream, status)
			}
			for _, one := range page.Entities {
				if string(one.Data) != want[one.Key] {
					t.Errorf("%s is shown as %s, its last event says %s", one.Key, one.Data, want[one.Key])
				}
			}
			shown += len(page.Entities)
			if after = page.Next; after == "" {
				break
			}
		}
		if shown != len(want) {
			t.Errorf("%s: the pages have %d entities, the bus has %d", stream, shown, len(want))
		}
	}
}

// served is an entity as bridge shows it.
type served struct {
	Key     string
	Changed bool
	Data    json.RawMessage
}

// getJSON asks bridge, and returns the status of the answer.
func getJSON(p *world.Publisher, path string, to any) int {
	p.T.Helper()
	status, body := p.Get(path)
	if status == 200 {
		if err := json.Unmarshal([]byte(body), to); err != nil {
			p.T.Fatal(err)
		}
	}
	return status
}

// published returns the data of the last event of each entity that is not deleted.
func published(p *world.Publisher, stream string) map[string]string {
	p.T.Helper()
	last := make(map[string]string)
	for _, m := range p.Bus.ReadAll(p.T, p.Destination(stream)) {
		var e struct {
			Meta struct{ Type string }
			Data json.RawMessage
		}
		if err := json.Unmarshal(m.Value, &e); err != nil {
			p.T.Fatal(err)
		}
		key := m.Key
		if strings.HasSuffix(e.Meta.Type, "DeletedEvent") {
			delete(last, key)
			continue
		}
		// In the answer, JSON has no blanks.
		var data bytes.Buffer
		if err := json.Compact(&data, e.Data); err != nil {
			p.T.Fatal(err)
		}
		last[key] = data.String()
	}
	return last
}

// TestServedKeysThatAPathCannotHave asks for entities whose keys clients and proxies remove from a
// path.
func TestServedKeysThatAPathCannotHave(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	w := world.Empty(t, nil)
	w.Exec("CREATE TABLE items (id INTEGER PRIMARY KEY AUTOINCREMENT, k TEXT NOT NULL UNIQUE)")
	w.Exec("INSERT INTO items (k) VALUES (''), ('.'), ('..'), ('a/b')")
	b := world.NATSBus(testenv.NATS(t))
	d := world.NewDaemon(t, world.Binary(t, false), b.Env().With(world.Env{
		"BRIDGE_SOURCE_URL": w.URL, "BRIDGE_STREAMS": "items", "BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_SERVE": "true", "BRIDGE_STREAM_ITEMS_TABLE": "items",
		"BRIDGE_STREAM_ITEMS_KIND": "capability", "BRIDGE_STREAM_ITEMS_KEY": "k", "BRIDGE_STREAM_ITEMS_DESTINATION": b.Open(t, w.Name+"_items"),
	}))
	d.Start()
	for _, key := range []string{"", ".", "..", "a/b"} {
		world.Eventually(t, time.Minute, "the entity with the key '"+key+"'", func() bool {
			status, body := d.Get("/api/v1/streams/items/entity?key=" + url.QueryEscape(key))
			var one served
			return status == 200 && json.Unmarshal([]byte(body), &one) == nil && one.Key == key
		})
	}
}
