package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/internal/driver/mysql"
	"example.org/bridge/internal/option"
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
		e, err := cfg.Encoder(s, table)
		if err != nil {
			t.Fatal(err)
		}
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
	if password, err := b.Password(); err != nil || password != "secret-of-b" || b.Port != 3307 {
		t.Errorf("b is opened with %+v", b)
	}
	rewrite(t, path, "mysql://h/d")
	if _, err := b.Password(); err == nil || !strings.Contains(err.Error(), "user") {
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

// A source is named in an error also where the driver knows no name.
func TestASourceThatCannotBeOpenedIsNamed(t *testing.T) {
	_, err := Load(several("BRIDGE_SOURCE_A_URL", "sqlite:///").Environ(), &Redactor{})
	if e, is := errors.AsType[*Error](err); !is || e.Faults[0].Variable != "BRIDGE_SOURCE_A_URL" {
		t.Error(err)
	}
}
