package config

import (
	"strings"
	"unicode/utf8"

	"bridge/event"
)

// parseDeletion parses DELETED: column, column=value|value or column!=value|value.
func parseDeletion(l *loader, variable, text string) (column string, d event.Deletion) {
	column, values, named := strings.Cut(text, "=")
	if !named {
		return text, d
	}
	column, d.Except = strings.CutSuffix(column, "!")
	column = strings.TrimSpace(column)
	for i, value := range strings.Split(values, "|") {
		value = strings.TrimSpace(value)
		if value == "" || !utf8.ValidString(value) {
			l.add(variable, "value %d is empty or not valid UTF-8: write column=value, or column=value|value", i+1)
		}
		d.Values = append(d.Values, value)
	}
	if column == "" {
		l.add(variable, "names values and no column: write column=value")
	}
	return column, d
}

// deletionText returns DELETED of a stream.
func deletionText(s *Stream) string {
	sign := "="
	switch {
	case len(s.Deletion.Values) == 0:
		return s.Deleted
	case s.Deletion.Except:
		sign = "!="
	}
	return s.Deleted + sign + strings.Join(s.Deletion.Values, "|")
}
