package report

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// palette are colours that are told apart on white and on black, by people who see few of them, too.
var palette = []string{"#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c6d31", "#7f7f7f"}

// canvas is a drawing of SVG that is being made.
type canvas struct{ b strings.Builder }

func newCanvas(title string, width, height float64) *canvas {
	s := new(canvas)
	s.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="sans-serif" font-size="12">`,
		width, height, width, height)
	s.printf(`<title>%s</title>`, escape(title))
	s.rect(0, 0, width, height, "#ffffff")
	s.printf(`<text x="%.0f" y="22" font-size="14" fill="#222222" text-anchor="middle">%s</text>`, width/2, escape(title))
	return s
}

func (s *canvas) printf(format string, args ...any) {
	fmt.Fprintf(&s.b, format+"\n", args...)
}

func (s *canvas) rect(x, y, width, height float64, colour string) {
	s.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, x, y, width, height, colour)
}

// text writes text beside the point; anchor is "start", "middle" or "end".
func (s *canvas) text(x, y float64, text, anchor string) {
	s.printf(`<text x="%.1f" y="%.1f" fill="#222222" text-anchor="%s">%s</text>`, x, y, anchor, escape(text))
}

func (s *canvas) line(from, to point, colour string) {
	s.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`, from.x, from.y, to.x, to.y, colour)
}

// polyline draws a line through points, and a dot at each.
func (s *canvas) polyline(points []point, colour string, dashed bool) {
	var path strings.Builder
	for _, p := range points {
		fmt.Fprintf(&path, "%.1f,%.1f ", p.x, p.y)
	}
	s.printf(`<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>`, strings.TrimSpace(path.String()), colour, dashes(dashed))
	for _, p := range points {
		s.printf(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, p.x, p.y, colour)
	}
}

func (s *canvas) legend(x, y float64, name, colour string, dashed bool) {
	s.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="3"%s/>`, x, y, x+22, y, colour, dashes(dashed))
	s.text(x+28, y+4, name, "start")
}

func (s *canvas) end() string {
	s.printf("</svg>")
	return s.b.String()
}

func dashes(on bool) string {
	if on {
		return ` stroke-dasharray="5 3"`
	}
	return ""
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}

// frame is the part of a canvas that shows values.
type frame struct {
	canvas                   *canvas
	left, top, width, height float64
}

// grid draws the lines of the axes, with values and names; y may be nil.
func (f frame) grid(x, y *axis) {
	const grey = "#dddddd"
	for _, v := range x.ticks() {
		at := f.left + x.part(v)*f.width
		f.canvas.line(point{at, f.top}, point{at, f.top + f.height}, grey)
		f.canvas.text(at, f.top+f.height+16, short(v), "middle")
	}
	f.canvas.text(f.left+f.width/2, f.top+f.height+36, x.name, "middle")
	if y == nil {
		return
	}
	for _, v := range y.ticks() {
		at := f.top + (1-y.part(v))*f.height
		f.canvas.line(point{f.left, at}, point{f.left + f.width, at}, grey)
		f.canvas.text(f.left-6, at+4, short(v), "end")
	}
	f.canvas.text(8, f.top-12, y.name, "start")
}
