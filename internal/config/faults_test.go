package config

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"example.org/bridge/internal/config/configtest"
)

// changed returns the minimal environment with variables of a recording set otherwise.
func changed(lines []string) settingsOf {
	env := minimal()
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		if plain, err := strconv.Unquote(value); err == nil {
			value = plain
		}
		env[name] = value
	}
	return env
}

// TestFaults has configurations that are wrong or unwise, by what they change of a right one, with
// all that is said of them.
func TestFaults(t *testing.T) {
	configtest.Recorded(t, "testdata/faults.txt", *update, func(t *testing.T, input []string) string {
		cfg, err := Load(changed(input).Environ(), &Redactor{})
		if err != nil {
			return strings.ReplaceAll(strings.TrimPrefix(err.Error(), "the configuration is wrong:\n"), "\n  ", "\n")[2:]
		}
		said := "fine\n"
		for _, w := range cfg.Warnings {
			said += fmt.Sprintf("warning: %s %s\n", w.Variable, w.Text)
		}
		return said
	})
}
