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
