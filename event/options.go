package event

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"
)

// defaultDomain is meta.source.domainId where the options name none.
const defaultDomain = "bridge"

// withDefaults returns o with its defaults filled in.
func (o Options) withDefaults() Options {
	o.Domain = cmp.Or(o.Domain, defaultDomain)
	o.Stem = cmp.Or(o.Stem, typeStem(o.Stream))
	o.Version = cmp.Or(o.Version, Version)
	o.Format = cmp.Or(o.Format, FormatEiffel)
	o.BadValue = cmp.Or(o.BadValue, NullBad)
	o.Zone = cmp.Or(o.Zone, time.UTC)
	return o
}

// validate returns all faults of o, which has its defaults, as one error.
func (o Options) validate() error {
	faults := o.textFaults()
	switch o.Kind {
	case Capability, Release:
		faults = append(faults, o.typeFaults()...)
	default:
		faults = append(faults, fmt.Errorf("KIND: unknown kind %q: use %q or %q", o.Kind, Capability, Release))
	}
	switch o.BadValue {
	case NullBad, StopOnBad:
	default:
		faults = append(faults, fmt.Errorf("ON_BAD_VALUE: %q is not known: use %q or %q", o.BadValue, NullBad, StopOnBad))
	}
	if _, ok := ParseVersion(o.Version); !ok {
		faults = append(faults, fmt.Errorf("EVENT_VERSION: invalid version %q: use three numbers with dots, such as 1.0.0", o.Version))
	}
	faults = append(faults, o.formatFault())
	return errors.Join(append(faults, o.fieldFaults()...)...)
}

// textFaults checks the texts that every event carries.
func (o Options) textFaults() []error {
	var faults []error
	for _, text := range []struct{ name, value string }{
		{"the stream's name", o.Stream}, {"the shard's name", o.Shard}, {"the name of the source", o.Source},
		{"TABLE", o.Table}, {"DOMAIN_ID", o.Domain},
	} {
		switch {
		case text.value == "":
			faults = append(faults, fmt.Errorf("%s is empty: give it a name", text.name))
		case !utf8.ValidString(text.value):
			faults = append(faults, fmt.Errorf("%s %q is not valid UTF-8: spell it in UTF-8", text.name, text.value))
		}
	}
	return faults
}

// typeFaults checks the event types. The Eiffel protocol keeps types that begin with "Eiffel" for
// its own vocabulary.
func (o Options) typeFaults() []error {
	var faults []error
	check := func(setting, name string) {
		switch {
		case hasEiffelPrefix(name):
			faults = append(faults, fmt.Errorf("%s: %q begins with %q, which the Eiffel protocol keeps for its own events: choose another name", setting, name, "Eiffel"))
		case !isIdentifier(name):
			faults = append(faults, fmt.Errorf("%s: invalid event type %q: use letters, digits and underscores, a letter first", setting, name))
		}
	}
	check("EVENT", o.Stem)
	for _, op := range ops {
		if name, ok := o.Names[op]; ok {
			check("EVENT_NAMES "+string(op), name)
		}
	}
	belongs := opsOf(o.Kind)
	for _, op := range slices.Sorted(maps.Keys(o.Names)) {
		if !slices.Contains(belongs, op) {
			faults = append(faults, fmt.Errorf("EVENT_NAMES: a %s stream has no operation %q: use %v", o.Kind, op, belongs))
		}
	}
	return faults
}

// fieldFaults checks the whitelist without knowing the table.
func (o Options) fieldFaults() []error {
	var faults []error
	for _, field := range o.Fields {
		switch {
		case field.Column == "":
			faults = append(faults, fmt.Errorf("FIELDS: member %q has no column: write column:member", field.Member))
		case !utf8.ValidString(field.Member):
			faults = append(faults, fmt.Errorf("FIELDS: member %q of column %q is not valid UTF-8: spell it in UTF-8", field.Member, field.Column))
		}
	}
	return faults
}
