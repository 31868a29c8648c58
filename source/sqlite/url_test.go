package sqlite_test

import (
	"strings"
	"testing"
	"time"

	"bridge/source/sqlite"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]sqlite.Options{
		"sqlite:///var/lib/app.db":                 {Path: "/var/lib/app.db"},
		"sqlite:app.db":                            {Path: "app.db"},
		"sqlite:../data/app.db?epoch=ms":           {Path: "../data/app.db", Epoch: time.Millisecond},
		"sqlite:///app.db?epoch=s":                 {Path: "/app.db", Epoch: time.Second},
		"sqlite:a%20b%3F%23%25.db":                 {Path: "a b?#%.db"},
		"sqlite:///with space/and=equals&more.db?": {Path: "/with space/and=equals&more.db"},
	} {
		t.Run("reads "+text, func(t *testing.T) {
			if got := mustOpenURL(t, text); got != want {
				t.Fatalf("%+v, want %+v", got, want)
			}
		})
	}
	for text, want := range map[string]string{
		"":                              "must look like sqlite:///",
		"app.db":                        "must look like sqlite:///",
		"sqlite://app.db":               "three slashes",
		"sqlite://u:p@/app.db":          "must look like sqlite:///",
		"sqlite:///a#b.db":              "%23",
		"sqlite:///a%zz.db":             "%25",
		"sqlite:a%zz.db":                "%25",
		"sqlite:":                       "must name the database file",
		"sqlite:///var/lib/":            "must name the database file",
		"sqlite::memory:":               "in memory",
		"sqlite:a%00b":                  "NUL",
		"sqlite:///app.db?epoch=us":     "epoch must be s or ms",
		"sqlite:///app.db?mode=rw":      "unknown parameter",
		"sqlite:///app.db?epoch=s;x=ms": "malformed parameters",
	} {
		t.Run("refuses "+text, func(t *testing.T) {
			if _, err := sqlite.ParseURL(text); err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("error %v, want one with %q", err, want)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	for want, o := range map[string]sqlite.Options{
		"no path":        {},
		"MaxConns":       {Path: "x", MaxConns: -1},
		"at least 1ms":   {Path: "x", StatementTimeout: 1},
		"epoch's unit":   {Path: "x", Epoch: time.Minute},
		"open sqlite so": {},
	} {
		if s, err := sqlite.Open(o); err == nil || !strings.Contains(err.Error(), want) || s != nil {
			t.Errorf("%+v: error %v, want one with %q", o, err, want)
		}
	}
}
