package cli

import (
	"slices"
	"strings"
)

// Program is what a command line may say, and the texts of its help. No field may be nil or empty
// but where its comment says so.
type Program struct {
	// About begins the help of all commands, up to the list of them; Closing ends it.
	About, Closing string
	// Commands are all commands in the order of the help. Those whose names begin with the same
	// word follow one another.
	Commands []Command
	// Groups are the details for the help of such a word, a group; it may be nil.
	Groups map[string]string
	// Variables returns the variables of the environment in the order of the help, group by group.
	Variables func() []Variable
	// Suggest returns ": did you mean <before><candidate>?" for the candidate that is nearest to
	// name, or a full stop where none is near.
	Suggest func(name, before string, candidates []string) string
}

// Variable is a variable of the environment.
type Variable struct {
	Name, Group string
	// Fallback says what holds where it is not set.
	Fallback string
	// Meaning is a text in sentences.
	Meaning string
}

// find returns the command that args begin with and the arguments after its name. Where they begin
// with the name of a group and a word that asks for help, the command has that name and nothing
// else.
func (p *Program) find(args []string) (Command, []string, error) {
	var first, second []string
	for _, c := range p.Commands {
		words := strings.Fields(c.Name)
		if len(args) >= len(words) && slices.Equal(args[:len(words)], words) {
			return c, args[len(words):], nil
		}
		first = append(first, words[0])
		if len(words) > 1 && args[0] == words[0] {
			second = append(second, words[1])
		}
	}
	switch {
	case len(second) > 0 && len(args) > 1 && isHelp(args[1]):
		return Command{Name: args[0]}, args[1:], nil
	case len(second) > 0 && len(args) > 1:
		return Command{}, nil, Errorf("unknown command %q%s There are %s",
			args[0]+" "+args[1], p.Suggest(args[1], "bridge "+args[0]+" ", second), strings.Join(second, ", "))
	case len(second) > 0:
		return Command{}, nil, Errorf("bridge %s needs one of: %s", args[0], strings.Join(second, ", "))
	case strings.HasPrefix(args[0], "-"):
		return Command{}, nil, Errorf("unknown flag %q: flags follow a command; see bridge help", args[0])
	}
	first = slices.Compact(first)
	return Command{}, nil, Errorf("unknown command %q%s The commands are %s; see bridge help",
		args[0], p.Suggest(args[0], "bridge ", first), strings.Join(first, ", "))
}
