// Package config turns the environment into typed options.
//
// [Load] reads every variable and returns a [Config] that is ready for wiring, or an [Error] with
// all faults at once. A fault names its variable and says what would be right. It never quotes a
// value, which may be a secret. Secrets are read at each connect, so that a file can be replaced
// while the program runs. A [Redactor] keeps them out of logs.
//
// settings.go lists the variables by struct tags, but for those of one bus, which its driver has.
// drivers.go lists the drivers, load.go goes through the variables, and the files named after a
// subject check that subject. The methods of Config derive what the wiring needs of a
// stream and its tables: destinations, encoders, subjects.
//
// This package, internal/app and cmd/bridge alone know the full names of variables; errors of other
// packages have a setting of internal/option in them, whose full name is written here. A new
// variable is a field in settings.go; `go test ./internal/config -run Reference -update` then
// writes docs/configuration.md and config.example.env.
package config
