package torture

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestThePageTellsTheSectionsOfASoak(t *testing.T) {
	folder := t.TempDir()
	all := soaks{[]soakScore{
		{score: score{Bus: "kafka"}, Rows: 480_000, Duration: 200, Sections: []section{
			{Written: 90, footprint: footprint{RSSAnon: 41}}, {Written: 70, footprint: footprint{RSSAnon: 42.4}},
		}},
		{score: score{Bus: "nats"}, Duration: 100},
	}}
	if err := writeJSON(filepath.Join(folder, soakFile), all); err != nil {
		t.Fatal(err)
	}
	if err := writePage(folder); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(folder, pageFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n- kafka: 2 sections; the writers wrote 80 % of the time, 3000 rows/s; RssAnon in the last minute of each section: 41, 42 MiB.\n",
		"\n- nats: one section, judged at the end.\n",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
}
