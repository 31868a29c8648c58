// Command bridge tails SQL tables by their increasing id and publishes their rows as Eiffel-style
// events to Kafka or NATS JetStream. See the README for what it promises and docs/configuration.md
// for its variables.
//
// This package reads the command line and the environment, runs a command (commands.go) and prints.
// [bridge/internal/config] makes a configuration of the environment, [bridge/internal/app] opens
// what it names and runs it.
package main
