// Package terminal has what commands print with: text that fits into 80 columns and cannot steer a
// terminal, and lines that show how far something has come and are cleared at its end.
package terminal
