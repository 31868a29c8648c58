package report

import (
	"fmt"
	"slices"
	"strings"
)

// chart is a bar chart, written for Mermaid, which draws it where the Markdown is shown.
type chart struct {
	title, unit string
	labels      []string
	values      []string
	highest     float64
}

// add appends a bar with the median of f.
func (c *chart) add(label string, median float64) {
	c.labels = append(c.labels, fmt.Sprintf("%q", strings.TrimSpace(label)))
	c.values = append(c.values, plainNumber(median))
	c.highest = max(c.highest, median)
}

// plainNumber formats a number without an exponent, which Mermaid does not read.
func plainNumber(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// write appends the chart to b unless it has nothing to compare.
func (c *chart) write(b *strings.Builder) {
	if len(c.labels) < 2 {
		return
	}
	fmt.Fprintf(b, "\n```mermaid\n%%%%{init: {\"xyChart\": {\"showDataLabel\": true}}}%%%%\nxychart-beta horizontal\n"+
		"    title %q\n    x-axis [%s]\n    y-axis %q 0 --> %s\n    bar [%s]\n```\n",
		c.title, strings.Join(c.labels, ", "), c.unit, plainNumber(max(c.highest, 0.01)), strings.Join(c.values, ", "))
}

// throughputChart compares bridge with its parts.
func (r tables) throughputChart() chart {
	c := chart{title: number(float64(r.Rows), 0) + " rows: scan and library one after the other, and bridge", unit: "seconds"}
	for _, main := range r.mains() {
		lib := main
		lib.Client = Library
		scan, _ := r.Get(Scan, Case{Rows: main.Rows}, Seconds)
		library, _ := r.Get(Publish, lib, Seconds)
		if whole, ok := r.Get(Bridge, main, Seconds); ok {
			name := main.Kind + ", " + main.Bus
			c.add(name+": parts", scan.Median+library.Median)
			c.add(name+": bridge", whole.Median)
		}
	}
	return c
}

// profileCharts show where the CPU goes, a chart for each case.
func (r tables) profileCharts() (charts []chart) {
	for _, main := range r.mains() {
		c := chart{title: main.Kind + " to " + main.Bus, unit: "CPU-seconds per million rows"}
		for _, part := range Parts {
			main.Part = part
			if f, ok := r.Get(Profile, main, CPU); ok {
				c.add(part, f.Median)
			}
		}
		charts = append(charts, c)
	}
	return charts
}

// latencyCharts show the 99th percentile at the usual poll interval, a chart for each window.
func (r tables) latencyCharts() (charts []chart) {
	cases := r.Cases(Latency)
	for _, one := range cases {
		if one.Poll != cases[0].Poll {
			continue
		}
		title := "p99, window " + one.Window + ", poll interval " + one.Poll
		i := slices.IndexFunc(charts, func(c chart) bool { return c.title == title })
		if i < 0 {
			i = len(charts)
			charts = append(charts, chart{title: title, unit: "ms"})
		}
		if f, ok := r.Get(Latency, one, P99); ok {
			charts[i].add(fmt.Sprintf("%s, %s, %s rows/s", one.Kind, one.Bus, number(float64(one.Rate), 0)), f.Median)
		}
	}
	return charts
}

// growthChart compares sizes of tables.
func (r tables) growthChart(cases []Case) chart {
	c := chart{title: "bridge by the size of the table, steady", unit: "rows a second"}
	for _, one := range cases {
		if f, ok := r.Get(Bridge, one, SteadyRate); ok {
			c.add(fmt.Sprintf("%s, %s, %s rows", one.Kind, one.Bus, number(float64(one.Rows), 0)), f.Median)
		}
	}
	return c
}

// idleChart compares numbers of quiet shards.
func (r tables) idleChart() chart {
	c := chart{title: "quiet shards", unit: "% of a core"}
	for _, one := range r.Cases(Idle) {
		if f, ok := r.Get(Idle, one, CPUShare); ok {
			c.add(number(float64(one.Shards), 0)+" shards", f.Median)
		}
	}
	return c
}
