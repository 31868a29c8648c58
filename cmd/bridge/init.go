package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/source"
)

func initCommand(p *process) *cobra.Command {
	c := newCommand("init [<url>] [<table>]", "ask a database about a table, write a file of variables")
	out := c.Flags().String("out", "bridge.env", "the `FILE` to write")
	c.RunE = func(c *cobra.Command, args []string) error {
		url, command := "", "bridge init <table>"
		if len(args) > 0 && urlStart.MatchString(args[0]) {
			url, args, command = args[0], args[1:], "bridge init <url> <table>"
		}
		if len(args) > 1 {
			return usageErrorf("%s is not a URL: %s", terminal.Visible(args[0]), c.UseLine())
		}
		variable, err := p.database(url)
		switch {
		case err != nil:
			return err
		case len(args) == 0:
			return p.describe(variable, func(asked source.Describer) error {
				list, err := asked.Tables(c.Context())
				if err != nil {
					return err
				}
				if len(list.Names) == 0 {
					return errors.New("the database has no table that this login may see")
				}
				text := ""
				for _, name := range list.Settings() {
					text += terminal.Visible(name) + "\n"
				}
				return p.print(text + "\nName one of them: " + command + "\n")
			})
		}
		return p.writeInit(c.Context(), variable, args[0], *out)
	}
	return c
}

// urlStart tells a URL from a table.
var urlStart = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)

// database returns a variable that says where the database is, as NAME=value: that of the URL, or
// if it is empty that of the environment or its file.
func (e *environment) database(url string) (string, error) {
	if url != "" {
		return sourceURL + "=" + url, nil
	}
	environ, err := e.variables()
	if err != nil {
		return "", err
	}
	for _, entry := range slices.Backward(environ) {
		if name, value, _ := strings.Cut(entry, "="); strings.TrimSpace(value) != "" && (name == sourceURL || name == sourceURL+"_FILE") {
			return entry, nil
		}
	}
	return "", usageErrorf("which database? Set BRIDGE_SOURCE_URL_FILE or BRIDGE_SOURCE_URL, or begin with the URL: bridge init <url> <table>")
}

const sourceURL = "BRIDGE_SOURCE_URL"

// describe calls do with a database, which may be closed then. The variable is one that database
// returns.
func (e *environment) describe(variable string, do func(source.Describer) error) (err error) {
	environ := slices.DeleteFunc(slices.Clone(e.environ), func(entry string) bool { return strings.HasPrefix(entry, "BRIDGE_") })
	cfg, err := config.Load(append(environ, variable, "BRIDGE_SINK_URL=stdout:", "BRIDGE_STREAMS=s", "BRIDGE_STREAM_S_TABLE=t", "BRIDGE_STREAM_S_KIND=release"), e.secrets)
	if err != nil {
		return err
	}
	from, err := cfg.Sources[0].Open(source.Conns{Readers: 1}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	asked, ok := from.(source.Describer)
	if !ok {
		return fmt.Errorf("bridge cannot ask %s: about its tables: copy config.example.env", cfg.Sources[0].Scheme)
	}
	return do(asked)
}

// writeInit writes a file of variables for a table, and removes it if it does not say what the
// database does.
func (p *process) writeInit(ctx context.Context, variable, table, path string) error {
	var d source.Description
	if err := p.describe(variable, func(asked source.Describer) (err error) {
		d, err = asked.Describe(ctx, table)
		return err
	}); err != nil {
		return err
	}
	if d.ID == "" {
		return fmt.Errorf("%w: %s has no integer column that a unique index covers alone and that is NOT NULL: bridge tails by such an id; of UUIDs, ULIDs and KSUIDs see ID_FORMAT", source.ErrUnfit, terminal.Visible(table))
	}
	draft := newDraft(variable, table, &d)
	if draft.err != nil {
		return draft.err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there and is left alone: remove it, or name another file with --out", path)
	}
	if err != nil {
		return err
	}
	_, err = file.WriteString(draft.text.String())
	if err = errors.Join(err, file.Close()); err == nil {
		err = draft.check(path, p.secrets)
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	about := terminal.Wrap(fmt.Sprintf("%s has a capability stream %s of the table %s. Look it through, then type:", path, draft.stream, terminal.Visible(table)), 0)
	return p.print(fmt.Sprintf("%s\n\n  bridge check --env-file %s\n  bridge run --env-file %[2]s\n", about, path))
}

type draft struct {
	stream, table string
	d             *source.Description
	text          strings.Builder
	// err is the first value that a file cannot hold.
	err error
}

func newDraft(database, table string, d *source.Description) *draft {
	_, name, qualified := strings.Cut(table, ".")
	if !qualified {
		name = table
	}
	name = strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(name), "_"), "_")
	f := &draft{stream: cmp.Or(name, "stream"), table: table, d: d}
	f.comment("Written by bridge init: look it through, then type bridge check --env-file with this file. " +
		"bridge help variables lists all variables, config.example.env explains them.")
	f.comment("The database. bridge needs SELECT and nothing else. The URL may hold a password.")
	variable, value, _ := strings.Cut(database, "=")
	f.set(variable, value)
	f.comment("The bus. embedded: is a NATS server inside bridge, to try it. Others, the second with BRIDGE_NATS_STREAM:\n" +
		"BRIDGE_SINK_URL=kafka://kafka-1.example.com:9092\nBRIDGE_SINK_URL=nats://nats-1.example.com:4222")
	f.set("BRIDGE_SINK_URL", "embedded:")
	f.comment("The streams, with commas between. The variables below are those of this one.")
	f.set("BRIDGE_STREAMS", f.stream)
	f.ofStream("The table. A list with commas or a range t_{0..63} is a stream of several.", "TABLE", table)
	// Nothing in a table proves that its rows never change, and release would lose their changes.
	f.ofStream("capability: a row is the state of an entity; updates and deletes are published. release: a row is a fact "+
		"that never changes; updates and deletes are not published. The database does not say which. bridge init "+
		"takes capability, which loses neither: write release if no row is ever updated or deleted.", "KIND", "capability")
	f.ofStream("The integer by which rows come.", "ID", d.ID)
	if !d.Numbered {
		f.comment("The database does not hand this id out. If ids do not come one after the other, say in which order: " +
			"segmented where writers hold blocks of ids, none where they have no order.\n" + f.name("ID_ORDER") + "=segmented")
	}
	if d.Key != nil {
		f.ofStream("The columns that identify the entity: a unique index has them. Without KEY it is the id.", "KEY", d.Key...)
	}
	if d.Created != "" {
		f.ofStream("When a row was created.", "CREATED", d.Created)
	}
	if d.Modified != "" {
		about := "When a row was last changed: every update must set it."
		if d.Moves {
			about = "When a row was last changed: the database sets it at every update."
		}
		if !d.Indexed {
			about += " It lacks an index, so updates wait for a reconcile; bridge check prints the statement."
		}
		f.ofStream(about, "MODIFIED", d.Modified)
	}
	if d.Deleted != "" {
		f.comment("Does this column say by any value but NULL, 0 and the like that a row is deleted? Then:\n" +
			f.name("DELETED") + "=" + terminal.Visible(d.Deleted))
	}
	return f
}

func (f *draft) name(setting string) string { return config.StreamPrefix(f.stream) + setting }

// comment begins a paragraph with lines that are no variables.
func (f *draft) comment(text string) {
	if f.text.Len() > 0 {
		f.text.WriteString("\n")
	}
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "BRIDGE_") {
			line = terminal.Wrap(line, len("# "))
		}
		f.text.WriteString("# " + strings.ReplaceAll(line, "\n  ", "\n# ") + "\n")
	}
}

func (f *draft) ofStream(about, setting string, values ...string) {
	f.comment(about)
	f.set(f.name(setting), strings.Join(values, ","))
}

// plain matches values that need no quotes, also where a shell reads the file.
var plain = regexp.MustCompile(`^[A-Za-z0-9_.,:/@?=%+{}-]*$`)

func (f *draft) set(name, value string) {
	quote, single := `'`, strings.Contains(value, `'`)
	switch {
	case plain.MatchString(value):
		quote = ""
	case strings.ContainsFunc(value, unicode.IsControl) || single && strings.ContainsAny(value, "\"\\$`"):
		f.err = cmp.Or(f.err, fmt.Errorf("the value of %s has characters that a file of variables cannot hold: rename the table or column, or set the variables in the environment", name))
	case single:
		quote = `"`
	}
	f.text.WriteString(name + "=" + quote + value + quote + "\n")
}

// check reads the file as other commands do and compares it with what the database says.
func (f *draft) check(path string, secrets *config.Redactor) error {
	environ, _, err := config.WithFile(nil, path)
	if err != nil {
		return err
	}
	cfg, err := config.Load(environ, secrets)
	if err != nil {
		return err
	}
	s := &cfg.Streams[0]
	got := []string{strings.Join(s.Tables, "\n"), s.ID, s.Created, s.Modified, strings.Join(s.Key, "\n")}
	want := []string{f.table, f.d.ID, f.d.Created, f.d.Modified, strings.Join(f.d.Key, "\n")}
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s has a name that a variable cannot hold, such as one with a comma, a brace or a slash: rename it, or read it from a view", terminal.Visible(f.table))
	}
	return nil
}
