package report

import (
	"fmt"
	"math"
	"strings"
)

// Tolerance is by how many percent a ratio of another run may differ before Compare says so.
const Tolerance = 25

// ratios are the figures that two machines, or two runs, have in common: times against times of the
// same run.
var ratios = []struct{ item, metric string }{{Ratio, Times}, {Reconcile, OfTheScan}}

// Compare returns a table in Markdown of how far the ratios of run are from those of documented,
// and says which are beyond Tolerance. Cases that only one of them has are left out.
func Compare(documented, run *Report) string {
	t := table{words: 4, head: []string{"stream", "bus", "rows", "ratio", "documented", "this run", "deviation, %", "beyond " + fmt.Sprint(Tolerance) + " %"}}
	beyond := 0
	for _, ratio := range ratios {
		for _, c := range run.Cases(ratio.item) {
			was, ok := documented.Get(ratio.item, c, ratio.metric)
			is, measured := run.Get(ratio.item, c, ratio.metric)
			if !ok || !measured || was.Median == 0 {
				continue
			}
			deviation, verdict := (is.Median/was.Median-1)*100, "no"
			if math.Abs(deviation) > Tolerance {
				verdict = "yes"
				beyond++
			}
			t.add(c.Kind, c.Bus, number(float64(c.Rows), 0), ratio.item+": "+ratio.metric, number(was.Median, 2), number(is.Median, 2), signed(deviation), verdict)
		}
	}
	if len(t.rows) == 0 {
		return fmt.Sprintf("Nothing to compare: the documented run of %s has none of the ratios of this one. Let both have scan, publish and bridge with as many rows.\n",
			documented.Version)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Against the documented run of %s (%s): %d of %d ratios are beyond %d %%.\n\n", documented.Version,
		documented.Began.UTC().Format("2006-01-02 15:04"), beyond, len(t.rows), Tolerance)
	t.write(&b)
	return b.String()
}

func signed(v float64) string {
	if v > 0 {
		return "+" + number(v, 0)
	}
	return number(v, 0)
}
