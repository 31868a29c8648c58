package source

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

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
	bare, _, err := Unquoted(condition)
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

// A bracket quotes a name in SQLite alone.
var forbiddenParts = []struct{ text, what string }{
	{";", "(the end of a statement)"}, {"--", "(a comment)"}, {"/*", "(a comment)"}, {"*/", "(a comment)"}, {"#", "(a comment)"},
	{"?", "(a parameter)"}, {":", "(a parameter)"}, {"$", "(a parameter)"}, {"@", "(a variable)"}, {"[", "(a quote)"}, {"]", "(a quote)"},
}

// forbiddenWords begin subqueries, or what stands in them alone.
var forbiddenWords = []string{"SELECT", "TABLE", "VALUES", "INTO"}

// Unquoted returns condition with each quoted text or name as a blank between quotes, and what
// stands in double quotes. A quote that is doubled inside another one makes two of them, one beside
// the other.
func Unquoted(condition string) (bare string, double []string, err error) {
	for {
		at := strings.IndexAny(condition, "'\"`")
		if at < 0 {
			return bare + condition, double, nil
		}
		quote := condition[at : at+1]
		text, rest, closed := strings.Cut(condition[at+1:], quote)
		if !closed {
			return "", nil, fmt.Errorf("has a %s that nothing closes", quote)
		}
		if quote == `"` {
			double = append(double, text)
		}
		bare += condition[:at] + quote + " " + quote
		condition = rest
	}
}

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

// MaxTables bounds the tables of a stream: what TABLE may expand to, and what patterns in it match.
const MaxTables = 10_000

// ExpandTables returns the physical tables that a TABLE setting names, in the order of the pattern.
// A pattern is a comma-separated list of "table" or "database.table", with spaces around allowed; a
// range in braces stands for its numbers:
//
//	t_{0..63}                     t_0 … t_63
//	t_{00..63}                    t_00 … t_63: with a leading zero every number has that width
//	db_{00..03}.bill_{0..9}       each database with each table
//
// An item with * or ? is a pattern (see IsPattern), and ranges in it are expanded.
//
// Names may hold any character but control characters and ", { } .". A table named twice, a
// malformed or reversed range and more than 10,000 tables are refused with an error that says what
// would be right.
func ExpandTables(pattern string) ([]string, error) {
	if !utf8.ValidString(pattern) {
		return nil, errors.New("table names must be UTF-8")
	}
	if i := strings.IndexFunc(pattern, unicode.IsControl); i >= 0 {
		return nil, fmt.Errorf("control character in a table name, after %q", pattern[:i])
	}
	var tables []string
	seen := make(map[string]bool)
	for item := range strings.SplitSeq(pattern, ",") {
		expanded, err := expandItem(strings.TrimSpace(item), MaxTables-len(tables))
		if err != nil {
			return nil, err
		}
		for _, table := range expanded {
			if seen[table] {
				return nil, fmt.Errorf("table %q is named twice: name each table once", table)
			}
			seen[table] = true
		}
		tables = append(tables, expanded...)
	}
	return tables, nil
}

func expandItem(item string, room int) ([]string, error) {
	if item == "" {
		return nil, errors.New(`an empty table name: want "table", "database.table", "t_{0..63}" or several of them with commas between`)
	}
	names := []string{""}
	rest := item
	for {
		text, after, braced := strings.Cut(rest, "{")
		if strings.Contains(text, "}") {
			return nil, fmt.Errorf(`"}" without "{" before it in %q: a range looks like {0..63}`, item)
		}
		names = each(names, []string{text})
		if !braced {
			break
		}
		inner, behind, closed := strings.Cut(after, "}")
		if !closed {
			return nil, fmt.Errorf(`"{" without "}" after it in %q: a range looks like {0..63}`, item)
		}
		numbers, err := expandRange(inner, room/len(names))
		if err != nil {
			return nil, fmt.Errorf("%w in %q", err, item)
		}
		names = each(names, numbers)
		rest = behind
	}
	if len(names) > room {
		return nil, errTooMany
	}
	return names, checkName(names[0], item)
}

var errTooMany = fmt.Errorf("more than %d tables: make the ranges smaller or split the stream", MaxTables)

func each(prefixes, suffixes []string) []string {
	joined := make([]string, 0, len(prefixes)*len(suffixes))
	for _, prefix := range prefixes {
		for _, suffix := range suffixes {
			joined = append(joined, prefix+suffix)
		}
	}
	return joined
}

// expandRange returns the numbers of "0..63" as text, at most room of them.
func expandRange(inner string, room int) ([]string, error) {
	low, high, ok := strings.Cut(inner, "..")
	if !ok || !isNumber(low) || !isNumber(high) {
		return nil, fmt.Errorf("malformed range {%s}: want two numbers of up to 9 digits, as in {0..63} or {00..63}", inner)
	}
	padded := len(low) > 1 && low[0] == '0' || len(high) > 1 && high[0] == '0'
	if padded && len(low) != len(high) {
		return nil, fmt.Errorf("range {%s} has a leading zero and ends of different width: write {%0*s..%0*s} or leave the zeros out",
			inner, max(len(low), len(high)), low, max(len(low), len(high)), high)
	}
	first, _ := strconv.Atoi(low)
	last, _ := strconv.Atoi(high)
	if first > last {
		return nil, fmt.Errorf("reversed range {%s}: write {%s..%s}", inner, high, low)
	}
	if last-first >= room {
		return nil, errTooMany
	}
	width := 0
	if padded {
		width = len(low)
	}
	numbers := make([]string, 0, last-first+1)
	for n := first; n <= last; n++ {
		numbers = append(numbers, fmt.Sprintf("%0*d", width, n))
	}
	return numbers, nil
}

func isNumber(s string) bool {
	return s != "" && len(s) <= 9 && strings.Trim(s, "0123456789") == ""
}

// checkName need not see every name of an item: ranges add digits only.
func checkName(name, item string) error {
	parts := strings.Split(name, ".")
	if len(parts) > 2 {
		return fmt.Errorf(`%q has more than one dot: want "table" or "database.table"`, item)
	}
	for _, part := range parts {
		if part == "" || strings.TrimSpace(part) != part {
			return fmt.Errorf(`%q has an empty part or spaces around one: want "table" or "database.table"`, item)
		}
	}
	return nil
}

// Expire finds the rows of p, the answer to q, that were not touched for StaleAfter by the
// database's clock: they count as rows that are not there. A read by key leaves them out, and
// others flag them, so that their ids leave no gap. A row without a time in MODIFIED never expires.
func (s *Spec) Expire(q *Query, p *Page) {
	if s.StaleAfter == 0 || p.Columns == nil || p.Columns.Modified < 0 {
		return
	}
	i := p.Columns.Modified
	column := p.Columns.List[i]
	for at := range p.Rows {
		row := &p.Rows[at]
		touched, ok := s.touched(column, row.Values[i])
		// The column may have cut off the last part of a second.
		row.StaleFor = p.Now.Sub(touched) - column.Resolution() - s.StaleAfter
		// A difference from a time centuries ahead does not fit a duration.
		if row.Stale = ok && touched.Before(p.Now) && row.StaleFor >= 0; !row.Stale {
			row.StaleFor = 0
		}
	}
	if q.Keys == nil {
		return
	}
	p.Rows = slices.DeleteFunc(p.Rows, func(row Row) bool {
		if row.Stale {
			p.Expired = append(p.Expired, row)
		}
		return row.Stale
	})
}

// touched returns the later moment where the zone shows a time twice: no row expires early.
func (s *Spec) touched(column Column, v []byte) (time.Time, bool) {
	t, ok := column.Time(v, s.Zone)
	if !ok || column.Kind == Timestamp || s.Zone == nil {
		return t, ok
	}
	// The clocks of a zone are set back once within a day, mostly by an hour.
	_, before := t.Add(-24 * time.Hour).In(s.Zone).Zone()
	_, after := t.Add(24 * time.Hour).In(s.Zone).Zone()
	_, at := t.In(s.Zone).Zone()
	later := t.Add(time.Duration(max(before, at)-min(after, at)) * time.Second)
	if _, then := later.In(s.Zone).Zone(); later.After(t) && later.Sub(t) == time.Duration(at-then)*time.Second {
		return later, true
	}
	return t, true
}
