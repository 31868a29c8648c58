package report

import (
	"path/filepath"
	"slices"
	"strings"
)

// The lines of a page between which the figures of large tables stand.
const (
	LargeBegin = "<!-- large: written by make bench-large, do not edit -->"
	LargeEnd   = "<!-- end of large -->"
)

// LargeFile holds the figures of large tables, in a folder beside others.
const LargeFile = "large.json"

const largeNote = "Steady is from the first message seen on the bus to the last. *Against the smallest* is what a row costs beside a row of the smallest table of " +
	"that kind: 1 is flat, 1.15 is 15 % more. What the bare scan loses with the size is the database's. CPU and memory are those of the process of bridge."

const largeAgainNote = "bridge is killed a moment after its last message and started again with its checkpoint; it fails where one is published again. Then the table is " +
	"reconciled, which finds no difference. That of a release stream compares the ids that were not published with those of the table: here there are " +
	"none, so it reads no row, whatever the size."

// LargeMarkdown returns the tables of large tables.
func (r *Report) LargeMarkdown() string {
	var b strings.Builder
	b.WriteString("By `" + r.Command + "`: " + r.origin())
	b.WriteString("\n" + largeNote + "\n")
	for _, t := range []table{tables{r}.largeBacklog(), tables{r}.largeAgain()} {
		b.WriteString("\n### " + t.title + "\n\n")
		if t.note != "" {
			b.WriteString(t.note + "\n\n")
		}
		t.write(&b)
	}
	return b.String()
}

func (r tables) largeBacklog() table {
	t := table{title: "Large tables, the backlog", words: 1, head: []string{
		"stream to Kafka", "rows", "bare scan, rows/s", "bridge, steady, rows/s", "CPU s per 10⁶ rows", "peak RssAnon, MiB",
		"against the smallest: time of the scan", "time of bridge", "CPU of bridge",
	}}
	cases := bySize(r.Cases(Bridge))
	for _, c := range cases {
		base := smallest(cases, c.Kind)
		t.add(c.Kind, number(float64(c.Rows), 0), r.spread(Scan, Case{Rows: c.Rows}, RowsASecond, 0), r.spread(Bridge, c, SteadyRate, 0), r.spread(Bridge, c, CPU, 2),
			r.spread(Bridge, c, RssAnon, 1), quotient(r, Scan, Case{Rows: base.Rows}, Case{Rows: c.Rows}, RowsASecond), quotient(r, Bridge, base, c, SteadyRate),
			quotient(r, Bridge, c, base, CPU))
	}
	return t
}

func (r tables) largeAgain() table {
	t := table{title: "Large tables, restart and reconcile", words: 1, note: largeAgainNote, head: []string{
		"stream to Kafka", "rows", "checkpoint, MiB", "from kill -9 until ready, s", "reconcile, s", "rows/s", "CPU s per 10⁶ rows", "peak RssAnon during it, MiB",
		"against the smallest: time", "CPU",
	}}
	cases := bySize(r.Cases(Reconcile))
	for _, c := range cases {
		base := smallest(cases, c.Kind)
		t.add(c.Kind, number(float64(c.Rows), 0), r.median(Restart, c, MiBOfStore, 1), r.spread(Restart, c, Seconds, 2), r.spread(Reconcile, c, Seconds, 3),
			r.median(Reconcile, c, RowsASecond, 0), r.spread(Reconcile, c, CPU, 3), r.spread(Reconcile, c, RssAnon, 1), quotient(r, Reconcile, base, c, RowsASecond),
			quotient(r, Reconcile, c, base, CPU))
	}
	return t
}

// smallest returns the first of the cases of a kind.
func smallest(cases []Case, kind string) Case {
	return cases[slices.IndexFunc(cases, func(c Case) bool { return c.Kind == kind })]
}

// quotient formats the median of one case divided by that of another one.
func quotient(r tables, item string, over, under Case, metric string) string {
	a, _ := r.Get(item, over, metric)
	b, _ := r.Get(item, under, metric)
	if a.Median == 0 || b.Median == 0 {
		return missing
	}
	return number(a.Median/b.Median, 2)
}

// WriteLarge writes the figures of large tables into folder.
func (r *Report) WriteLarge(folder string) error { return r.writeFile(folder, LargeFile) }

// RecordLarge writes the figures of large tables into docs/performance.md of a tree.
func (r *Report) RecordLarge(top string) error {
	if err := r.WriteLarge(filepath.Join(top, "docs", "performance")); err != nil {
		return err
	}
	return Record(filepath.Join(top, "docs", "performance.md"), LargeBegin, LargeEnd, r.LargeMarkdown())
}
