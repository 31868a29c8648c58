package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/config"
)

// manCommand prints bridge.1, in the macros of man(7) and in ASCII.
func manCommand(p *process) *cobra.Command {
	c := newCommand("man", "print the manual page bridge(1)", "")
	c.RunE = func(*cobra.Command, []string) error { return p.print(manPage(p.commands(), currentVersion())) }
	return c
}

// manPage is made of what the help is made of, so it says the same. cobra makes a page for each
// command, by way of Markdown, whose parsers are larger than this.
func manPage(root *cobra.Command, version buildVersion) string {
	m, date := &manWriter{}, ""
	if at, err := time.Parse(time.RFC3339, version.Built); err == nil {
		date = at.UTC().Format(time.DateOnly)
	}
	m.line(`.TH BRIDGE 1 "%s" "bridge %s" "User Commands"`, date, roff(version.Version))
	m.line(".SH NAME\nbridge \\- tail SQL tables and publish their rows as events")
	m.line(".SH SYNOPSIS\n.B bridge\n[\\fIcommand\\fR [\\fIargument\\fR ...]]")
	description, status, _ := strings.Cut(root.Long, "Exit status: ")
	m.line(".SH DESCRIPTION")
	m.text(description + "The configuration comes from the environment, see VARIABLES.\n\n" + root.PersistentFlags().FlagUsages())
	m.line(".SH COMMANDS")
	m.commands(root)
	m.line(".SH VARIABLES")
	group := ""
	for _, v := range config.Variables() {
		if v.Group() != group {
			group = v.Group()
			m.line(".SS %s", roff(group))
		}
		m.line(".TP\n.BR %s \" (%s)\"", roff(v.Name), roff(strings.ReplaceAll(v.Fallback(), `"`, `""`)))
		m.line("%s", roff(v.Meaning()))
	}
	m.line(".SH FILES\n.TP\n.I %s\nVariables of the systemd unit that the packages install.", roff("/etc/bridge/bridge.env"))
	m.line(".TP\n.I %s\nThe checkpoint of that unit.", roff("/var/lib/bridge"))
	m.line(".SH EXIT STATUS")
	m.text(status)
	return m.String()
}

// manWriter writes text with the macros of man(7).
type manWriter struct{ strings.Builder }

func (m *manWriter) line(format string, args ...any) { fmt.Fprintf(&m.Builder, format+"\n", args...) }

// commands writes of all commands below c that do something.
func (m *manWriter) commands(c *cobra.Command) {
	for _, one := range c.Commands() {
		switch {
		case !one.IsAvailableCommand() || one.Name() == "help":
		case one.HasSubCommands():
			m.commands(one)
		default:
			m.line(".SS %s", roff(one.UseLine()))
			m.text(one.Long + "\n" + one.LocalNonPersistentFlags().FlagUsages())
		}
	}
}

// text writes lines of the help as they are.
func (m *manWriter) text(text string) {
	m.line(".nf")
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		m.line("%s", roff(line))
	}
	m.line(".fi")
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
