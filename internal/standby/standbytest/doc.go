// Package standbytest has the suite that every standby.Elector passes.
package standbytest
