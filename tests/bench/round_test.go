package bench

import (
	"syscall"

	"bridge/event"
	"bridge/tests/bench/report"
)

// times are what the parts of one round took, in seconds, 0 for what was not measured. Publish is
// that of the faster publisher.
type times struct{ scan, publish, whole, reconcile float64 }

// compare measures the parts of one round. Each round begins with another one, so that none of them
// always has the cache as the same one left it.
func (b *bench) compare(l load, parts items, round int) {
	b.t.Helper()
	var took times
	steps := b.steps(l, parts, &took)
	for i := range steps {
		// What a part has left to be written is none of the next one's cost.
		syscall.Sync()
		steps[(i+round)%len(steps)]()
	}
	if took.scan > 0 && took.publish > 0 && took.whole > 0 {
		ratio := (took.scan + took.publish) / took.whole
		b.report.Add(report.Ratio, l.is(), report.Times, ratio)
		b.screen.say("(S + P) / T = (%.2f + %.2f) / %.2f = %.2f", took.scan, took.publish, took.whole, ratio)
	}
	if all := b.report.Last(report.Bridge, l.is(), report.Allocs); took.scan > 0 && took.whole > 0 && all > 0 {
		driver := b.report.Last(report.Scan, report.Case{Rows: l.rows}, report.Allocs)
		b.report.Add(report.Bridge, l.is(), report.AllocsOnward, all-driver)
	}
	if took.reconcile > 0 && took.scan > 0 {
		b.report.Add(report.Reconcile, l.is(), report.OfTheScan, took.scan/took.reconcile)
	}
}

// steps are the parts of one round; what they take goes to took.
func (b *bench) steps(l load, parts items, took *times) []func() {
	var steps []func()
	if parts[report.Scan] {
		steps = append(steps, func() { took.scan = b.scan(l.table, l.rows) })
	}
	if parts[report.Publish] {
		for _, by := range publishers(l.bus) {
			steps = append(steps, func() {
				if seconds := b.publish(l, by); took.publish == 0 || seconds < took.publish {
					took.publish = seconds
				}
			})
		}
	}
	if parts[report.Bridge] || parts[report.Recovery] || parts.reconcile(l.kind) {
		steps = append(steps, func() { took.whole, took.reconcile = b.bridge(l, parts) })
	}
	if parts[report.Delivery] {
		for _, delivery := range deliveries {
			steps = append(steps, func() { b.deliver(l, delivery) })
		}
	}
	return steps
}

// reconcile reports whether a stream of a kind is reconciled. Of a release stream that reads no
// rows but those of gaps, and is measured beside restarts only.
func (i items) reconcile(kind event.Kind) bool {
	return i[report.Reconcile] && (kind == event.Capability || i[report.Restart])
}
