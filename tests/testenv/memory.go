package testenv

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// RSSAnon returns the anonymous memory of a process in bytes, as Linux tells it.
func RSSAnon(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			var kb int64
			_, err := fmt.Sscanf(rest, "%d kB", &kb)
			return kb << 10, err
		}
	}
	return 0, errors.New("no RssAnon")
}
