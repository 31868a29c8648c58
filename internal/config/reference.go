package config

import (
	"fmt"
	"strings"
)

// The reference of all variables is made from the tags of settings.go, for people and for the tests
// that hold the files against it.

const (
	// referenceStream stands for the name of a stream in the reference.
	referenceStream = "<NAME>"
	// exampleStream is the stream that config.example.env configures.
	exampleStream = "orders"
	streamGroup   = "One stream"
	overrideGroup = "Overrides for one stream"
)

// Variables lists all variables, those of a stream with <NAME> in their names.
func Variables() []Variable { return allVariables(referenceStream) }

// allVariables lists all variables with those of one stream, grouped.
func allVariables(stream string) []Variable {
	var all []Variable
	for _, v := range globalVariables() {
		all = append(all, v)
		if v.secret {
			all = append(all, v.inFile())
		}
	}
	begin := StreamPrefix(stream)
	for _, v := range variablesOf(&streamSettings{}, begin) {
		v.group = streamGroup
		all = append(all, v)
	}
	for _, v := range variablesOf(&Tuning{}, begin) {
		v.group = overrideGroup
		v.doc = "As " + prefix + strings.TrimPrefix(v.Name, begin) + ", for this stream."
		v.def = ""
		all = append(all, v)
	}
	return all
}

// inFile returns the twin of a secret that names its file.
func (v Variable) inFile() Variable {
	return Variable{
		Name:    v.Name + fileSuffix,
		group:   v.group,
		doc:     "File that holds " + v.Name + ", read again at every connect. Set one of the two.",
		example: "/run/secrets/" + strings.ToLower(strings.TrimPrefix(v.Name, prefix)),
	}
}

// Group is the title of the variables that it is one of.
func (v *Variable) Group() string { return v.group }

// Fallback says what holds when the variable is not set.
func (v *Variable) Fallback() string {
	switch {
	case v.required:
		return "required"
	case v.group == overrideGroup:
		return "the global one"
	case v.def == "" && strings.Contains(strings.ToLower(v.doc), "default"):
		return "see text"
	case v.def == "":
		return "none"
	}
	return v.def
}

// allowed says which values there are, "" when the doc says it.
func (v *Variable) allowed() string {
	if v.oneOf != nil {
		return "One of " + strings.Join(v.oneOf, ", ") + "."
	}
	if v.min != "" {
		return fmt.Sprintf("From %s to %s.", v.min, v.max)
	}
	return ""
}

// Meaning is the doc with the values that are allowed.
func (v *Variable) Meaning() string {
	if v.group == overrideGroup {
		return v.doc
	}
	return strings.TrimSpace(v.doc + " " + v.allowed())
}
