package event

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// memberName returns the member of a column without a name of its own: the words of the column's
// name in lower camel case ("app_name" makes appName, "DataChange_CreatedTime"
// dataChangeCreatedTime, "URL_path" urlPath). A name without a letter or digit stays as it is.
func memberName(column string) string {
	list := words(column)
	if len(list) == 0 {
		return column
	}
	return strings.ToLower(list[0]) + camel(list[1:])
}

// typeStem returns the stem of a stream that sets none: the words of its name in upper camel case.
func typeStem(stream string) string { return camel(words(stream)) }

func camel(words []string) string {
	var b strings.Builder
	for _, word := range words {
		first, size := utf8.DecodeRuneInString(word)
		b.WriteRune(unicode.ToUpper(first))
		b.WriteString(strings.ToLower(word[size:]))
	}
	return b.String()
}

// words splits a name at everything but letters and digits with their accents, and where the case
// of letters says that a word begins. Digits belong to the word before them.
func words(name string) []string {
	var list []string
	runes := []rune(name)
	start := -1
	flush := func(end int) {
		if start >= 0 {
			list = append(list, string(runes[start:end]))
		}
	}
	for i, r := range runes {
		switch {
		case !unicode.In(r, unicode.Letter, unicode.Mark, unicode.Number):
			flush(i)
			start = -1
		case start < 0 || beginsWord(runes, i):
			flush(i)
			start = i
		}
	}
	flush(len(runes))
	return list
}

// beginsWord reports whether the upper-case letter at i, which is not the first of the name, begins
// a word: after anything but an upper-case letter ("appId", "v2Id"), or as the last upper-case one
// before a lower-case one ("URLPath").
func beginsWord(runes []rune, i int) bool {
	if !unicode.IsUpper(runes[i]) {
		return false
	}
	return !unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])
}

// isIdentifier reports whether name may be an event type: an ASCII letter, then letters, digits and
// underscores.
func isIdentifier(name string) bool {
	for i, r := range name {
		alphabetic := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !alphabetic && (i == 0 || r != '_' && (r < '0' || r > '9')) {
			return false
		}
	}
	return name != ""
}

// hasEiffelPrefix reports whether name begins with "Eiffel" in any letter case.
func hasEiffelPrefix(name string) bool {
	const prefix = "eiffel"
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}
