package sqltable_test

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

func FuzzAppendFloat(f *testing.F) {
	for _, seed := range []float64{0, 1, -1, 0.1, 1e6, 1e21, 1e-7, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Copysign(0, -1)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Skip("no SQL number")
		}
		got := sqltable.AppendFloat(nil, v, 64)
		if back, err := strconv.ParseFloat(string(got), 64); err != nil || back != v || !json.Valid(got) {
			t.Fatalf("%v is written as %s and read as %v, %v", v, got, back, err)
		}
		single := float32(v)
		if math.IsInf(float64(single), 0) {
			return
		}
		got = sqltable.AppendFloat(nil, float64(single), 32)
		if back, err := strconv.ParseFloat(string(got), 32); err != nil || float32(back) != single || !json.Valid(got) {
			t.Fatalf("%v is written as %s and read as %v, %v", single, got, back, err)
		}
	})
}

func TestNamesAreQuoted(t *testing.T) {
	for _, c := range []struct{ name, database, want string }{
		{"t", "shop", "`shop`.`t`"}, {"crm.a`b", "shop", "`crm`.`a``b`"}, {"t", "", "`t`"},
	} {
		if got := sqltable.ParseName(c.name, c.database).SQL("`"); got != c.want {
			t.Errorf("%s is %s, want %s", c.name, got, c.want)
		}
	}
	table := sqltable.Table{Columns: []sqltable.Column{{Column: source.Column{Name: "a"}}, {Column: source.Column{Name: "B"}}}}
	if _, ok := table.Column("b"); !ok || table.Names() != "a, B" || (&sqltable.Index{Name: "i", Ignored: true}).Usable() != "" {
		t.Errorf("the columns are %s", table.Names())
	}
}
