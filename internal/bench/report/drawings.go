package report

import (
	"fmt"
	"slices"
	"strings"
)

// drawing is one file of SVG, shown under the table with the title under.
type drawing struct{ file, title, under, svg string }

// drawings returns what can be drawn of r.
func (r *Report) drawings() []drawing {
	var all []drawing
	add := func(file, title, under, svg string) {
		if svg != "" {
			all = append(all, drawing{file, title, under, svg})
		}
	}
	add("throughput.svg", "Seconds for the whole backlog, and for its parts", "Throughput", r.drawThroughput())
	add("profile.svg", "CPU of bridge by the parts of its work", "Where the time goes", r.drawProfile())
	for _, window := range r.windows() {
		title := "Latency with a stability window of " + window + " and a poll interval of " + r.usualPoll()
		add("latency-"+window+".svg", title, "Latency", r.drawLatency(title, window))
	}
	add("growth.svg", "Rows a second by the size of the table", "Growth", r.drawGrowth())
	add("idle.svg", "CPU by the number of quiet shards", "Idle cost", r.drawIdle())
	return all
}

func (r *Report) drawThroughput() string {
	c := bars{title: fmt.Sprintf("%s rows", number(float64(r.Rows), 0)), unit: "s", parts: []string{"scan", "publish: library", "publish: our sink", "bridge"}}
	for _, main := range r.mains() {
		lib, own := main, main
		lib.Client, own.Client = Library, OurSink
		scan, _ := r.Get(Scan, Case{Rows: main.Rows}, Seconds)
		library, _ := r.Get(Publish, lib, Seconds)
		sink, _ := r.Get(Publish, own, Seconds)
		whole, ok := r.Get(Bridge, main, Seconds)
		if !ok {
			continue
		}
		name := main.Kind + ", " + main.Bus
		c.bars = append(c.bars, bar{"library", name, []float64{scan.Median, library.Median, 0, 0}},
			bar{"our sink", name, []float64{scan.Median, 0, sink.Median, 0}}, bar{"bridge", name, []float64{0, 0, 0, whole.Median}})
	}
	return c.draw()
}

func (r *Report) drawProfile() string {
	c := bars{title: "CPU of bridge by the parts of its work", unit: "s per million rows", parts: Parts}
	for _, main := range r.mains() {
		values := make([]float64, len(Parts))
		for i, part := range Parts {
			main.Part = part
			f, _ := r.Get(Profile, main, CPU)
			values[i] = f.Median
		}
		if slices.Max(values) > 0 {
			c.bars = append(c.bars, bar{main.Bus, main.Kind, values})
		}
	}
	return c.draw()
}

// windows returns the windows of which the latency was measured.
func (r *Report) windows() []string {
	var windows []string
	for _, c := range r.Cases(Latency) {
		if !slices.Contains(windows, c.Window) {
			windows = append(windows, c.Window)
		}
	}
	return windows
}

// usualPoll is the poll interval with which the latency was measured at all rates: that of the first case.
func (r *Report) usualPoll() string {
	if cases := r.Cases(Latency); len(cases) > 0 {
		return cases[0].Poll
	}
	return ""
}

func (r *Report) drawLatency(title, window string) string {
	c := chart{title: title, x: axis{name: "rows a second", log: true}, y: axis{name: "ms", log: true}}
	poll := r.usualPoll()
	for _, one := range r.Cases(Latency) {
		if one.Window != window || one.Poll != poll {
			continue
		}
		for _, metric := range []string{P50, P99} {
			f, ok := r.Get(Latency, one, metric)
			if !ok {
				continue
			}
			name := strings.Join([]string{one.Kind, one.Bus, metric}, " ")
			c.add(name, metric == P50, point{float64(one.Rate), f.Median})
		}
	}
	return c.draw()
}

func (r *Report) drawGrowth() string {
	c := chart{title: "Rows a second by the size of the table, bridge from its first message on", x: axis{name: "rows", log: true}, y: axis{name: "rows a second", log: true}}
	for _, drawn := range []struct{ item, metric string }{{Bridge, SteadyRate}, {Reconcile, RowsASecond}, {Scan, RowsASecond}} {
		for _, one := range r.Cases(drawn.item) {
			if f, ok := r.Get(drawn.item, one, drawn.metric); ok {
				name := strings.TrimSpace(strings.Join([]string{drawn.item, one.Kind, one.Bus}, " "))
				c.add(name, drawn.item != Bridge, point{float64(one.Rows), f.Median})
			}
		}
	}
	if !c.widens() {
		return ""
	}
	return c.draw()
}

func (r *Report) drawIdle() string {
	c := chart{title: "CPU by the number of quiet shards", x: axis{name: "shards", log: true}, y: axis{name: "% of a core"}}
	for _, one := range r.Cases(Idle) {
		if f, ok := r.Get(Idle, one, CPUShare); ok {
			c.add("CPU", false, point{float64(one.Shards), f.Median})
		}
	}
	return c.draw()
}
