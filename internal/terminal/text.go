package terminal

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// Width fits a terminal of 80 columns.
const Width = 79

// Is reports whether w is a terminal.
func Is(w io.Writer) bool {
	file, ok := w.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice != 0
}

// Visible replaces what a terminal would obey.
func Visible(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// OneLine returns text with every run of white space as one space.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Wrap breaks text between words for lines that begin at a column: the first stands there already,
// the others are indented to it.
func Wrap(text string, column int) string {
	var b strings.Builder
	at := column
	for i, word := range strings.Fields(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case i > 0 && at+1+length > Width:
			b.WriteString("\n" + strings.Repeat(" ", column))
			at = column
		case i > 0:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += length
	}
	return b.String()
}

// Cut returns what of text fits into so many columns.
func Cut(text string, columns int) string {
	runes := []rune(text)
	if len(runes) <= columns {
		return text
	}
	return string(runes[:columns-1]) + "…"
}

// Count returns "no things", "1 thing" or "n things".
func Count(n int, thing string) string {
	switch n {
	case 0:
		return "no " + thing + "s"
	case 1:
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Table returns rows in columns with so many spaces between them, each cell fit for a terminal.
func Table(gap int, rows [][]any) string {
	var text strings.Builder
	// A strings.Builder takes every write.
	table := tabwriter.NewWriter(&text, 0, 0, gap, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = Visible(fmt.Sprint(cell))
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	_ = table.Flush()
	return text.String()
}
