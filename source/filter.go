package source

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"bridge/internal/option"
)

// maxFilter bounds a condition, in bytes.
const maxFilter = 8 << 10

// CheckFilter returns why a condition cannot be Spec.Filter, nil if it can: in parentheses it must
// be one expression, whatever the statement around it. It refuses more than a database would:
// comments, parameters, variables, backslashes and subqueries. Whether the expression means
// anything the database tells.
func CheckFilter(condition string) error {
	switch {
	case len(condition) > maxFilter:
		return fmt.Errorf("is longer than %d bytes", maxFilter)
	case !utf8.ValidString(condition):
		return errors.New("is not valid UTF-8")
	case strings.TrimSpace(condition) == "":
		return errors.New("is empty: write a condition on the row")
	case strings.ContainsFunc(condition, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\r\n", r) }):
		return errors.New("has a control character")
	case strings.Contains(condition, `\`):
		return errors.New(`has a backslash, which databases read in several ways: write LIKE with ESCAPE '!', say`)
	}
	bare, err := Unquoted(condition)
	if err != nil {
		return err
	}
	for _, part := range forbiddenParts {
		if strings.Contains(bare, part.text) {
			return fmt.Errorf("has %s %s outside of quotes: write one condition, without comments, parameters and variables", part.text, part.what)
		}
	}
	if err := checkParentheses(bare); err != nil {
		return err
	}
	words := strings.FieldsFunc(strings.ToUpper(bare), func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, word := range words {
		if slices.Contains(forbiddenWords, word) {
			return fmt.Errorf("has the word %s: a condition is about the row alone, without subqueries; put a column of this name in quotes", word)
		}
	}
	return nil
}

// AcceptedFilter returns the filter of s once the database has accepted it for the table; fault is
// what the database finds wrong with it, and makes the table unfit.
func (s *Spec) AcceptedFilter(fault string, err error) (string, error) {
	if fault != "" {
		return "", option.Errorf("%w: the condition %s does not fit %s: %s", ErrUnfit, option.Filter, s.Table, fault)
	}
	return s.Filter, err
}

// forbiddenParts begin comments, parameters or variables, or end the statement. A bracket quotes a
// name in SQLite alone.
var forbiddenParts = []struct{ text, what string }{
	{";", "(the end of a statement)"}, {"--", "(a comment)"}, {"/*", "(a comment)"}, {"*/", "(a comment)"}, {"#", "(a comment)"},
	{"?", "(a parameter)"}, {":", "(a parameter)"}, {"$", "(a parameter)"}, {"@", "(a variable)"}, {"[", "(a quote)"}, {"]", "(a quote)"},
}

// forbiddenWords begin subqueries, or what stands in them alone.
var forbiddenWords = []string{"SELECT", "TABLE", "VALUES", "INTO"}

// Unquoted returns condition with each quoted text or name as a blank between quotes. A quote
// that is doubled inside another one makes two of them, one beside the other.
func Unquoted(condition string) (string, error) {
	var bare strings.Builder
	for condition != "" {
		at := strings.IndexAny(condition, "'\"`")
		if at < 0 {
			bare.WriteString(condition)
			break
		}
		quote := condition[at : at+1]
		length := strings.Index(condition[at+1:], quote)
		if length < 0 {
			return "", fmt.Errorf("has a %s that nothing closes", quote)
		}
		bare.WriteString(condition[:at] + quote + " " + quote)
		condition = condition[at+1+length+1:]
	}
	return bare.String(), nil
}

// DoubleQuoted returns what stands in double quotes in a condition that CheckFilter accepts.
func DoubleQuoted(condition string) (names []string) {
	for condition != "" {
		at := strings.IndexAny(condition, "'\"`")
		if at < 0 {
			break
		}
		text, rest, _ := strings.Cut(condition[at+1:], condition[at:at+1])
		if condition[at] == '"' {
			names = append(names, text)
		}
		condition = rest
	}
	return names
}

// checkParentheses refuses a condition that closes a parenthesis which it has not opened, or the
// other way round.
func checkParentheses(bare string) error {
	depth := 0
	for i := range len(bare) {
		switch bare[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth < 0 {
			return errors.New("closes a parenthesis that it has not opened")
		}
	}
	if depth > 0 {
		return errors.New("opens a parenthesis that it does not close")
	}
	return nil
}

// Unmatched returns the SQL of a column that is NULL for rows which match a condition that
// CheckFilter accepts, and 1 for the others: NULL is not a match.
func Unmatched(condition string) string {
	return "CASE WHEN (" + condition + ") THEN NULL ELSE 1 END"
}
