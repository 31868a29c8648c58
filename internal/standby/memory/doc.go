// Package memory has a standby.Register in memory, for tests.
package memory
