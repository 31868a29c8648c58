// Package outage logs faults that are waited out, such as a server that is away, without flooding:
// one line when an outage begins, at most one a minute while it lasts, and one with its duration
// and count when it ends. It also tells which faults last at the moment, for readiness.
package outage
