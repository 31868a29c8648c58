package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/config"
)

// Set by the linker: -ldflags "-X main.version=1.2.3 -X main.commit=… -X main.built=…". What is not
// set comes from the build information of the Go toolchain.
var version, commit, built string

type buildVersion struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	// Built is the time of the commit, or what the linker was given.
	Built string `json:"built"`
	Go    string `json:"go"`
	// Platform is the operating system and the architecture.
	Platform string `json:"platform"`
}

func currentVersion() buildVersion {
	v := buildVersion{Version: version, Commit: commit, Built: built, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	revision := settings["vcs.revision"]
	if revision != "" && settings["vcs.modified"] == "true" {
		revision += "-modified"
	}
	v.Version = cmp.Or(v.Version, info.Main.Version, "(devel)")
	v.Commit = cmp.Or(v.Commit, revision, "unknown")
	v.Built = cmp.Or(v.Built, settings["vcs.time"], "unknown")
	return v
}

func versionCommand(p *process) *cobra.Command {
	c := newCommand("version", "print the version")
	asJSON := c.Flags().Bool("json", false, "print it as JSON")
	c.RunE = func(*cobra.Command, []string) error {
		v := currentVersion()
		return p.show(*asJSON, v, fmt.Sprintf("bridge %s (commit %s of %s, %s, %s)\n", v.Version, v.Commit, v.Built, v.Go, v.Platform))
	}
	return c
}

func manCommand(p *process) *cobra.Command {
	c := newCommand("man", "print the manual page bridge(1)")
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

var shells = []string{"bash", "zsh", "fish"}

func completionCommand(p *process) *cobra.Command {
	c := newCommand("completion <shell>", "print the completion script for bash, zsh or fish")
	c.ValidArgs = shells
	c.RunE = func(c *cobra.Command, args []string) error {
		switch args[0] {
		case "bash":
			return c.Root().GenBashCompletionV2(p.stdout, true)
		case "zsh":
			return c.Root().GenZshCompletion(p.stdout)
		case "fish":
			return c.Root().GenFishCompletion(p.stdout, true)
		}
		return usageErrorf("unknown shell %q: use one of %s", args[0], strings.Join(shells, ", "))
	}
	return c
}
