package source_test

import (
	"fmt"
	"strings"
	"testing"

	"bridge/source"
)

func TestMasks(t *testing.T) {
	for value, want := range map[string]string{
		"": "****", "1234": "****", "12345678": "****", "123456789": "****6789", "ääääöööö": "****", "äääääöööö": "****öööö",
		"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7": "****\xfa\xf9\xf8\xf7",
	} {
		if got := string(source.Last4().Fresh().Append(nil, []byte(value))); got != want {
			t.Errorf("the last four of %q: %q, want %q", value, got, want)
		}
		if got := string(source.Redact().Fresh().Append([]byte("x"), []byte(value))); got != "x****" {
			t.Errorf("redacted, %q is %q", value, got)
		}
	}
	one, other := source.SHA256("one").Fresh(), source.SHA256("other").Fresh()
	first := string(one.Append(nil, []byte("value")))
	if again := string(one.Append(nil, []byte("value"))); again != first || len(first) != 64 {
		t.Errorf("%q, then %q", first, again)
	}
	if string(one.Append(nil, []byte("values"))) == first || string(other.Append(nil, []byte("value"))) == first {
		t.Error("another value or key makes the same")
	}
}

func TestNothingPrintsTheKeyOfAMask(t *testing.T) {
	masks := map[string]source.Mask{"a": source.SHA256("hunter2-hunter2")}
	spec := source.Spec{Masks: masks}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, v := range []any{masks, spec, &spec, masks["a"], masks["a"].Fresh()} {
			if text := fmt.Sprintf(format, v); strings.Contains(text, "hunter2") {
				t.Errorf("%s prints %s", format, text)
			}
		}
	}
}

// SQL compares the names of columns without regard to case.
func TestColumnsAreHiddenInUpperAndLowerCase(t *testing.T) {
	spec := source.Spec{Exclude: []string{"Note"}, Masks: map[string]source.Mask{"CARD": source.Redact()}}
	if spec.Reads("NOTE") || !spec.Reads("card") {
		t.Error("what is left out is read, or what is not is not")
	}
	columns := []source.Column{{Name: "id", Kind: source.Int}, {Name: "card", Kind: source.DateTime, Precision: 3}}
	masks := spec.Mask(columns)
	if masks[0] != nil || masks[1] == nil || columns[1] != (source.Column{Name: "card", Kind: source.Text, Mask: "redact:****"}) {
		t.Errorf("masks %v of %+v", masks, columns)
	}
}
