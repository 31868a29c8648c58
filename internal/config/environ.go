package config

import (
	"maps"
	"slices"
	"strings"
)

// environment holds the BRIDGE_ variables that are set. One that is empty counts as not set.
type environment map[string]string

// parseEnvironment picks the variables of bridge out of "NAME=value" entries. White space around a
// value is dropped, save around one that may be a secret.
func parseEnvironment(environ []string) environment {
	env := environment{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, prefix) || isException(name) {
			continue
		}
		if name != passwordVariable {
			value = strings.TrimSpace(value)
		}
		if value != "" {
			env[name] = value
		}
	}
	return env
}

// lookup returns the value of a variable of other programs, empty where it is not set.
func lookup(environ []string, name string) string {
	for _, entry := range environ {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// passwordVariable is the one variable whose value may begin or end with white space.
const passwordVariable = prefix + "KAFKA_SASL_PASSWORD"

// isException reports whether a variable is none of ours: Kubernetes sets BRIDGE_SERVICE_* and
// BRIDGE_PORT* for a Service named bridge, and the tests have variables of their own.
func isException(name string) bool {
	for _, begin := range []string{"TEST_", "SERVICE_", "PORT"} {
		if strings.HasPrefix(name[len(prefix):], begin) {
			return true
		}
	}
	return false
}

// names returns the names of all variables that are set, sorted.
func (e environment) names() []string { return slices.Sorted(maps.Keys(e)) }

// known returns the names of all variables that there are with these streams.
func known(streams []string) []string {
	var all []string
	for _, v := range globalVariables() {
		all = append(all, v.names()...)
	}
	for _, stream := range streams {
		for _, v := range streamVariables(stream) {
			all = append(all, v.names()...)
		}
	}
	return all
}

// globalVariables lists the variables of the process, streamVariables those of one stream.
func globalVariables() []Variable { return variablesOf(&globalSettings{}, prefix) }

func streamVariables(stream string) []Variable {
	begin := StreamPrefix(stream)
	return append(variablesOf(&streamSettings{}, begin), variablesOf(&Tuning{}, begin)...)
}

// StreamPrefix begins the names of a stream's variables.
func StreamPrefix(stream string) string { return streamPrefix + strings.ToUpper(stream) + "_" }

// defaultOf returns the default of a variable of the process, "" where it has none.
func defaultOf(name string) string {
	all := globalVariables()
	if i := slices.IndexFunc(all, func(v Variable) bool { return v.Name == name }); i >= 0 {
		return all[i].def
	}
	return ""
}

// names returns the name of the variable and, for a secret, that of its file.
func (v *Variable) names() []string {
	if v.secret {
		return []string{v.Name, v.Name + fileSuffix}
	}
	return []string{v.Name}
}

// refuseUnknown adds a fault for every variable that nobody reads. Without knowing all streams,
// those that may belong to one are let pass.
func (l *loader) refuseUnknown(streams []string, allStreams bool) {
	names := known(streams)
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	for _, name := range l.env.names() {
		ofStream := strings.HasPrefix(name, streamPrefix)
		if set[name] || ofStream && !allStreams && !hasStream(name, streams) {
			continue
		}
		text := "is unknown" + Suggestion(name, "", names)
		switch {
		case ofStream && !hasStream(name, streams):
			text += " It belongs to no stream of " + prefix + "STREAMS"
		case isServiceLink(name):
			text += " If Kubernetes sets it for a Service, put enableServiceLinks: false into the pod"
		default:
			text += " See bridge help variables"
		}
		l.add(name, "%s", text)
	}
}

// hasStream reports whether the name of a variable begins as those of one of the streams do.
func hasStream(name string, streams []string) bool {
	return slices.ContainsFunc(streams, func(stream string) bool { return strings.HasPrefix(name, StreamPrefix(stream)) })
}

// isServiceLink reports whether Kubernetes may have set a variable for a Service whose name begins
// with "bridge-".
func isServiceLink(name string) bool {
	return strings.Contains(name, "_SERVICE_HOST") || strings.Contains(name, "_SERVICE_PORT") ||
		strings.HasSuffix(name, "_PORT") || strings.Contains(name, "_PORT_")
}
