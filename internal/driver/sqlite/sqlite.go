package sqlite

import (
	"cmp"
	"log/slog"
	"path/filepath"
	"strings"

	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
	"example.org/bridge/source/sqlite"
)

// Driver implements [driver.Database].
type Driver struct{}

type opener sqlite.Options

func (Driver) Scheme() string { return "sqlite" }

// Load parses sqlite:///path. The database has the base name of the file.
func (Driver) Load(in *driver.Input) (driver.Opener, driver.DatabaseTraits) {
	options, err := sqlite.ParseURL(in.URL)
	if err != nil {
		in.Fault(option.SourceURL, "%v", err)
	}
	options.TimeZone = in.TimeZone
	file := filepath.Base(options.Path)
	return opener(options), driver.DatabaseTraits{Addr: options.Path, Database: cmp.Or(strings.TrimSuffix(file, filepath.Ext(file)), file), Alone: true}
}

func (o opener) Open(conns source.Conns, logger *slog.Logger) (source.Source, error) {
	options := sqlite.Options(o)
	options.Conns, options.Logger = conns, logger
	return sqlite.Open(options)
}

func (o opener) Readers(most int) int { return sqlite.Readers(most) }
