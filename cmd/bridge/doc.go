// Command bridge tails SQL tables by their increasing id and publishes their rows as Eiffel-style events to Kafka or NATS
// JetStream. See the README for what it promises and docs/configuration.md for its variables.
//
// This package is the only place that reads the environment and that names implementations of the role packages.
//
//   - commands: main.go, commands.go, arguments.go and one file a command
//   - configuration: settings.go lists every variable by struct tags, load.go turns the environment into a [Config] and
//     reports all faults at once, the files named after a subject judge that subject
//   - serving: run.go and wire.go build the pipeline, http.go and status.go show it to the outside
//
// A new global variable is a field in settings.go; the reference in docs/configuration.md and config.example.env are
// written anew by `go test ./cmd/bridge -run Reference -update`.
package main
