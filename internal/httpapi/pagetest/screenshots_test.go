package pagetest

import (
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"example.org/bridge/tests/must"
)

type shot struct {
	URL    string   `json:"url"`
	Width  int      `json:"width"`
	Height int      `json:"height"`
	Scale  int      `json:"scale,omitempty"`
	Dark   bool     `json:"dark"`
	Whole  bool     `json:"whole,omitempty"`
	Hash   string   `json:"hash,omitempty"`
	Press  []string `json:"press,omitempty"`
	Wait   string   `json:"wait,omitempty"`
	To     string   `json:"to"`
	scene  string
}

// TestScreenshots takes pictures for `make screenshots`, which copies those of docs/page: of each
// scene whole, at 1200 and 400 px, light and dark.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("BRIDGE_TEST_SCREENSHOTS")
	if dir == "" {
		t.Skip("part of `make screenshots`")
	}
	shots := []shot{
		{scene: "twenty", To: "desk-1280.png", Width: 1280, Height: 900},
		{scene: "guard", To: "deletes-1280.png", Width: 1280, Height: 900, Press: []string{"Allow deletes …", "Show which entities"}, Wait: "Publish 412 deletes?"},
		{scene: "outage", To: "phone-360.png", Width: 360, Height: 1040, Dark: true},
		{scene: "large", To: "wall-2560.png", Width: 2560, Height: 1440, Dark: true},
	}
	for name, s := range map[string]shot{
		"one": {scene: "one"}, "twenty": {scene: "twenty"}, "stream": {scene: "twenty", Hash: "#stream=customers-009"}, "many": {scene: "many"},
		"wait": {scene: "allWait"}, "large": {scene: "large"}, "guard": {scene: "guard"}, "hostile": {scene: "hostile"},
	} {
		for _, s.Width = range []int{1200, 400} {
			for _, s.Dark = range []bool{false, true} {
				s.Height, s.Whole, s.To = 900, true, fmt.Sprintf("%s-%d-%s.png", name, s.Width, map[bool]string{false: "light", true: "dark"}[s.Dark])
				shots = append(shots, s)
			}
		}
	}
	for i := range shots {
		s := &shots[i]
		s.URL, s.To = serve(t, []string{s.scene})[s.scene], filepath.Join(dir, s.To)
	}
	for _, c := range browse(t, "shoot.js", shots) {
		if c.Wrong != "" {
			t.Errorf("%s: %s", c.Scene, c.Wrong)
		}
	}
	for _, s := range shots {
		file := must.Get(os.Open(s.To))(t)
		picture, err := png.DecodeConfig(file)
		_ = file.Close()
		if err != nil || s.Whole && (picture.Width != s.Width || s.Width == 1200 && picture.Height > 6000) {
			t.Errorf("%s is %d by %d, %v", s.To, picture.Width, picture.Height, err)
		}
	}
}
