package config

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"bridge/source"
)

const (
	maskKeyVariable = prefix + "MASK_KEY"
	// shortestMaskKey is how many characters a key has at least: with a short one somebody could
	// try keys out.
	shortestMaskKey = 16
)

// parseMasks parses MASK: column:form.
func parseMasks(l *loader, begin string, items list) map[string]source.Mask {
	variable := begin + "MASK"
	masks := make(map[string]source.Mask)
	for i, item := range items {
		column, form := splitMask(item)
		switch {
		case column == "" || !isColumn(column):
			l.add(variable, "item %d has no name of a column, or no form: write column:redact, column:last4 or column:sha256", i+1)
			continue
		case slices.ContainsFunc(items[:i], func(before string) bool { other, _ := splitMask(before); return strings.EqualFold(other, column) }):
			l.add(variable, "item %d has the column of an earlier item: name each column once", i+1)
		}
		switch form {
		case "redact":
			masks[column] = source.Redact()
		case "last4":
			masks[column] = source.Last4()
		case "sha256":
			masks[column] = source.SHA256(maskKey(l, variable))
		default:
			l.add(variable, "item %d has an unknown form: use redact, last4 or sha256", i+1)
		}
	}
	return masks
}

// splitMask returns the column and the form of an item; the column is empty where there is no form.
func splitMask(item string) (column, form string) {
	at := max(0, strings.LastIndex(item, ":"))
	return strings.TrimSpace(item[:at]), strings.ToLower(strings.TrimSpace(strings.TrimPrefix(item[at:], ":")))
}

// maskKey returns the key of masks, which variable needs.
func maskKey(l *loader, variable string) string {
	key := l.env[maskKeyVariable]
	switch {
	case l.has(maskKeyVariable):
	case key == "":
		l.add(variable, "has the form sha256, which needs %s: set it to a secret of %d characters or more", maskKeyVariable, shortestMaskKey)
	case utf8.RuneCountInString(key) < shortestMaskKey:
		l.add(maskKeyVariable, "has fewer than %d characters: use a longer secret", shortestMaskKey)
	}
	return key
}

// maskText returns a text that is the same for masks that make the same of every value.
func maskText(masks map[string]source.Mask) string {
	var b strings.Builder
	for _, column := range slices.Sorted(maps.Keys(masks)) {
		b.WriteString(column + ":" + masks[column].Name() + ",")
	}
	return b.String()
}

// checkHidden finds columns that cannot be left out or masked.
func checkHidden(l *loader, begin string, s *Stream) {
	if s.Fields != nil && len(s.Exclude) > 0 {
		l.add(begin+"EXCLUDE", "is set, and so is FIELDS, which says which columns are published: unset one of them")
	}
	spec := s.Spec("")
	spec.Fields = nil
	for i, column := range s.Exclude {
		same := func(name string) bool { return strings.EqualFold(name, column) }
		if slices.ContainsFunc(s.Key, same) {
			l.add(begin+"EXCLUDE", "item %d is in KEY, without which an event does not say what it is about: leave it there", i+1)
		}
	}
	for _, column := range slices.Sorted(maps.Keys(s.Masks)) {
		for _, role := range spec.Roles() {
			if strings.EqualFold(role.Column, column) {
				l.add(begin+"MASK", "names the column of %s, which bridge has to read as it is: mask others, or leave it out with EXCLUDE", role.Setting)
			}
		}
	}
}
