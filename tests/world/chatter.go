package world

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// complaint matches a line of the log that says that something is wrong: when, what, and where.
var complaint = regexp.MustCompile(`^time=(\S+) level=(?:WARN|ERROR) msg=("[^"]*"|\S+)(.*)$`)

// whereabouts are the parts of such a line that say where.
var whereabouts = regexp.MustCompile(` (?:dependency|stream|shard)=(?:"[^"]*"|\S+)`)

// repeatedComplaints returns the complaints that a log repeats more often than once a minute. A
// fault that has ended may begin again after 10 s. Each start of the program begins again: a
// process cannot know what the one before it has said.
func repeatedComplaints(log string) (found []string) {
	last := make(map[string]time.Time)
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, StartLine) {
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
		if strings.HasPrefix(parts[2], `"outage `) {
			what = parts[2] + strings.Join(whereabouts.FindAllString(parts[3], -1), "")
		}
		if strings.HasPrefix(parts[2], `"outage begins`) || strings.HasPrefix(parts[2], `"outage is back`) {
			pause = 9 * time.Second
		}
		if before, ok := last[what]; ok && at.Sub(before).Abs() < pause {
			found = append(found, fmt.Sprintf("the log repeats %s after %s: %s", what, at.Sub(before), parts[0]))
		}
		last[what] = at
	}
	return found
}
