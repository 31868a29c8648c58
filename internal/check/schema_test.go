package check

import (
	"context"
	"strings"
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/source"
)

func TestAChangedSchemaIsFound(t *testing.T) {
	was := &store.Schema{Version: [3]uint32{1, 0, 0}, Hash: [6]byte{1}, Members: []store.SchemaMember{{Name: "id", Type: "integer"}, {Name: "name", Type: "string"}}}
	for name, c := range map[string]struct {
		on       string
		change   func(now *store.Schema)
		severity inspect.Severity
		words    string
	}{
		"a member is gone":           {"warn", func(s *store.Schema) { s.Hash, s.Members = [6]byte{2}, s.Members[:1] }, inspect.Warning, "the stream goes on: member name was string and is gone"},
		"a member is gone, it stops": {"stop", func(s *store.Schema) { s.Hash, s.Members = [6]byte{2}, s.Members[:1] }, inspect.Unsafe, "the stream stops: member name was string and is gone"},
		"nothing":                    {"stop", func(*store.Schema) {}, 0, ""},
		"the version is another one": {"stop", func(s *store.Schema) { s.Version, s.Hash, s.Members = [3]uint32{2}, [6]byte{2}, nil }, 0, ""},
		"a member is new": {"stop", func(s *store.Schema) {
			s.Hash = [6]byte{2}
			s.Members = append(s.Members, store.SchemaMember{Name: "z", Type: "string"})
		}, 0, ""},
		"nobody knows the former ones": {"stop", nil, inspect.Unsafe, "the checkpoint does not know which these were"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := load(t, configtest.With("BRIDGE_ON_SCHEMA_CHANGE", c.on))
			key, known := store.Key{Stream: "orders", Shard: "orders_1"}, *was
			now := &store.Schema{Version: was.Version, Hash: was.Hash, Members: append([]store.SchemaMember{}, was.Members...)}
			if c.change == nil {
				known.Members, now.Hash = nil, [6]byte{2}
			} else {
				c.change(now)
			}
			var asked []store.Key
			groups := Examine(t.Context(), cfg, Subjects{
				Source: func(context.Context, []source.Expected) source.Inspection {
					return source.Inspection{Tables: make([]source.TableInspection, 2)}
				},
				Schemas: func(_ context.Context, shards []store.Key) map[store.Key]*store.Schema {
					asked = shards
					return map[store.Key]*store.Schema{key: now}
				},
				Lineage: func(context.Context, map[store.Key]uint64) inspect.Report { return inspect.Report{} },
				Sink:    func(context.Context) inspect.Report { return inspect.Report{} },
				Store: func(context.Context) store.Inspection {
					return store.Inspection{Known: true, Shards: []store.ShardState{{Key: key, Schema: &known}, {Key: store.Key{Stream: "orders", Shard: "orders_0"}}}}
				},
				HTTP: func(context.Context) inspect.Report { return inspect.Report{} },
			})
			if len(asked) != 1 || asked[0] != key {
				t.Errorf("asked for %v", asked)
			}
			var found []inspect.Finding
			for _, g := range groups {
				found = append(found, g.Findings...)
			}
			if c.words == "" {
				if len(found) > 0 {
					t.Errorf("found %+v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Code != inspect.SchemaChanged || found[0].Severity != c.severity || !strings.Contains(found[0].What, c.words) ||
				!strings.Contains(found[0].Do, "BRIDGE_STREAM_ORDERS_EVENT_VERSION to another version than 1.0.0") {
				t.Errorf("found %+v", found)
			}
		})
	}
}
