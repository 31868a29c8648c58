package cli

import (
	"fmt"
	"slices"
	"strings"
)

// completions are the scripts of the shells.
var completions = map[string]func([]completion) string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}

// Shells are their names.
var Shells = []string{"bash", "zsh", "fish"}

// Completion returns the script that completes command lines in a shell of [Shells]. The error is a
// [UsageError].
func (p *Program) Completion(shell string) (string, error) {
	script, known := completions[shell]
	if !known {
		return "", Errorf("unknown shell %q: use one of %s", shell, strings.Join(Shells, ", "))
	}
	return script(completionsOf(p.Commands)), nil
}

// completion is what may follow some words of a command line.
type completion struct {
	// after are those words, without bridge.
	after string
	// words may follow them at once, flags anywhere behind them.
	words []completionWord
	flags []string
	// values are the flags that take a value.
	values []string
}

type completionWord struct{ name, summary string }

// completionsOf makes the completions of the table of commands.
func completionsOf(list []Command) []completion {
	top := completion{words: []completionWord{{"help", "tell more about a command"}}}
	help := completion{after: "help", words: []completionWord{{"variables", "list the variables"}}}
	groups := map[string]*completion{}
	var order []string
	var all []completion
	for _, c := range list {
		first, second, grouped := strings.Cut(c.Name, " ")
		one := completion{after: c.Name, flags: append(slices.Clone(c.Flags), "help"), values: c.valueNames()}
		for _, choice := range c.Choices {
			one.words = append(one.words, completionWord{choice, ""})
		}
		all = append(all, one)
		word := completionWord{first, c.Summary}
		if grouped {
			word.summary = "see bridge help " + first
			if groups[first] == nil {
				groups[first] = &completion{after: first}
				order = append(order, first)
			}
			groups[first].words = append(groups[first].words, completionWord{second, c.Summary})
		}
		if !grouped || len(groups[first].words) == 1 {
			top.words = append(top.words, word)
			help.words = append(help.words, word)
		}
	}
	for _, first := range order {
		group := *groups[first]
		all = append(all, group, completion{after: "help " + first, words: group.words})
	}
	return append(all, top, help)
}

// names returns the words and, with two hyphens, the flags.
func (c *completion) names() (names []string) {
	for _, word := range c.words {
		names = append(names, word.name)
	}
	for _, flag := range slices.Concat(c.values, c.flags) {
		names = append(names, "--"+flag)
	}
	return names
}

// pattern returns the pattern of a shell's case that matches a line of the words before the one
// that is completed, with a space on both sides.
func (c *completion) pattern() string {
	switch {
	case c.after == "":
		return "'  '"
	case len(c.flags) > 0 && len(c.words) == 0:
		return "' " + c.after + " '*"
	}
	return "' " + c.after + " '"
}

// valuePatterns returns the patterns of lines that end with a flag that takes a value: nothing is
// known of it.
func valuePatterns(all []completion) string {
	var patterns []string
	for _, c := range all {
		for _, flag := range c.values {
			if one := "*' --" + flag + " '"; !slices.Contains(patterns, one) {
				patterns = append(patterns, one)
			}
		}
	}
	return strings.Join(patterns, " | ")
}

func bashCompletion(all []completion) string {
	var text strings.Builder
	text.WriteString("# Completion of bridge for bash, made by bridge completion bash.\n_bridge() {\n" +
		"  local words= line=\" ${COMP_WORDS[*]:1:COMP_CWORD-1} \"\n  case $line in\n")
	fmt.Fprintf(&text, "  %s) ;;\n", valuePatterns(all))
	for _, c := range all {
		fmt.Fprintf(&text, "  %s) words='%s' ;;\n", c.pattern(), strings.Join(c.names(), " "))
	}
	text.WriteString("  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -F _bridge bridge\n")
	return text.String()
}

func zshCompletion(all []completion) string {
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
	var text strings.Builder
	text.WriteString("#compdef bridge\n# Completion of bridge for zsh, made by bridge completion zsh.\n_bridge() {\n" +
		"  local line=\" ${(j: :)words[2,CURRENT-1]} \"\n  local -a choices\n  case $line in\n")
	fmt.Fprintf(&text, "  %s) ;;\n", valuePatterns(all))
	for _, c := range all {
		fmt.Fprintf(&text, "  %s) choices=(", c.pattern())
		for _, word := range c.words {
			text.WriteString(" " + quote(strings.TrimSuffix(word.name+":"+strings.ReplaceAll(word.summary, ":", `\:`), ":")))
		}
		for _, flag := range slices.Concat(c.values, c.flags) {
			text.WriteString(" " + quote("--"+flag))
		}
		text.WriteString(" ) ;;\n")
	}
	text.WriteString("  esac\n  _describe bridge choices\n}\n" +
		"if [ \"$funcstack[1]\" = _bridge ]; then _bridge; else compdef _bridge bridge; fi\n")
	return text.String()
}

func fishCompletion(all []completion) string {
	quote := func(text string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
	}
	var text strings.Builder
	text.WriteString("# Completion of bridge for fish, made by bridge completion fish.\n" +
		"function __bridge_at\n    set -l words (commandline -opc)\n    set -e words[1]\n    test \"$words\" = \"$argv\"\nend\n" +
		"function __bridge_in\n    set -l words (commandline -opc)\n    set -e words[1]\n    string match -q -- \"$argv *\" \"$words \"\nend\n" +
		"complete -c bridge -f\n")
	for _, c := range all {
		for _, word := range c.words {
			fmt.Fprintf(&text, "complete -c bridge -n %s -a %s", quote(strings.TrimSpace("__bridge_at "+c.after)), word.name)
			if word.summary != "" {
				text.WriteString(" -d " + quote(word.summary))
			}
			text.WriteString("\n")
		}
		for _, flag := range c.values {
			fmt.Fprintf(&text, "complete -c bridge -n %s -l %s -x\n", quote("__bridge_in "+c.after), flag)
		}
		for _, flag := range c.flags {
			fmt.Fprintf(&text, "complete -c bridge -n %s -l %s\n", quote("__bridge_in "+c.after), flag)
		}
	}
	return text.String()
}
