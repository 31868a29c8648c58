// Package memory is a bucket in memory, for tests.
package memory
