package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// origin says what was measured, when and on what.
func (r *Report) origin() string {
	var b strings.Builder
	fmt.Fprintf(&b, "bridge %s, %s UTC, on %d cores (%s, %s, Linux %s), built with %s; ", r.Version, r.Began.UTC().Format("2006-01-02 15:04"),
		r.Machine.Cores, r.Machine.CPU, r.Machine.Memory, r.Machine.Kernel, r.Machine.Go)
	b.WriteString(r.versions())
	fmt.Fprintf(&b, ". The load before the run was %.1f; the run took %.0f minutes. Medians, and in brackets the lowest and the highest round; without brackets it is one measurement.\n",
		r.Load, r.Took/60)
	return b.String()
}

// versions lists the servers and other programs that took part.
func (r *Report) versions() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.Servers)) {
		all = append(all, strings.TrimSpace(name+" "+r.Servers[name]))
	}
	return strings.Join(all, ", ")
}

// Markdown returns the tables of r, with charts for Mermaid under them.
func (r *Report) Markdown() string {
	var b strings.Builder
	b.WriteString(r.origin())
	all := tables{r}
	for _, t := range []table{all.throughput(), all.cost(), all.profile(), all.latency(), all.growth(), all.recovery(), all.delivery(), all.idle(), all.busy()} {
		if len(t.rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n", t.title)
		if t.note != "" {
			b.WriteString(t.note + "\n\n")
		}
		t.write(&b)
		for _, c := range t.charts {
			c.write(&b)
		}
	}
	return b.String()
}

// table is one table; its first words columns are words.
type table struct {
	title, note string
	words       int
	head        []string
	rows        [][]string
	charts      []chart
}

func (t *table) write(b *strings.Builder) {
	b.WriteString("| " + strings.Join(t.head, " | ") + " |\n|")
	for i := range t.head {
		if i < t.words {
			b.WriteString("---|")
		} else {
			b.WriteString("---:|")
		}
	}
	b.WriteString("\n")
	for _, row := range t.rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
}

// add appends a row unless all of its figures are missing.
func (t *table) add(cells ...string) {
	if slices.ContainsFunc(cells[t.words:], func(s string) bool { return s != missing }) {
		t.rows = append(t.rows, cells)
	}
}

const missing = "–"

// median formats the median of a figure.
func (r tables) median(item string, c Case, metric string, digits int) string {
	f, ok := r.Get(item, c, metric)
	if !ok {
		return missing
	}
	return number(f.Median, digits)
}

// spread formats a figure with its lowest and highest value.
func (r tables) spread(item string, c Case, metric string, digits int) string {
	f, ok := r.Get(item, c, metric)
	switch {
	case !ok:
		return missing
	case len(f.Values) == 1:
		return number(f.Median, digits)
	}
	return fmt.Sprintf("%s (%s–%s)", number(f.Median, digits), number(slices.Min(f.Values), digits), number(slices.Max(f.Values), digits))
}

// number formats v with commas between thousands.
func number(v float64, digits int) string {
	text := fmt.Sprintf("%.*f", digits, math.Abs(v))
	whole, fraction, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if v < 0 {
		whole = "-" + whole
	}
	return whole
}
