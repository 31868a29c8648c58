package pagetest

import (
	"os"
	"path/filepath"
	"testing"
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
	for _, c := range browse(t, "shoot.js", shots) {
		if c.Wrong != "" {
			t.Errorf("%s: %s", c.Scene, c.Wrong)
		}
	}
}
