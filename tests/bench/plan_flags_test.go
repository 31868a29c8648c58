package bench

import (
	"path/filepath"
	"strings"
	"testing"

	"bridge/tests/bench/report"
)

// asked returns flags as they are by default, changed by change.
func asked(change func(f *flagSet)) flagSet {
	f := flagSet{
		only: new(string), kinds: new(string), buses: new(string), shards: new(string), out: new(string), profile: new(string), against: new(string),
		rows: new(int), rounds: new(int), quick: new(bool), docs: new(bool),
	}
	*f.kinds, *f.buses = allKinds, strings.Join(busNames, ",")
	change(&f)
	return f
}

func TestOnlyWholeRunsAreRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *flagSet)
		ok     bool
	}{
		"everything is":                   {func(*flagSet) {}, true},
		"three rounds are":                {func(f *flagSet) { *f.rounds = 3 }, true},
		"two rounds are not":              {func(f *flagSet) { *f.rounds = 2 }, false},
		"a part is not":                   {func(f *flagSet) { *f.only = "scan" }, false},
		"a quick run is not":              {func(f *flagSet) { *f.quick = true }, false},
		"one kind is not":                 {func(f *flagSet) { *f.kinds = "release" }, false},
		"one bus is not":                  {func(f *flagSet) { *f.buses = "kafka" }, false},
		"another table is not":            {func(f *flagSet) { *f.rows = 1000 }, false},
		"other numbers of tables are not": {func(f *flagSet) { *f.shards = "5" }, false},
		"a profiled run is not":           {func(f *flagSet) { *f.profile = "profiles" }, false},
		"nothing to compare is not":       {func(f *flagSet) { *f.against = filepath.Join("no", "such", "file") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := asked(c.change)
			*f.docs = true
			if _, err := planOf(f); (err == nil) != c.ok {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestARunToCompareWithIsRead(t *testing.T) {
	folder := t.TempDir()
	if err := (&report.Report{Version: "v1"}).WriteFolder(folder); err != nil {
		t.Fatal(err)
	}
	p, err := planOf(asked(func(f *flagSet) { *f.against = filepath.Join(folder, report.JSONFile) }))
	if err != nil || p.against == nil || p.against.Version != "v1" {
		t.Errorf("%+v, %v", p.against, err)
	}
}

func TestTheDatabaseHasMemoryForTheLargestTableWhereThereIsSome(t *testing.T) {
	for memory, want := range map[int64]string{0: "1G", 8 << 30: "1G", 16<<30 - 400<<20: "4G", 64 << 30: "4G"} {
		if got := poolFor(memory); got != want {
			t.Errorf("%s of %d bytes, want %s", got, memory, want)
		}
	}
}
