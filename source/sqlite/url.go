package sqlite

import (
	"errors"
	"net/url"
	"strings"
	"time"
)

// ParseURL reads "sqlite:///absolute/path.db?epoch=s" or "sqlite:relative/path.db". A relative path
// starts at the working directory of the process. A ?, # or % in the path is percent-encoded.
// Parameters:
//
//	epoch=s    numbers in columns of times are Unix times in seconds, the default
//	epoch=ms   in milliseconds
//
// Nothing is read from disk.
func ParseURL(text string) (Options, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "sqlite" || u.User != nil || u.Host != "" || u.Fragment != "" {
		return Options{}, errors.New("must look like sqlite:///absolute/path.db, with three slashes, or sqlite:relative/path.db, with none; " +
			"special characters in the path percent-encoded (? is %3F, # is %23, % is %25)")
	}
	path := u.Path
	if u.Opaque != "" {
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return Options{}, errors.New("malformed path: a % is written %25")
		}
	}
	switch {
	case path == "" || strings.HasSuffix(path, "/"):
		return Options{}, errors.New("the path must name the database file, as in sqlite:///var/lib/app/app.db")
	case path == ":memory:":
		return Options{}, errors.New("a database in memory belongs to the process that made it: name a file, as in sqlite:///var/lib/app/app.db")
	case strings.ContainsRune(path, 0):
		return Options{}, errors.New("the path must not hold a NUL")
	}
	o := Options{Path: path}
	if err := o.parseParameters(u.RawQuery); err != nil {
		return Options{}, err
	}
	return o, nil
}

func (o *Options) parseParameters(query string) error {
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("malformed parameters: they look like ?epoch=ms")
	}
	epoch := parameters.Get("epoch")
	delete(parameters, "epoch")
	if len(parameters) > 0 {
		return errors.New("unknown parameter: known is epoch")
	}
	switch epoch {
	case "":
	case "s":
		o.Epoch = time.Second
	case "ms":
		o.Epoch = time.Millisecond
	default:
		return errors.New("epoch must be s or ms")
	}
	return nil
}
