package report

import "slices"

// bars is a drawing of bars, each a pile of parts.
type bars struct {
	title, unit string
	// parts name the parts of every bar, in the order of their values.
	parts []string
	bars  []bar
}

// bar is one pile; those with the same group stand together.
type bar struct {
	name, group string
	values      []float64
}

func (b *bar) sum() float64 {
	sum := 0.0
	for _, v := range b.values {
		sum += v
	}
	return sum
}

// draw returns the bars as SVG, "" when there are none.
func (c *bars) draw() string {
	if len(c.bars) == 0 {
		return ""
	}
	const row, gap, left, width = 20, 12, 190, 400
	sums := make([]float64, 0, len(c.bars))
	groups := 0
	for i := range c.bars {
		sums = append(sums, c.bars[i].sum())
		if i == 0 || c.bars[i].group != c.bars[i-1].group {
			groups++
		}
	}
	x := axis{name: c.unit}
	x.bound(sums)
	height := float64(len(c.bars)*row + groups*gap)
	s := newCanvas(c.title, 760, height+100)
	f := frame{s, left, 40, width, height}
	f.grid(&x, nil)
	y := f.top
	for i := range c.bars {
		one := &c.bars[i]
		if i == 0 || one.group != c.bars[i-1].group {
			y += gap
			s.text(8, y+row*0.7, one.group, "start")
		}
		s.text(left-6, y+row*0.7, one.name, "end")
		at := f.left
		for part, v := range one.values {
			s.rect(at, y+2, x.part(v)*width, row-4, palette[part%len(palette)])
			at += x.part(v) * width
		}
		s.text(at+5, y+row*0.7, number(one.sum(), 2), "start")
		y += row
	}
	for i, name := range c.parts {
		if slices.ContainsFunc(c.bars, func(b bar) bool { return b.values[i] > 0 }) {
			s.legend(620, 56+float64(i)*18, name, palette[i%len(palette)], false)
		}
	}
	return s.end()
}
