// Package backoff spaces out repeated attempts: exponential pauses with a bound and jitter.
package backoff
