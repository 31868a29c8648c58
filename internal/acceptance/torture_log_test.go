package acceptance

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// complaint matches a line of the log that says that something is wrong: when, what, and where.
var complaint = regexp.MustCompile(`^time=(\S+) level=(?:WARN|ERROR) msg=("[^"]*"|\S+)(.*)$`)

// whereabouts are the parts of such a line that say where.
var whereabouts = regexp.MustCompile(` (?:place|stream|shard)=(?:"[^"]*"|\S+)`)

// chatter returns the complaints that a log repeats more often than once a minute. A fault that has ended may begin again after 10 s.
// Each start of the program begins anew: a process cannot know what the one before it has said.
func chatter(log string) (found []string) {
	last := make(map[string]time.Time)
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, startMark) {
			clear(last)
		}
		parts := complaint.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		// A row that is put aside has a line of its own.
		if parts == nil || strings.Contains(parts[2], "dead letter") {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, parts[1])
		if err != nil {
			continue
		}
		what, pause := parts[2]+parts[3], 59*time.Second
		if strings.HasPrefix(parts[2], `"fault `) {
			what = parts[2] + strings.Join(whereabouts.FindAllString(parts[3], -1), "")
		}
		if strings.HasPrefix(parts[2], `"fault begins`) {
			pause = 9 * time.Second
		}
		if before, ok := last[what]; ok && at.Sub(before).Abs() < pause {
			found = append(found, fmt.Sprintf("the log repeats %s after %s: %s", what, at.Sub(before), parts[0]))
		}
		last[what] = at
	}
	return found
}

func TestChatterIsJudgedByProcess(t *testing.T) {
	begins := `time=2026-01-02T03:04:%02dZ level=WARN msg="fault begins, trying again until it ends" place=nats error=EOF` + "\n"
	for name, c := range map[string]struct {
		log  string
		want int
	}{
		"one process that says it twice":    {startMark + "\n" + fmt.Sprintf(begins, 5) + fmt.Sprintf(begins, 10), 1},
		"two processes that say it once":    {fmt.Sprintf(begins, 5) + startMark + "\n" + fmt.Sprintf(begins, 10), 0},
		"a fault that begins again in 10 s": {fmt.Sprintf(begins, 5) + fmt.Sprintf(begins, 15), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if found := chatter(c.log); len(found) != c.want {
				t.Errorf("%d complaints, want %d: %s", len(found), c.want, found)
			}
		})
	}
}
