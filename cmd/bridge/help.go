package main

import (
	"bridge/internal/cli"
	"bridge/internal/config"
)

const about = `bridge tails SQL tables and publishes their rows as events to Kafka or NATS
JetStream.

Usage: bridge <command>

`

const closing = `
Exit status: 0 fine, 1 something is wrong or went wrong, 2 wrong usage or
configuration.
`

// groupDetails are for the help of the commands that begin with a word.
var groupDetails = map[string]string{"checkpoint": checkpointDetails, "deadletter": deadLetterDetails}

// program returns the frame of the command line: the commands and the texts around them.
func program() *cli.Program {
	p := &cli.Program{About: about, Closing: closing, Groups: groupDetails, Variables: variables, Suggest: config.Suggestion}
	for _, c := range commands() {
		p.Commands = append(p.Commands, c.Command)
	}
	return p
}

// variables returns all variables as the help shows them.
func variables() []cli.Variable {
	var all []cli.Variable
	for _, v := range config.Variables() {
		all = append(all, cli.Variable{Name: v.Name, Group: v.Group(), Fallback: v.Fallback(), Meaning: v.Meaning()})
	}
	return all
}
