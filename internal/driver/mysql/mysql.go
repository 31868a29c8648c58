package mysql

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"

	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
	"example.org/bridge/source/mysql"
)

const example = "mysql://user:password@host:3306/database"

// Driver implements [driver.Database].
type Driver struct{}

// Opener implements [driver.Opener].
type Opener struct{ Options mysql.Options }

func (Driver) Scheme() string { return "mysql" }

// Load parses the URL. Of a file with the URL that changes, only user and password are taken up.
func (Driver) Load(in *driver.Input) (driver.Opener, driver.DatabaseTraits) {
	options, err := parse(in.URL)
	if err != nil {
		in.Fault(option.SourceURL, "%v", err)
		return nil, driver.DatabaseTraits{Example: example}
	}
	read, _ := in.Secret(option.SourceURL)
	options.Password = func() (user, password string, err error) {
		text, err := read()
		if err != nil {
			return "", "", err
		}
		options, err := parse(text)
		if err != nil {
			return "", "", option.Errorf("%s %w", option.SourceURL, err)
		}
		if options.Password == nil {
			return options.User, "", nil
		}
		user, password, err = options.Password()
		in.Hide(password)
		return user, password, err
	}
	// It cannot fail so shortly after the parse; a file that changed meanwhile shows at the
	// connect.
	_, _, _ = options.Password()
	return &Opener{options}, driver.DatabaseTraits{
		Addr: net.JoinHostPort(options.Host, strconv.Itoa(cmp.Or(options.Port, 3306))), Database: options.Database, Example: example,
	}
}

// parse parses mysql://user:password@host:port/database?tls=…. The error quotes neither login nor
// host.
func parse(text string) (mysql.Options, error) {
	if u, err := url.Parse(text); err == nil && strings.ContainsAny(u.EscapedPath(), "@:") {
		// The password held a slash, which ended the host too early.
		return mysql.Options{}, fmt.Errorf("has an @ or a : after the host: write %s; %s", example, driver.Encoding)
	}
	return mysql.ParseURL(text)
}

func (o *Opener) Open(conns source.Conns, logger *slog.Logger) (source.Source, error) {
	options := o.Options
	options.Conns, options.Logger = conns, logger
	return mysql.Open(options)
}

func (o *Opener) Readers(most int) int { return mysql.Readers(most) }
