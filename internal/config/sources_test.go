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

func TestFaultsOfSources(t *testing.T) {
	const table = "BRIDGE_STREAM_ORDERS_TABLE"
	for name, c := range map[string]struct {
		env      settingsOf
		variable string
		says     []string
	}{
		"a name with a capital letter":            {several("BRIDGE_SOURCES", "a,B"), "BRIDGE_SOURCES", []string{"item 2", "a-z, 0-9, _ and -"}},
		"a name twice":                            {several("BRIDGE_SOURCES", "a,b,a"), "BRIDGE_SOURCES", []string{"item 3", "the name of another source"}},
		"two names with one variable":             {several("BRIDGE_SOURCES", "a,b,a-1,a_1", "BRIDGE_SOURCE_A_1_URL", "mysql://u:p@h/d", table, twoTables+",a-1/shop.orders"), "BRIDGE_SOURCES", []string{"item 4", "BRIDGE_SOURCE_A_1_URL"}},
		"a list of commas":                        {several("BRIDGE_SOURCES", ","), "BRIDGE_SOURCES", []string{"without an item"}},
		"no URL":                                  {several("BRIDGE_SOURCE_B_URL", "-"), "BRIDGE_SOURCE_B_URL", []string{"not set", "BRIDGE_SOURCES", "mysql://"}},
		"an unknown scheme":                       {several("BRIDGE_SOURCE_B_URL", "postgres://h/d"), "BRIDGE_SOURCE_B_URL", []string{"mysql:"}},
		"a wrong URL":                             {several("BRIDGE_SOURCE_B_URL", "mysql://h/d"), "BRIDGE_SOURCE_B_URL", []string{"user"}},
		"an unknown source of a table":            {several(table, twoTables+",c/shop.orders"), table, []string{"table 3", "BRIDGE_SOURCES does not name"}},
		"a table without a source":                {several(table, twoTables+",shop.orders"), table, []string{"table 3", "BRIDGE_SOURCE_URL is not set"}},
		"a source without tables":                 {several(table, "a/shop_00.orders"), "BRIDGE_SOURCES", []string{"the source b", "b/table"}},
		"a source without a name and tables":      {several("BRIDGE_SOURCE_URL", "mysql://u:p@h/d"), "BRIDGE_SOURCE_URL", []string{"no table"}},
		"no database for a table without one":     {several(table, "a/orders,b/orders"), "BRIDGE_SOURCE_B_URL", []string{"names no database", table}},
		"a table twice":                           {several(table, twoTables+",a/shop.t,a/t"), table, []string{"twice"}},
		"a variable of no source":                 {several("BRIDGE_SOURCE_C_URL", "mysql://u:p@h/d"), "BRIDGE_SOURCE_C_URL", []string{"no source of BRIDGE_SOURCES"}},
		"a variable of a source, mistyped":        {several("BRIDGE_SOURCE_A_ULR", "mysql://u:p@h/d"), "BRIDGE_SOURCE_A_ULR", []string{"did you mean BRIDGE_SOURCE_A_URL?"}},
		"a URL and a file of it":                  {several("BRIDGE_SOURCE_A_URL_FILE", "/x"), "BRIDGE_SOURCE_A_URL", []string{"BRIDGE_SOURCE_A_URL_FILE"}},
		"no source at all":                        {with("BRIDGE_SOURCE_URL", "-"), "BRIDGE_SOURCE_URL", []string{"not set"}},
		"a topic by source, of the one unnamed":   {with("BRIDGE_STREAM_ORDERS_DESTINATION", "{source}.x"), "BRIDGE_STREAM_ORDERS_DESTINATION", []string{"{source}", "table 1", "BRIDGE_SOURCES"}},
		"a subject by source, of the one unnamed": {with("BRIDGE_SINK_URL", "nats://n", "BRIDGE_STREAM_ORDERS_DESTINATION", "{source}.x"), "BRIDGE_STREAM_ORDERS_DESTINATION", []string{"{source}"}},
	} {
		t.Run(name, func(t *testing.T) { wantFault(t, c.env, c.variable, c.says...) })
	}
	t.Run("all at once", func(t *testing.T) {
		var names []string
		for _, f := range faultsOf(t, several("BRIDGE_SOURCES", "a,b,c,d", "BRIDGE_SOURCE_B_URL", "x", table, "a/t,e/s.t")) {
			names = append(names, strings.TrimPrefix(f.Variable, "BRIDGE_"))
		}
		// Those of b, c and d have no table.
		want := []string{"SOURCES", "SOURCES", "SOURCES", "SOURCE_B_URL", "SOURCE_C_URL", "SOURCE_D_URL", "STREAM_ORDERS_TABLE"}
		if !slices.Equal(names, want) {
			t.Errorf("faults of %v, want %v", names, want)
		}
	})
	t.Run("a / without BRIDGE_SOURCES is a part of the name", func(t *testing.T) {
		cfg := load(t, with(table, "a/orders"))
		if len(cfg.Warnings) != 1 || cfg.Warnings[0].Variable != table || !strings.Contains(cfg.Warnings[0].Text, "BRIDGE_SOURCES") {
			t.Errorf("%+v", cfg.Warnings)
		}
		if database, name := cfg.physical("a/orders"); database != "shop" || name != "a/orders" {
			t.Errorf("%s, %s", database, name)
		}
	})
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
	named := load(t, several("BRIDGE_STREAM_ORDERS_DESTINATION", "{source}.{table}"))
	if got := named.Destinations(&named.Streams[0]); !slices.Equal(got, []string{"a.orders", "b.orders"}) {
		t.Errorf("destinations %q", got)
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
