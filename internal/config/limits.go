package config

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Reads of a source that take no connection from the tails: KeyReads by key, ServeReads of entities
// for those who ask, where Config.Serve is set, and scanReads of reconcile.
const (
	KeyReads   = 2
	ServeReads = 1
	scanReads  = 1
)

// OtherReads returns how many reads there are at the same time besides those of tails.
func OtherReads(serve bool) int {
	if serve {
		return scanReads + KeyReads + ServeReads
	}
	return scanReads + KeyReads
}

// connectionsName and rateName are the variables that a reload changes while streams run, without
// their prefixes.
const (
	connectionsName = "CONNECTIONS"
	rateName        = "RATE"
	reconcileRate   = "RECONCILE_RATE"
)

// connections returns the bound of a source, 0 for none. One that is too small for the reads that
// must not wait for one another is a fault.
func (l *loader) connections(s *Source, global int) int {
	variable, most := prefix+"SOURCE_"+connectionsName, global
	if s.Name != "" {
		own := sourceSettings{NamedConnections: global}
		l.parse(&own, sourcePrefixOf(s.Name), true)
		if name := sourcePrefixOf(s.Name) + connectionsName; l.env[name] != "" {
			variable, most = name, own.NamedConnections
		}
	}
	if most == 0 || s.Opener == nil || l.has(variable) {
		return most
	}
	tails := OtherReads(l.serve) + 1
	least := most
	for s.Readers(least) < tails {
		least++
	}
	if least > most {
		l.add(variable, "is too small for %s, where reads must not wait for one another: set it to %d or more%s, or to 0 for no limit",
			s.Label(), least, map[bool]string{true: " (one less without " + prefix + "SERVE)"}[l.serve])
	}
	return most
}

// checkRate warns of a rate that bounds nothing.
func (l *streamLoader) checkRate() {
	if l.stream.IDOrder == "none" && l.env[l.begin+rateName] != "" {
		l.warn(l.begin+rateName, "has no effect with %sID_ORDER=none, where reconcile alone reads the rows: set %sRECONCILE_RATE", l.begin, l.begin)
	}
}

// isLimit reports whether a reload changes a variable while streams run.
func isLimit(c *Config, variable string) bool {
	if variable == prefix+rateName || variable == prefix+"SOURCE_"+connectionsName {
		return true
	}
	return slices.ContainsFunc(c.Streams, func(s Stream) bool { return variable == StreamPrefix(s.Name)+rateName }) ||
		slices.ContainsFunc(c.Sources, func(s Source) bool { return s.Name != "" && variable == sourcePrefixOf(s.Name)+connectionsName })
}

// setFingerprints notes what the environment says about limits, and about all else.
func setFingerprints(c *Config, env environment) {
	limits, others := sha256.New(), sha256.New()
	for _, name := range slices.Sorted(maps.Keys(env)) {
		sum := others
		if isLimit(c, name) {
			sum = limits
		}
		// A hash takes all that is written.
		_, _ = fmt.Fprintf(sum, "%d %s=%d %s;", len(name), name, len(env[name]), env[name])
	}
	c.limits, c.others = string(limits.Sum(nil)), string(others.Sum(nil))
}

// ChangesLimitsAlone reports whether next differs from c in limits (RATE, SOURCE_CONNECTIONS) and
// in nothing else.
func (c *Config) ChangesLimitsAlone(next *Config) bool {
	return c.limits != next.limits && c.others == next.others && strings.Join(c.Others, "\x00") == strings.Join(next.Others, "\x00")
}
