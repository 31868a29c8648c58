package mysql

import (
	"fmt"
	"strings"

	"bridge/internal/inspect"
	"bridge/internal/option"
	"bridge/source"
)

// order returns how ids are taken to be handed out, and adds what contradicts that.
func (t *tableInspection) order() (source.IDOrder, string) {
	traits := order(t.server.variables, t.facts.create)
	taken, why := t.expected.Order, "by ID_ORDER"
	if taken == "" {
		taken, why = traits.Order, traits.OrderWhy
		t.checkIssuer()
	}
	switch {
	case taken == source.OrderNone && t.expected.Order == "":
		t.Add(inspect.Warning, inspect.IDOrder, t.spec.Table, "has ids without an order: "+traits.OrderWhy).
			Says("nothing is tailed; every change waits for the next reconcile")
	case traits.Order == source.OrderSegmented && (taken == source.OrderStrict || taken == source.OrderStrided):
		t.Add(inspect.Warning, inspect.IDOrder, t.spec.Table, fmt.Sprintf("gets its ids in blocks (%s), but ID_ORDER is %s", traits.OrderWhy, taken)).
			Says("set %s=segmented, or auto", option.IDOrder)
	}
	if taken == source.OrderSegmented && t.expected.Hold {
		t.Add(inspect.Unsafe, inspect.IDOrder, t.spec.Table, "gets its ids in blocks, but GAP_POLICY is hold, which would wait for hours at a gap").
			Says("set GAP_POLICY=late for this stream")
	}
	return taken, why
}

// checkIssuer warns of ids that the database does not hand out: who does, and in which order, does
// not show.
func (t *tableInspection) checkIssuer() {
	if _, ok := t.facts.column(t.spec.ID); ok && !strings.EqualFold(t.facts.autoIncrement, t.spec.ID) {
		t.Add(inspect.Warning, inspect.IDIssuer, t.spec.Table, fmt.Sprintf("does not number its rows itself (%s is not AUTO_INCREMENT), so it does not show in which order ids come", t.spec.ID)).
			Says("say so with %s: segmented where writers hold blocks of ids, none where ids have no order, strict where one counter hands them out", option.IDOrder)
	}
}
