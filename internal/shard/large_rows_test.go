package shard_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/internal/shard"
	"bridge/reconcile"
	"bridge/source"
)

// Two large rows of one key: the page with the key is cut behind the first one.
func TestTwoLargeRowsOfOneKey(t *testing.T) {
	b := newViewBench(t, false)
	b.opts.Limits = shard.NewLimits(48<<10, 1, 4).Stream() // a page takes 1 KiB
	big := func(c string) string { return strings.Repeat(c, 2000) }
	r1 := b.table.Insert("a", big("x"), "0")
	r2 := b.table.Insert("a", big("y"), "0")
	s, stop := b.run(t)
	eventually(t, "both", func() bool { return b.count(topic) == 2 })
	_ = r2
	// Row 1 nominates the entity, and meanwhile row 2 has changed.
	b.table.Update(r2, "a", big("z"), "0")
	v := nominate(t, s, reconcile.Nomination{Rows: []source.Range{{First: r1, Last: r1}}})
	wait(t, 100*time.Millisecond)
	var last string
	for _, one := range b.said(t) {
		last = one.text[:14]
	}
	t.Logf("verdict %+v, last %q", v, last)
	if !strings.HasSuffix(last, "=z") && !slices.Contains([]string{"Modified a=zzz"}, last) {
		t.Errorf("the bus ends with %q", last)
	}
	stop()
}
