package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// prefix begins the names of all variables, streamPrefix those of the streams.
const (
	prefix       = "BRIDGE_"
	streamPrefix = prefix + "STREAM_"
	fileSuffix   = "_FILE"
)

// Variable is one variable as the tags of settings.go describe it.
type Variable struct {
	// Name is the full name, field that of the Go field.
	Name, field string
	group       string
	def         string
	doc         string
	example     string
	oneOf       []string
	min, max    string
	required    bool
	secret      bool
	value       reflect.Value
}

// variablesOf lists the variables of a settings struct, which settings points to, in their order.
func variablesOf(settings any, prefix string) []Variable {
	return walk(reflect.ValueOf(settings).Elem(), prefix, "")
}

func walk(v reflect.Value, prefix, group string) []Variable {
	var all []Variable
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if title, ok := field.Tag.Lookup("group"); ok {
			all = append(all, walk(v.Field(i), prefix, title)...)
			continue
		}
		all = append(all, variableOf(field, v.Field(i), prefix, group))
	}
	return all
}

func variableOf(field reflect.StructField, value reflect.Value, prefix, group string) Variable {
	name, option, _ := strings.Cut(field.Tag.Get("env"), ",")
	v := Variable{
		Name:     prefix + name,
		field:    field.Name,
		group:    group,
		def:      field.Tag.Get("envDefault"),
		doc:      field.Tag.Get("doc"),
		example:  field.Tag.Get("example"),
		min:      field.Tag.Get("min"),
		max:      field.Tag.Get("max"),
		required: option == "required",
		secret:   field.Tag.Get("secret") == "true",
		value:    value,
	}
	if allowed := field.Tag.Get("oneof"); allowed != "" {
		v.oneOf = strings.Split(allowed, ",")
	}
	return v
}

// check checks the value against oneof, min and max. It brings one of the values allowed into its
// proper letter case.
func (v *Variable) check() error {
	if v.oneOf != nil {
		return v.checkOneOf()
	}
	if v.min == "" {
		return nil
	}
	if n := v.value.Int(); n < v.bound(v.min) || n > v.bound(v.max) {
		return fmt.Errorf("is out of range: write a value from %s to %s", v.min, v.max)
	}
	return nil
}

func (v *Variable) checkOneOf() error {
	text := v.value.String()
	for _, allowed := range v.oneOf {
		if strings.EqualFold(text, allowed) {
			v.value.SetString(allowed)
			return nil
		}
	}
	return fmt.Errorf("is not allowed: write one of %s", strings.Join(v.oneOf, ", "))
}

// bound parses a bound of the tags; the tests hold that all of them can be parsed.
func (v *Variable) bound(text string) int64 {
	switch v.value.Interface().(type) {
	case time.Duration:
		d, _ := time.ParseDuration(text)
		return int64(d)
	case size:
		var s size
		_ = s.UnmarshalText([]byte(text))
		return int64(s)
	default:
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	}
}

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
