package world

import (
	"fmt"
	"strings"
	"testing"
)

func TestChatterIsJudgedByProcess(t *testing.T) {
	begins := `time=2026-01-02T03:04:%02dZ level=WARN msg="outage begins, retrying until it ends" dependency=nats error=EOF` + "\n"
	lasts := `time=2026-01-02T03:04:%02dZ level=WARN msg="outage lasts" dependency=nats error=EOF for=%ds` + "\n"
	for name, c := range map[string]struct {
		log  string
		want int
	}{
		"one process that says it twice":       {StartLine + "\n" + fmt.Sprintf(begins, 5) + fmt.Sprintf(begins, 10), 1},
		"two processes that say it once":       {fmt.Sprintf(begins, 5) + StartLine + "\n" + fmt.Sprintf(begins, 10), 0},
		"outages of two dependencies":          {fmt.Sprintf(begins, 5) + strings.Replace(fmt.Sprintf(begins, 6), "=nats", "=source", 1), 0},
		"an outage that lasts, twice a minute": {fmt.Sprintf(lasts, 5, 60) + fmt.Sprintf(lasts, 35, 90), 1},
		"a fault that begins again in 10 s":    {fmt.Sprintf(begins, 5) + fmt.Sprintf(begins, 15), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if found := repeatedComplaints(c.log); len(found) != c.want {
				t.Errorf("%d complaints, want %d: %s", len(found), c.want, found)
			}
		})
	}
}
