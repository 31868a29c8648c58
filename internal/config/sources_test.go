package config

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/internal/driver/mysql"
	"example.org/bridge/internal/option"
	"example.org/bridge/tests/must"
)

const twoTables = "a/shop_00.orders,b/shop_50.orders"

// several is a configuration with the sources a and b, and none without a name.
func several(pairs ...string) settingsOf {
	return with(append([]string{
		"BRIDGE_SOURCE_URL", "-", "BRIDGE_SOURCES", "a,b", "BRIDGE_SOURCE_A_URL", "mysql://u:secret-of-a@db-a/shop",
		"BRIDGE_SOURCE_B_URL", "mysql://u:secret-of-b@db-b:3307", "BRIDGE_STREAM_ORDERS_TABLE", twoTables,
	}, pairs...)...)
}

// TestASlashWithoutSources is a part of the name.
func TestASlashWithoutSources(t *testing.T) {
	if database, name := load(t, with("BRIDGE_STREAM_ORDERS_TABLE", "a/orders")).physical("a/orders"); database != "shop" || name != "a/orders" {
		t.Errorf("%s, %s", database, name)
	}
}

// TestTablesOfSources: what tables are called that have a source with a name, and others beside.
func TestTablesOfSources(t *testing.T) {
	path := secretFile(t, "mysql://u:secret-of-b@db-b:3307\n")
	cfg := load(t, several("BRIDGE_SOURCE_URL", "mysql://u:p@db/shop_00", "BRIDGE_SOURCE_B_URL", "-", "BRIDGE_SOURCE_B_URL_FILE", path,
		"BRIDGE_STREAM_ORDERS_TABLE", "orders,a/orders,a/shop_00.orders,b/shop_{50..51}.orders", "BRIDGE_STREAM_ORDERS_DESTINATION", "x.{table}", "BRIDGE_STANDBY", "g"))
	s := &cfg.Streams[0]
	var got []string
	for _, table := range s.Tables {
		src, name := cfg.SourceOf(table)
		e := must.Get(cfg.Encoder(s, table))(t)
		got = append(got, strings.Join([]string{src.Label(), name, e.Source(), cfg.Meaning(s, table).Table}, " "))
	}
	if want := []string{
		"source orders shop_00 shop_00.orders", "source a orders a/shop a/shop.orders", "source a shop_00.orders a/shop_00 a/shop_00.orders",
		"source b shop_50.orders b/shop_50 b/shop_50.orders", "source b shop_51.orders b/shop_51 b/shop_51.orders",
	}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if a, b := &cfg.Sources[1], &cfg.Sources[2]; cfg.SharedDatabase(&cfg.Sources[0], a) != "shop_00" || cfg.SharedDatabase(a, b) != "" {
		t.Error("databases are shared that are not, or the other way round")
	}
	// As with lower_case_table_names.
	anyCase := load(t, several("BRIDGE_STREAM_ORDERS_TABLE", "a/Shop.orders,b/shop.orders"))
	if got := anyCase.SharedDatabase(&anyCase.Sources[0], &anyCase.Sources[1]); got != "Shop" {
		t.Errorf("shared is %q", got)
	}
	b := cfg.Sources[2].Opener.(*mysql.Opener).Options
	if _, password, err := b.Password(); err != nil || password != "secret-of-b" || b.Port != 3307 {
		t.Errorf("b is opened with %+v", b)
	}
	rewrite(t, path, "mysql://h/d")
	if _, _, err := b.Password(); err == nil || !strings.Contains(err.Error(), "user") {
		t.Errorf("error %v", err)
	}
	for _, name := range []string{"BRIDGE_SOURCE_URL", "BRIDGE_SOURCES", "BRIDGE_SOURCE_A_URL", "BRIDGE_SOURCE_B_URL"} {
		if cfg.Standby.Settings[name] == "" {
			t.Errorf("processes of a group need not agree on %s", name)
		}
	}
	if text := Text(option.Errorf("see %s", cfg.Sources[1].Setting())); text != "see BRIDGE_SOURCE_A_URL" {
		t.Error(text)
	}
}

func TestSameTable(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"shop.orders", "a/shop.orders", true}, {"a/shop.orders", "shop.orders", true}, {"a/shop.orders", "b/shop.orders", true},
		{"orders", "a/shop.orders", true}, {"a/orders", "shop.orders", true},
		{"a/shop.orders", "a/shop.orders", false}, {"a/shop.orders", "b/shop.items", false}, {"a/shop_0.orders", "b/shop_1.orders", false},
		{"orders", "shop.orders", false}, {"orders", "items", false},
	} {
		if got := SameTable(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}

// TestTablesOfAShare: each table of a release stream, and of entities that are of their table, is
// in one share; a stream whose entities may move is in one as a whole; of patterns each share has
// what matches there.
func TestTablesOfAShare(t *testing.T) {
	all := with("BRIDGE_CHECKPOINT_URL", "bus:", "BRIDGE_STREAMS", "facts,states,moving,found,few",
		"BRIDGE_STREAM_FACTS_TABLE", "t_{0..39}", "BRIDGE_STREAM_FACTS_KIND", "release",
		"BRIDGE_STREAM_STATES_TABLE", "u_{0..39}", "BRIDGE_STREAM_STATES_KIND", "capability",
		"BRIDGE_STREAM_MOVING_TABLE", "v_{0..39}", "BRIDGE_STREAM_MOVING_KIND", "capability", "BRIDGE_STREAM_MOVING_KEY", "name",
		"BRIDGE_STREAM_FOUND_TABLE", "w_0,x_*", "BRIDGE_STREAM_FOUND_KIND", "release",
		"BRIDGE_STREAM_FEW_TABLE", "few", "BRIDGE_STREAM_FEW_KIND", "release",
	)
	found := map[string][]string{"found": {"x_0", "x_1", "x_2", "x_3", "x_4", "x_5", "x_6", "x_7"}}
	owners := make(map[string]int)
	delete(all, "BRIDGE_STREAM_ORDERS_TABLE")
	delete(all, "BRIDGE_STREAM_ORDERS_KIND")
	for _, share := range []string{"0/3", "1/3", "2/3"} {
		all["BRIDGE_SHARE"] = share
		full := load(t, all)
		own := OfShare(full)
		// Another share has tables with the same keys on its topics.
		if got, want := own.Uncompactable(), full.Uncompactable(); len(want) == 0 || !maps.Equal(got, want) || !slices.Equal(own.Subjects(), full.Subjects()) {
			t.Errorf("share %s: compaction %v, want %v; a stream is created with %q, want %q", share, got, want, own.Subjects(), full.Subjects())
		}
		for _, one := range []*Config{own, OfShare(own).WithTables(found)} {
			moving := one.Stream("moving")
			if moving != nil && len(moving.Tables) != 40 {
				t.Errorf("share %s has %d tables of moving", share, len(moving.Tables))
			}
			if one.Stream("found") == nil {
				t.Errorf("share %s does not look for tables", share)
			}
		}
		for _, s := range own.WithTables(found).Streams {
			for _, table := range s.Tables {
				owners[s.Name+" "+table]++
			}
			if n := len(s.Tables); n == 40 && s.Name != "moving" {
				t.Errorf("share %s has all tables of %s", share, s.Name)
			}
		}
		if len(full.Streams) != 5 || len(full.Stream("facts").Tables) != 40 || !slices.Equal(full.WithTables(found).Stream("found").Tables, append([]string{"w_0"}, found["found"]...)) {
			t.Errorf("all streams are %+v", full.Streams)
		}
	}
	if len(owners) != 3*40+1+8+1 {
		t.Errorf("%d tables have an owner", len(owners))
	}
	for table, n := range owners {
		if n != 1 {
			t.Errorf("%s has %d owners", table, n)
		}
	}
}

// TestTablesThatMatch: tables of a pattern are there once, under the name that the pattern gives
// them, and lead to subjects that do not change with them.
func TestTablesThatMatch(t *testing.T) {
	cfg := load(t, with("BRIDGE_SINK_URL", "nats://n", "BRIDGE_STREAM_ORDERS_TABLE", "orders_1,shop.orders_*", "BRIDGE_STREAM_ORDERS_DESTINATION", "x.{table}"))
	found := cfg.WithTables(map[string][]string{"orders": {"shop.orders_1", "shop.orders_2"}})
	s := &found.Streams[0]
	if got := strings.Join(s.Tables, " "); got != "orders_1 shop.orders_2" {
		t.Errorf("tables %s", got)
	}
	if found.Matched(s, "orders_1") || !found.Matched(s, "shop.orders_3") || found.Matched(s, "shop.bills") || !found.Has(s)("shop.orders_1") {
		t.Error("what a pattern matches")
	}
	before, after := cfg.Destinations(&cfg.Streams[0]), found.Destinations(s)
	if strings.Join(before, " ") != "x.*" || strings.Join(after, " ") != "x.*" {
		t.Errorf("destinations %q, then %q", before, after)
	}
	for table, want := range map[string]error{"shop.orders_3": nil, "shop.orders_{3}": ErrName, "shop.orders_*": ErrName, "shop.bills": ErrName} {
		if err := found.CanPublish(s, table); !errors.Is(err, want) {
			t.Errorf("%s: %v", table, err)
		}
	}
	// What a setting may heal.
	led := load(t, with("BRIDGE_SINK_URL", "kafka://k", "BRIDGE_STREAM_ORDERS_TABLE", "shop.orders_*", "BRIDGE_STREAM_ORDERS_DESTINATION", "x.{table}",
		"BRIDGE_DEAD_LETTER", "x.orders_dead"))
	if err := led.CanPublish(&led.Streams[0], "shop.orders_dead"); err == nil || errors.Is(err, ErrName) {
		t.Errorf("a table whose topic is that of dead letters: %v", err)
	}
}
