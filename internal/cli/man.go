package cli

import (
	"fmt"
	"strings"
	"time"
)

// Page is what the manual page says beside the help.
type Page struct {
	// Version is that of the program. Built is the time of its build in the form of RFC 3339; in
	// another form the page has no date.
	Version, Built string
	// Purpose says in a few words what the program does.
	Purpose string
	// Description follows the first paragraph of the help.
	Description string
	Files       []File
}

// File is a file or folder that the manual page names.
type File struct {
	Path, Meaning string
}

// Man returns the manual page bridge(1) in the macros of man(7), in ASCII. It is made of what the
// help is made of, so it says the same.
func (p *Program) Man(page Page) string {
	m := &manWriter{}
	date := ""
	if at, err := time.Parse(time.RFC3339, page.Built); err == nil {
		date = at.UTC().Format(time.DateOnly)
	}
	m.line(`.TH BRIDGE 1 "%s" "bridge %s" "User Commands"`, date, roff(page.Version))
	m.section("NAME")
	m.line(`bridge \- %s`, roff(page.Purpose))
	m.section("SYNOPSIS")
	m.line(".B bridge\n[\\fIcommand\\fR [\\fIargument\\fR ...]]")
	m.section("DESCRIPTION")
	before, _, _ := strings.Cut(p.About, "\n\n")
	m.text(before)
	m.text("\n" + page.Description)
	m.section("COMMANDS")
	for _, c := range p.Commands {
		m.line(".SS %s", roff(strings.Join(c.Usage(), " ")))
		m.text(c.sentence())
		m.text(c.Details)
	}
	m.section("VARIABLES")
	group := ""
	for _, v := range p.Variables() {
		if v.Group != group {
			group = v.Group
			m.line(".SS %s", roff(group))
		}
		m.line(".TP\n.BR %s \" (%s)\"", roff(v.Name), roff(strings.ReplaceAll(v.Fallback, `"`, `""`)))
		m.text(v.Meaning)
	}
	m.section("FILES")
	for _, file := range page.Files {
		m.line(".TP\n.I %s", roff(file.Path))
		m.text(file.Meaning)
	}
	m.section("EXIT STATUS")
	m.text(strings.TrimPrefix(strings.TrimSpace(p.Closing), "Exit status: "))
	return m.String()
}

// manWriter writes text with the macros of man(7).
type manWriter struct{ strings.Builder }

func (m *manWriter) line(format string, args ...any) { fmt.Fprintf(&m.Builder, format+"\n", args...) }

func (m *manWriter) section(title string) { m.line(".SH %s", title) }

// text writes text of the help: paragraphs, and indented lines, which are printed as they are.
func (m *manWriter) text(text string) {
	asIs, gap := false, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" {
			gap = m.Len() > 0
			continue
		}
		indented := strings.HasPrefix(line, " ")
		if asIs && !indented {
			m.line(".fi\n.RE")
			asIs = false
		}
		if gap {
			m.line(".sp")
			gap = false
		}
		if indented && !asIs {
			m.line(".RS 2\n.nf")
			asIs = true
		}
		if indented {
			line = strings.TrimPrefix(line, "  ")
		}
		m.line("%s", roff(line))
	}
	if asIs {
		m.line(".fi\n.RE")
	}
}

// roff escapes a line: what would be a macro, backslashes, hyphens and what is not ASCII.
func roff(line string) string {
	var text strings.Builder
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		text.WriteString(`\&`)
	}
	for _, r := range line {
		switch {
		case r == '\\':
			text.WriteString(`\e`)
		case r == '-':
			text.WriteString(`\-`)
		case r > '~':
			fmt.Fprintf(&text, `\[u%04X]`, r)
		default:
			text.WriteRune(r)
		}
	}
	return text.String()
}
