package source_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/source"
)

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
