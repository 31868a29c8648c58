package pagetest

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"example.org/bridge/tests/testenv"
)

// shot is a picture of a scene.
type shot struct {
	URL    string   `json:"url"`
	Width  int      `json:"width"`
	Height int      `json:"height"`
	Scale  int      `json:"scale,omitempty"`
	Dark   bool     `json:"dark"`
	Press  []string `json:"press,omitempty"`
	Wait   string   `json:"wait,omitempty"`
	To     string   `json:"to"`
	scene  string
}

// TestScreenshots takes the pictures of docs/page, for `make screenshots`.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("BRIDGE_TEST_SCREENSHOTS")
	if dir == "" {
		t.Skip("part of `make screenshots`")
	}
	shots := []shot{
		{scene: "healthy", To: "desk-1280.png", Width: 1280, Height: 900},
		{scene: "guard", To: "deletes-1280.png", Width: 1280, Height: 900, Press: []string{"Allow deletes …", "Show which entities"}, Wait: "Publish 412 deletes?"},
		{scene: "outage", To: "phone-360.png", Width: 360, Height: 1040, Dark: true},
		{scene: "large", To: "wall-2560.png", Width: 2560, Height: 1440, Dark: true},
	}
	for i := range shots {
		s := &shots[i]
		s.URL, s.To = serve(t, []string{s.scene})[s.scene], filepath.Join(dir, s.To)
	}
	for _, c := range testenv.Browse(t, "internal/httpapi/pagetest/shoot.js", shots) {
		if c.Wrong != "" {
			t.Errorf("%s: %s", c.Scene, c.Wrong)
		}
		if err := shrink(c.Scene); err != nil {
			t.Error(err)
		}
	}
}

// shrink writes a picture again with its 256 most frequent colors.
func shrink(name string) error {
	before, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	picture, err := png.Decode(bytes.NewReader(before))
	if err != nil {
		return err
	}
	area := picture.Bounds()
	counts := make(map[color.RGBA]int)
	for y := range area.Dy() {
		for x := range area.Dx() {
			counts[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	few := image.NewPaletted(area, nil)
	for _, c := range colors[:min(len(colors), 256)] {
		few.Palette = append(few.Palette, c)
	}
	draw.Draw(few, area, picture, area.Min, draw.Src)
	var after bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&after, few); err != nil {
		return err
	}
	return os.WriteFile(name, after.Bytes(), 0o644)
}
