package config

import (
	"slices"

	"bridge/internal/option"
)

// Naming names a setting by its variable: that of the stream where the stream has one, else that of
// the process. An empty stream is for what concerns no single one.
func Naming(stream string) option.Naming {
	return func(name option.Name) string {
		global, own := prefix+string(name), StreamPrefix(stream)+string(name)
		switch {
		case stream != "" && slices.Contains(known([]string{stream}), own):
			return own
		case slices.Contains(known(nil), global):
			return global
		}
		return streamPrefix + referenceStream + "_" + string(name)
	}
}

// Text returns the text of err with settings named by their variables.
func Text(err error) string { return option.Text(err, Naming("")) }

// StreamText returns Text for the errors of one stream: it names the stream's own variables.
func StreamText(stream string) func(error) string {
	return func(err error) string { return option.Text(err, Naming(stream)) }
}
