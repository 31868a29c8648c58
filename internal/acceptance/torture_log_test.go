package acceptance

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// complaint matches a line of the log that says that something is wrong: when, what, and where.
var complaint = regexp.MustCompile(`^time=(\S+) level=(?:WARN|ERROR) msg=("[^"]*"|\S+)(.*)$`)

// whereabouts are the parts of such a line that say where.
var whereabouts = regexp.MustCompile(` (?:place|stream|shard)=(?:"[^"]*"|\S+)`)

// chatter returns the complaints that a log repeats more often than once a minute, beyond the first and one for a fault that is the
// same again. Each start of the program begins anew.
func chatter(log string) (found []string) {
	type talk struct {
		first time.Time
		lines int
		told  bool
	}
	talks := make(map[string]*talk)
	for line := range strings.Lines(log) {
		if strings.Contains(line, ` msg="bridge runs"`) {
			clear(talks)
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
		what := parts[2] + strings.Join(whereabouts.FindAllString(parts[3], -1), "")
		t := talks[what]
		if t == nil {
			t = &talk{first: at}
			talks[what] = t
		}
		if t.lines++; !t.told && t.lines > 2+int(at.Sub(t.first).Minutes()) {
			t.told = true
			found = append(found, fmt.Sprintf("the log repeats %s: %s", what, parts[0]))
		}
	}
	return found
}
