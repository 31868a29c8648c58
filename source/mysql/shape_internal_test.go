package mysql

import (
	"strconv"
	"testing"

	"bridge/source"
)

func TestTablesThatAreAlikeShareAShape(t *testing.T) {
	made := func(change func(*shape)) *shape {
		sh := &shape{columns: &source.Columns{List: []source.Column{{Name: "id", NotNull: true}, {Name: "v"}}}, single: make([]bool, 2), index: "PRIMARY"}
		change(sh)
		return sh
	}
	same := func(*shape) {}
	var all shapes
	first := all.share(made(same))
	if all.share(made(same)) != first {
		t.Error("two tables that are alike do not share")
	}
	for what, change := range map[string]func(*shape){
		"filter": func(sh *shape) { sh.filter = "v > 1" },
		"column": func(sh *shape) { sh.columns.List[1].Name = "w" },
		"NULL":   func(sh *shape) { sh.columns.List[1].NotNull = true },
		"index":  func(sh *shape) { sh.index = "other" },
		"whole":  func(sh *shape) { sh.whole = true },
	} {
		if all.share(made(change)) == first {
			t.Errorf("tables with another %s share", what)
		}
	}
	masked := func(sh *shape) { sh.masks = make(source.Masks, 2) }
	if one := all.share(made(masked)); one == all.share(made(masked)) {
		t.Error("tables with masks share")
	}
	for i := range sharedShapes {
		all.share(made(func(sh *shape) { sh.index = strconv.Itoa(i) }))
	}
	if again := all.share(made(same)); again == first || len(all.last) != sharedShapes {
		t.Errorf("%d shapes are kept, want the last %d", len(all.last), sharedShapes)
	}
}
