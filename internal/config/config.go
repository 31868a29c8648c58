package config

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// Config is everything that the environment says, checked and ready for wiring. Defaults are filled
// in. It holds no secret but for the headers of Trace: those are read by functions at each connect.
type Config struct {
	// Process has the variables of the process. What stands below under the same name wins.
	Process
	Sources
	Sink Sink
	// CheckpointPath is the checkpoint's folder, relative to the working directory or absolute.
	CheckpointPath string
	// temporary says that it was chosen, and is below the temporary directory of the system.
	temporary bool
	// CheckpointTopic is the topic of Kafka, or the KV bucket of NATS, that has copies of the
	// progress. Empty: the folder has all.
	CheckpointTopic string
	// Streams has at least one entry, in the order of BRIDGE_STREAMS.
	Streams []Stream

	// HTTPToken is nil where none is set; ask it at each request. HTTPTLS names no certificate
	// where the HTTP server does not speak TLS.
	HTTPToken driver.Secret
	HTTPTLS   driver.TLS
	LogLevel  slog.Level
	// Trace says where spans go; nil makes none.
	Trace *Trace
	// Others are variables of other programs, NAME=value, that the file of variables has. Load does
	// not know them: its caller fills them in.
	Others []string
	// Share is the part of the tables that the process works on.
	Share Share
	// Standby says with whom the process shares the work.
	Standby Standby

	// limits and others are hashes of the variables: of those that a reload changes while streams
	// run, and of all others.
	limits, others string

	// Warnings are for the log at start: what is set but has no effect, or is unwise.
	Warnings []Warning
}

// Standby is a group of processes of which one works.
type Standby struct {
	// Group is empty where the process works alone.
	Group   string
	Timeout time.Duration
	// Settings has a hash of each variable that all processes must agree on, but for defaults.
	Settings map[string]string
}

// Warning is one remark about a variable.
type Warning struct{ Variable, Text string }

// Stream is one stream.
type Stream struct {
	// Name is as BRIDGE_STREAMS spells it.
	Name string
	streamSettings
	// The settings of the tail and of reconcile: the stream's own where it has them, else the
	// global ones.
	Tuning

	// Tables are the physical tables, one shard each: those that TABLE names and, after WithTables,
	// those that match Patterns.
	Tables []string
	// Patterns are those of TABLE. Looked says that Tables has what matches them.
	Patterns []string
	Looked   bool
	// items are the tables and patterns of TABLE.
	items []string
	// EventNames has the event types that differ from the default.
	EventNames map[event.Op]string
	// Fields is nil for all columns; a field without Member has the default one.
	Fields []event.Field
	// headers are the columns of HEADERS with their names there, routed those of DESTINATION, which
	// is the template.
	headers  []event.Field
	routed   []string
	template *sink.Template
	// Masks are the columns whose values are replaced.
	Masks map[string]source.Mask
	// Deleted is a column, empty where there is none. Deletion says which of its values say that a
	// row is deleted.
	Deleted  string
	Deletion event.Deletion
}

// Naming names a setting by its variable: that of the stream where the stream has one, else that of
// the process. An empty stream is for what concerns no single one.
func Naming(stream string) option.Naming {
	return func(name option.Name) string {
		global, own := prefix+string(name), StreamPrefix(stream)+string(name)
		switch {
		case stream != "" && slices.Contains(NewDrivers().known([]string{stream}), own):
			return own
		case slices.Contains(NewDrivers().known(nil), global), strings.HasPrefix(global, sourcePrefix):
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
