package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// chart is a drawing of lines.
type chart struct {
	title string
	x, y  axis
	lines []line
}

type axis struct {
	name string
	// log has equal factors at equal distances.
	log bool

	// step is what lies between two marks where it is not logarithmic.
	low, high, step float64
}

type line struct {
	name   string
	dashed bool
	points []point
}

type point struct{ x, y float64 }

// add appends a point to the line of this name.
func (c *chart) add(name string, dashed bool, p point) {
	i := slices.IndexFunc(c.lines, func(l line) bool { return l.name == name })
	if i < 0 {
		i = len(c.lines)
		c.lines = append(c.lines, line{name: name, dashed: dashed})
	}
	l := &c.lines[i]
	l.points = append(l.points, p)
	slices.SortFunc(l.points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
}

// widens reports whether there is more than one place on the axis x.
func (c *chart) widens() bool {
	for _, l := range c.lines {
		for _, p := range l.points {
			if p.x != c.lines[0].points[0].x {
				return true
			}
		}
	}
	return false
}

// bound fits the axis to values: whole powers of ten where it is logarithmic, otherwise from 0 in five steps at most.
func (a *axis) bound(values []float64) {
	if a.log {
		low, high := math.Inf(1), math.Inf(-1)
		for _, v := range values {
			// A logarithm begins somewhere.
			v = max(v, 0.1)
			low, high = min(low, v), max(high, v)
		}
		a.low, a.high = math.Pow(10, math.Floor(math.Log10(low)+1e-9)), math.Pow(10, math.Ceil(math.Log10(high)-1e-9))
		if a.low == a.high {
			a.high *= 10
		}
		return
	}
	highest := slices.Max(values)
	a.step = step(highest)
	a.low, a.high = 0, max(1, math.Ceil(highest/a.step-1e-9))*a.step
}

// step returns the smallest of 1, 2, 5, 10, … that makes five steps reach v.
func step(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v/5)))
	for _, factor := range []float64{1, 2, 5} {
		if unit*factor*5 >= v*(1-1e-9) {
			return unit * factor
		}
	}
	return unit * 10
}

// part returns where v is on the axis, from 0 to 1.
func (a *axis) part(v float64) float64 {
	if a.log {
		return (math.Log10(max(v, a.low)) - math.Log10(a.low)) / (math.Log10(a.high) - math.Log10(a.low))
	}
	return (v - a.low) / (a.high - a.low)
}

// ticks returns the values that are marked.
func (a *axis) ticks() []float64 {
	var all []float64
	if a.log {
		for v := a.low; v <= a.high*1.001; v *= 10 {
			all = append(all, v)
		}
		return all
	}
	for v := a.low; v <= a.high*1.001; v += a.step {
		all = append(all, v)
	}
	return all
}

// short formats the value of a tick.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 4, 64) + "M"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// draw returns the chart as SVG, "" when it has no line.
func (c *chart) draw() string {
	if len(c.lines) == 0 {
		return ""
	}
	var xs, ys []float64
	for _, l := range c.lines {
		for _, p := range l.points {
			xs, ys = append(xs, p.x), append(ys, p.y)
		}
	}
	c.x.bound(xs)
	c.y.bound(ys)
	s := newCanvas(c.title, 760, 380)
	f := frame{s, 70, 40, 430, 280}
	f.grid(&c.x, &c.y)
	for i, l := range c.lines {
		colour := palette[i%len(palette)]
		if pair := pairOf(c.lines, i); pair >= 0 {
			colour = palette[pair%len(palette)]
		}
		var at []point
		for _, p := range l.points {
			at = append(at, point{f.left + c.x.part(p.x)*f.width, f.top + (1-c.y.part(p.y))*f.height})
		}
		s.polyline(at, colour, l.dashed)
		s.legend(520, 48+float64(i)*18, l.name, colour, l.dashed)
	}
	return s.end()
}

// pairOf returns the first line with the colour of line i: a dashed line and a solid one beside it share theirs.
func pairOf(lines []line, i int) int {
	if i%2 == 1 && lines[i].dashed != lines[i-1].dashed {
		return i - 1
	}
	return i
}
