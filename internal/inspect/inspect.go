package inspect

import (
	"fmt"
	"slices"
	"strings"

	"example.org/bridge/internal/option"
)

// Severity says how bad a finding is.
type Severity uint8

// The severities, from none to worst.
const (
	// OK says that a check found nothing wrong.
	OK Severity = iota
	// Note is worth knowing; it needs no action.
	Note
	// Warning weakens a guarantee, or is a risk that depends on how the table is used.
	Warning
	// Unsafe keeps bridge from working, or loses or confuses events, until it is resolved.
	Unsafe
)

var severityNames = [...]string{OK: "ok", Note: "note", Warning: "warning", Unsafe: "unsafe"}

func (s Severity) String() string { return severityNames[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one result of an inspection.
type Finding struct {
	Severity Severity `json:"severity"`
	// Code names the kind of finding, for programs and for docs/findings.md.
	Code Code `json:"code"`
	// Subject is the object that was inspected: a table, a topic, a file.
	Subject string `json:"subject"`
	// What describes the state of the subject, without naming it.
	What string `json:"what"`
	// Do is the remedy.
	Do string `json:"do,omitempty"`
	// Statement is SQL or a shell command for a person to type, several on a line each. It is empty
	// where there is none.
	Statement string `json:"statement,omitempty"`

	// says and args are what Do was made of. cause ends What.
	says  string
	args  []any
	cause error
}

// Blocks reports whether bridge, or the stream, cannot run until the finding is resolved. A running
// bridge reports those itself.
func (f Finding) Blocks() bool {
	// The others are refused or waited for.
	return f.Severity == Unsafe && f.Code != NotInspected && f.Code != IDOrder && f.Code != TopicUncompacted
}

// Label names the severity for people: what blocks bridge is told from what runs and is unsafe.
func (f Finding) Label() string {
	if f.Blocks() {
		return "blocks"
	}
	return f.Severity.String()
}

// String returns the finding in one line.
func (f Finding) String() string {
	text := f.Subject + " " + f.What
	if f.Do != "" {
		text += ": " + f.Do
	}
	if f.Statement != "" {
		text += ": " + strings.ReplaceAll(f.Statement, "\n", " ")
	}
	return text
}

// Report is what was found out about one server, bus or checkpoint.
type Report struct {
	// Summary says in a few words what it is: "MariaDB 11.8.3 at db:3306".
	Summary string `json:"summary"`
	// Findings are in the order in which they were made, none of them OK.
	Findings []Finding `json:"findings"`
}

// Add appends a finding about subject.
func (r *Report) Add(severity Severity, code Code, subject, what string) *Finding {
	r.Findings = append(r.Findings, Finding{Severity: severity, Code: code, Subject: subject, What: what})
	return &r.Findings[len(r.Findings)-1]
}

// Because ends What with an error, which may name settings, and returns f.
func (f *Finding) Because(err error) *Finding {
	f.cause = err
	f.What += ": " + option.Text(err, option.Short)
	return f
}

// Says sets what to do about f and returns f. An [option.Name] among args stands for a setting.
func (f *Finding) Says(format string, args ...any) *Finding {
	f.says, f.args = format, args
	f.Do = option.Sprintf(option.Short, format, args...)
	return f
}

// Named returns f with its settings as naming has them.
func (f Finding) Named(naming option.Naming) Finding {
	if f.cause != nil {
		f.What = strings.Replace(f.What, option.Text(f.cause, option.Short), option.Text(f.cause, naming), 1)
	}
	if f.says != "" {
		f.Do = option.Sprintf(naming, f.says, f.args...)
	}
	return f
}

// Named returns findings with their settings as naming has them.
func Named(findings []Finding, naming option.Naming) []Finding {
	var named []Finding
	for _, f := range findings {
		named = append(named, f.Named(naming))
	}
	return named
}

// Renamed returns f with the settings that it names renamed.
func (f Finding) Renamed(rename func(option.Name) option.Name) Finding {
	args := slices.Clone(f.args)
	for i, arg := range args {
		if name, is := arg.(option.Name); is {
			args[i] = rename(name)
		}
	}
	if f.says != "" {
		f.Says(f.says, args...)
	}
	return f
}

// Types sets what to type and returns f.
func (f *Finding) Types(format string, args ...any) *Finding {
	f.Statement = fmt.Sprintf(format, args...)
	return f
}

// Worst returns the highest severity among findings, OK when there is none.
func Worst(findings []Finding) Severity {
	worst := OK
	for _, f := range findings {
		worst = max(worst, f.Severity)
	}
	return worst
}

// Panicked returns the finding that a look at subject panicked with err. The stack is for the log.
func Panicked(subject string, err error) Finding {
	return Finding{Severity: Unsafe, Code: NotInspected, Subject: subject, What: "could not be looked at: " + err.Error(),
		Do: "report it with the stack; other streams are not concerned"}
}

// Code names a kind of finding, which docs/findings.md explains. It does not change from version to
// version.
type Code string

// The source as a whole.
const (
	SourceUnreachable Code = "source-unreachable"
	SourceLogin       Code = "source-login"
	SourceTLS         Code = "source-tls"
	Stride            Code = "stride"
	Blocks            Code = "id-blocks"
	Replica           Code = "replica"
	Proxied           Code = "proxy"
	LockWait          Code = "lock-wait"
	Flush             Code = "log-flush"
	Clock             Code = "clock"
	Connections       Code = "connections"
)

// A table.
const (
	NoTable         Code = "no-table"
	NoGrant         Code = "no-grant"
	NoColumn        Code = "no-column"
	HiddenColumns   Code = "hidden-columns"
	BadFilter       Code = "bad-filter"
	NotInspected    Code = "not-inspected"
	TableUnfit      Code = "table-unfit"
	DeletedValues   Code = "deleted-values"
	UnfitRows       Code = "unfit-rows"
	IDType          Code = "id-type"
	IDNull          Code = "id-null"
	IDNotUnique     Code = "id-not-unique"
	IDNotPrimary    Code = "id-not-primary"
	IDUnproved      Code = "id-unproved"
	IDIssuer        Code = "id-issuer"
	IDNegative      Code = "id-negative"
	IDReuse         Code = "id-reuse"
	IDOrder         Code = "id-order"
	TimeType        Code = "time-type"
	SecondPrecision Code = "second-precision"
	TimeZone        Code = "time-zone"
	TimeOffset      Code = "time-offset"
	KeyNotUnique    Code = "key-not-unique"
	KeyNull         Code = "key-null"
	KeyType         Code = "key-type"
	KeyIndex        Code = "key-index"
	ModifiedIndex   Code = "modified-index"
	NoModified      Code = "no-modified"
	Engine          Code = "engine"
	IDsReused       Code = "ids-reused"
	OtherDatabase   Code = "other-database"
	PositionAhead   Code = "position-ahead"
	StartAhead      Code = "start-ahead"
	StrayID         Code = "stray-id"
	RateBacklog     Code = "rate-backlog"
)

// StrayAbove is how many ids the position must be above the highest of the table for a stray id.
const StrayAbove = 1 << 20

// The sink.
const (
	SinkUnreachable   Code = "sink-unreachable"
	SinkLogin         Code = "sink-login"
	TopicUnreadable   Code = "topic-unreadable"
	StreamUnreadable  Code = "stream-unreadable"
	NoTopic           Code = "no-topic"
	TopicGrant        Code = "topic-grant"
	TopicLeader       Code = "topic-leader"
	TransactionGrant  Code = "transaction-grant"
	NoTransactions    Code = "no-transactions"
	StandbyGrant      Code = "standby-grant"
	TopicMessageSize  Code = "topic-message-size"
	TopicCompacted    Code = "topic-compacted"
	TopicHidden       Code = "topic-hidden"
	TopicUncompacted  Code = "topic-uncompacted"
	TopicPartitions   Code = "topic-partitions"
	NoJetStream       Code = "no-jetstream"
	NoStream          Code = "no-stream"
	StreamGrant       Code = "stream-grant"
	NoAtomicBatches   Code = "no-atomic-batches"
	StreamSubject     Code = "stream-subject"
	StreamUnusable    Code = "stream-unusable"
	StreamDiffers     Code = "stream-differs"
	StreamStorage     Code = "stream-storage"
	StreamPersistence Code = "stream-persistence"
	StreamDuplicates  Code = "stream-duplicates"
	StreamDiscards    Code = "stream-discards"
	StreamMessageSize Code = "stream-message-size"
	StreamFull        Code = "stream-full"
	StreamConsumers   Code = "stream-consumers"
	StreamCreation    Code = "stream-creation"
	StreamDomains     Code = "stream-domains"
)

// The checkpoint, and the configuration.
const (
	CheckpointNotWritable Code = "checkpoint-not-writable"
	CheckpointCorrupt     Code = "checkpoint-corrupt"
	CheckpointForeign     Code = "checkpoint-foreign"
	CheckpointNewer       Code = "checkpoint-newer"
	CheckpointOlder       Code = "checkpoint-older"
	CheckpointLocked      Code = "checkpoint-locked"
	CheckpointOther       Code = "checkpoint-other"
	CheckpointMeaning     Code = "checkpoint-meaning"
	SchemaChanged         Code = "schema-changed"
	HTTPAddress           Code = "http-address"
	HTTPToken             Code = "http-token"
	NotReady              Code = "not-ready"
	Setting               Code = "setting"
)
