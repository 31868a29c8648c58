package inspect

import (
	"fmt"
	"strings"
)

// Severity says how bad a finding is.
type Severity uint8

// The severities, from none to worst.
const (
	// OK says that something was looked at and found well.
	OK Severity = iota
	// Note is worth knowing and needs nothing to be done.
	Note
	// Warning costs something: a guarantee that comes later than it could, or a danger that depends on how the table is used.
	Warning
	// Unsafe keeps bridge from working, or loses or confuses events, until it is mended.
	Unsafe
)

var severityNames = [...]string{OK: "ok", Note: "note", Warning: "warning", Unsafe: "unsafe"}

func (s Severity) String() string { return severityNames[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one thing that was found.
type Finding struct {
	Severity Severity
	// Code names the kind of finding, for programs and for docs/operations.md.
	Code Code
	// Subject is what was looked at: a table, a topic, a file.
	Subject string
	// What says what is the case, without naming the subject.
	What string
	// Do says what to do about it.
	Do string
	// Statement is what to type: SQL, or a command for a shell. It is empty where none can be given, and several stand
	// one a line. Nobody but a person types it.
	Statement string
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
	Summary string
	// Findings are in the order in which they were made, none of them OK.
	Findings []Finding
}

// Add appends a finding about subject.
func (r *Report) Add(severity Severity, code Code, subject, what string) *Finding {
	r.Findings = append(r.Findings, Finding{Severity: severity, Code: code, Subject: subject, What: what})
	return &r.Findings[len(r.Findings)-1]
}

// Says sets what to do about f and returns f.
func (f *Finding) Says(format string, args ...any) *Finding {
	f.Do = fmt.Sprintf(format, args...)
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
