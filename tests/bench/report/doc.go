// Package report holds what a benchmark has measured: figures with the value of every round, the
// machine and the versions, as JSON, and as tables in Markdown with charts that Mermaid draws. It
// measures nothing itself.
//
// A page shows a report between the lines [Begin] and [End]; [Splice] puts it there.
package report
