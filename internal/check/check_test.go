package check

import (
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/source"
)

// load reads a configuration that must be right.
func load(t *testing.T, env configtest.Env) *config.Config {
	t.Helper()
	cfg, err := config.Load(env.Environ(), &config.Redactor{})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestStreamGroups(t *testing.T) {
	cfg := load(t, configtest.With("BRIDGE_STREAM_ORDERS_ID_ORDER", "auto", "BRIDGE_STREAM_ORDERS_START", "latest"))
	table := func(order source.IDOrder, findings ...inspect.Finding) source.TableInspection {
		return source.TableInspection{Order: order, Why: "because", Findings: findings}
	}
	at := func(shards ...string) map[store.Key]uint64 {
		positions := make(map[store.Key]uint64)
		for _, shard := range shards {
			positions[store.Key{Stream: "orders", Shard: shard}] = 7
		}
		return positions
	}
	for _, c := range []struct {
		name      string
		tables    []source.TableInspection
		known     bool
		positions map[store.Key]uint64
		want      string
	}{
		{"not reached", nil, true, nil, "2 tables, not looked at"},
		{"one order, no checkpoint", []source.TableInspection{table("strict"), table("strict")}, true, nil, "2 tables, ids strict (because), tail begins after the latest row, if the bus has nothing of it"},
		{"two orders, all checkpoints", []source.TableInspection{table("strict"), table("segmented")}, true, at("orders_0", "orders_1"),
			"2 tables, ids strict in 1 table, segmented in 1 table, tails go on after their checkpoints"},
		{"a table that cannot be read, one checkpoint", []source.TableInspection{table(""), table("strict")}, true, at("orders_1"),
			"2 tables, ids strict (because), tails: 1 after their checkpoints, 1 after the latest row"},
		{"a checkpoint in use", []source.TableInspection{table("strict"), table("strict")}, false, nil, "2 tables, ids strict (because), tail goes on where the checkpoint says"},
	} {
		t.Run(c.name, func(t *testing.T) {
			groups := streamGroups(cfg, source.Inspection{Tables: c.tables}, &store.Inspection{Known: c.known}, c.positions)
			if len(groups) != 1 || groups[0].Summary != c.want || groups[0].Skipped != (c.tables == nil) {
				t.Errorf("%+v, want %q", groups, c.want)
			}
		})
	}
}

func TestExpectations(t *testing.T) {
	cfg := load(t, configtest.With("BRIDGE_STREAM_ORDERS_KEY", "a,b", "BRIDGE_STREAM_ORDERS_ID_ORDER", "segmented", "BRIDGE_STREAM_ORDERS_TIME_ZONE", "Asia/Shanghai"))
	tables := Expectations(cfg, map[store.Key]uint64{{Stream: "orders", Shard: "orders_1"}: 5})
	if len(tables) != 2 || tables[0].Position != nil || tables[1].Position == nil || *tables[1].Position != 5 {
		t.Fatalf("%+v", tables)
	}
	if one := tables[1]; one.Spec.Table != "orders_1" || !one.Spec.UniqueKey || !one.Updates || one.Order != source.OrderSegmented || one.Zone.String() != "Asia/Shanghai" {
		t.Errorf("%+v", one)
	}
	release := Expectations(load(t, configtest.With("BRIDGE_STREAM_ORDERS_KIND", "release")), nil)
	if release[0].Spec.UniqueKey || release[0].Updates || release[0].Order != "" {
		t.Errorf("%+v", release[0])
	}
}
