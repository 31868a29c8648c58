package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"bridge/checkpoint"
)

// blockOf returns the payload of a block with these keys.
func blockOf(keys ...string) []byte {
	payload := []byte{blockMark}
	for _, key := range keys {
		payload = appendEntry(payload, entry{[]byte(key), []byte("value of " + key)})
	}
	return payload
}

func TestCheckBlock(t *testing.T) {
	long := strings.Repeat("k", 300)
	for name, test := range map[string]struct {
		before, name string
		payload      []byte
		wrong        string
	}{
		"named by its last key":            {"", "c", blockOf("a", "b", "c"), ""},
		"named by a later key":             {"", "d", blockOf("a", "b", "c"), ""},
		"with long keys":                   {"", long, blockOf("a", long), ""},
		"of an older file":                 {"", "c", []byte("\x01value"), ""},
		"without entries":                  {"", "c", blockOf(), "has no entries"},
		"of nothing at all":                {"", "", nil, "out of order"},
		"with a key above its name":        {"", "b", blockOf("a", "b", "c"), "or others"},
		"with a key twice":                 {"", "c", blockOf("a", "b", "b"), "out of order"},
		"in no order":                      {"", "c", blockOf("b", "a"), "out of order"},
		"with an empty key":                {"", "c", blockOf("", "a"), "out of order"},
		"cut off":                          {"", "c", blockOf("a", "b", "c")[:20], "does not fit"},
		"cut off behind a key":             {"", "c", blockOf("a")[:3], "does not fit"},
		"with a length beyond all bounds":  {"", "c", append(blockOf("a"), bytes.Repeat([]byte{0xff}, 9)...), "does not fit"},
		"with a length that never ends":    {"", "c", append(blockOf("a"), bytes.Repeat([]byte{0xff}, 12)...), "does not fit"},
		"behind another one":               {"9", "c", blockOf("a", "b", "c"), ""},
		"with a key of the one before":     {"a", "c", blockOf("a", "b", "c"), "out of order"},
		"of an older file, out of order":   {"d", "c", []byte("\x01value"), "out of order"},
		"without entries, behind another":  {"a", "c", blockOf(), "has no entries"},
		"with an entry that does not pass": {"", "x", blockOf("a", "nonsense"), "nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkBlock([]byte(test.before), []byte(test.name), test.payload, func(e entry) error {
				if string(e.key) == "nonsense" {
					return damaged("nonsense")
				}
				return nil
			})
			switch {
			case test.wrong == "" && err != nil:
				t.Error(err)
			case test.wrong != "" && (!errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), test.wrong)):
				t.Errorf("it returns %v, want ErrCorrupt: %s", err, test.wrong)
			}
		})
	}
}

// FuzzCheckBlock: whatever passes can be read, and is what it says.
func FuzzCheckBlock(f *testing.F) {
	f.Add([]byte("c"), blockOf("a", "b", "c"))
	f.Add([]byte("c"), []byte("\x01value"))
	f.Add([]byte("c"), blockOf())
	f.Fuzz(func(t *testing.T, name, payload []byte) {
		var entries []entry
		if checkBlock(nil, name, payload, func(e entry) error { entries = append(entries, e); return nil }) != nil {
			return
		}
		rest := entriesOf(name, payload)
		for i, want := range entries {
			e, behind, err := cutEntry(rest)
			if err != nil || !bytes.Equal(e.key, want.key) || !bytes.Equal(e.value, want.value) {
				t.Fatalf("entry %d is %s, %v", i, fmt.Sprint(e), err)
			}
			rest = behind
		}
		if len(rest) > 0 || len(entries) == 0 {
			t.Fatalf("%d entries leave %d bytes", len(entries), len(rest))
		}
	})
}
