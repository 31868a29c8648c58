// Command bridge tails SQL tables by their increasing id and publishes their rows as Eiffel-style
// events to Kafka or NATS JetStream. See the README for what it promises and docs/configuration.md
// for its variables.
//
// This package has the tree of commands (command.go) and a file for each, which runs it and prints;
// cobra parses the command line and makes help and completion of the tree. Package config makes a
// configuration of the environment, and package app opens what it names and runs it.
package main
