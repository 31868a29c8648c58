// Package option names the settings that an error or a finding tells a person to change.
//
// Packages that take options do not know how a person sets them. They write an error with
// [Errorf] and a [Name] in it; its text has the short name, "set NATS_STREAM". Where the
// environment is known, [Text] writes the same error with the full name.
//
// An error type of a package with a text of its own does the same with a method Named.
package option
