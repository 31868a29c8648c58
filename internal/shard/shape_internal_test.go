package shard

import (
	"testing"

	"bridge/source"
)

// TestTheShapeOfRows: rows that were published last are compared by their content where the shape
// is the same. The numbers are in stores: another one for the same columns has nothing compared.
func TestTheShapeOfRows(t *testing.T) {
	columns := func(v source.Column) *source.Columns {
		return &source.Columns{List: []source.Column{{Name: "id", Kind: source.Int}, v}, Key: []int{0}, Created: -1, Modified: -1, Deleted: -1}
	}
	plain := source.Column{Name: "v", Kind: source.Text}
	const want = 7029549790088331041
	if got := formerShape(columns(plain)); got != want {
		t.Errorf("the shape is %d", got)
	}
	notNull := plain
	notNull.NotNull = true
	if formerShape(columns(notNull)) != formerShape(columns(plain)) {
		t.Error("whether NULL is allowed changes no content")
	}
	seen := make(map[uint64]string)
	for name, mask := range map[string]source.Mask{"redact": source.Redact(), "last4": source.Last4(), "one key": source.SHA256("one"), "another key": source.SHA256("another")} {
		c := columns(plain)
		(&source.Spec{Masks: map[string]source.Mask{"v": mask}}).Mask(c.List)
		shape := formerShape(c)
		if other, twice := seen[shape]; twice || shape == formerShape(columns(plain)) {
			t.Errorf("%s has the shape of %q or of no mask", name, other)
		}
		seen[shape] = name
	}
}
