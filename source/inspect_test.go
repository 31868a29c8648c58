package source_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/source"
)

func TestAPositionIsComparedWithTheIDsOfTheTable(t *testing.T) {
	for _, c := range []struct {
		position, highest, next uint64
		want                    []string
	}{
		{0, 0, 1, nil},
		{0, 0, 0, nil},
		{9, 9, 10, nil},
		{9, 5, 10, nil},
		{9, 9, 9, []string{"unsafe ids-reused"}},
		{1<<64 - 1, 3, 4, []string{"unsafe ids-reused"}},
		{9, 9, 0, nil},
		{9, 8, 0, []string{"warning position-ahead"}},
		{9 + inspect.StrayAbove, 9, 10 + inspect.StrayAbove, nil},
		{10 + inspect.StrayAbove, 9, 11 + inspect.StrayAbove, []string{"warning stray-id"}},
	} {
		var r inspect.Report
		source.Expected{Position: &c.position, Stream: "orders", Shard: "t"}.CheckPosition(&r, c.highest, c.next, "truncated")
		var codes []string
		for _, f := range r.Findings {
			codes = append(codes, fmt.Sprintf("%s %s", f.Severity, f.Code))
			want := fmt.Sprintf("bridge checkpoint set orders t %d", c.highest)
			if f.Code != inspect.StrayID {
				want = "bridge checkpoint set orders t 0\n" + want
			}
			if f.Statement != want {
				t.Errorf("to type is %q, want %q", f.Statement, want)
			}
			if f.Code == inspect.IDsReused && !strings.Contains(f.Do, "was truncated or restored") {
				t.Errorf("%q lacks the word of the database", f.Do)
			}
		}
		if !slices.Equal(codes, c.want) {
			t.Errorf("position %d, highest %d, next %d: found %v, want %q", c.position, c.highest, c.next, r.Findings, c.want)
		}
	}
	var r inspect.Report
	if (source.Expected{}).CheckPosition(&r, 9, 9, "truncated"); len(r.Findings) > 0 {
		t.Errorf("found %v without a checkpoint", r.Findings)
	}
}

func TestAPanicIsAFindingOfItsTable(t *testing.T) {
	var log bytes.Buffer
	tables := []source.Expected{{Stream: "bad", Spec: source.Spec{Table: "b"}}, {Stream: "good", Spec: source.Spec{Table: "g"}}}
	found := source.InspectTables(tables, 1, slog.New(slog.NewTextHandler(&log, nil)), func(expected source.Expected) source.TableInspection {
		if expected.Stream == "bad" {
			var none []int
			none[len(expected.Spec.Key)]++
		}
		return source.TableInspection{Order: source.OrderStrict}
	})
	if f := found[0].Findings; len(f) != 1 || f[0].Severity != inspect.Unsafe || f[0].Code != inspect.NotInspected || f[0].Subject != "b" ||
		!strings.Contains(f[0].What, "index out of range") || f[0].Do == "" {
		t.Errorf("found %+v", f)
	}
	if found[1].Order != source.OrderStrict || len(found[1].Findings) > 0 {
		t.Errorf("the other table: %+v", found[1])
	}
	if got := log.String(); !strings.Contains(got, "inspect_test.go") || !strings.Contains(got, "stream=bad") {
		t.Errorf("log %q", got)
	}
}
