package mysql

import (
	"testing"

	"bridge/source"
)

func TestUnite(t *testing.T) {
	page := func(rows ...string) *source.Page {
		p := new(source.Page)
		for _, v := range rows {
			p.Append(uint64(v[0]-'0'), 1)
			p.Set(0, []byte(v[1:]))
		}
		return p
	}
	t.Run("a row that two statements found comes once", func(t *testing.T) {
		p := page("2b", "1a", "2b")
		if err := unite(p); err != nil || len(p.Rows) != 2 || p.Bytes != 2 {
			t.Errorf("%d rows of %d bytes, %v", len(p.Rows), p.Bytes, err)
		}
	})
	t.Run("a row whose key was changed between two statements is read again", func(t *testing.T) {
		if err := unite(page("2b", "1a", "2c")); err == nil {
			t.Error("one of its keys would count as absent")
		}
	})
}
