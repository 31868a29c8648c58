// Package backoff waits as long as a context lasts: between repeated attempts, in exponential
// pauses with a bound and jitter, and for locks.
package backoff
