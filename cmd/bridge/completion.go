package main

import (
	"strings"

	"github.com/spf13/cobra"
)

var shells = []string{"bash", "zsh", "fish"}

func completionCommand(p *process) *cobra.Command {
	c := newCommand("completion <shell>", "print the completion script for bash, zsh or fish", `
The packages install all three. By hand (bash needs the package
bash-completion):

  bash   source <(bridge completion bash)
  zsh    bridge completion zsh > "${fpath[1]}/_bridge"
  fish   bridge completion fish > ~/.config/fish/completions/bridge.fish
`)
	c.ValidArgs = shells
	c.RunE = func(c *cobra.Command, args []string) error {
		switch args[0] {
		case "bash":
			return c.Root().GenBashCompletionV2(p.stdout, true)
		case "zsh":
			return c.Root().GenZshCompletion(p.stdout)
		case "fish":
			return c.Root().GenFishCompletion(p.stdout, true)
		}
		return usageErrorf("unknown shell %q: use one of %s", args[0], strings.Join(shells, ", "))
	}
	return c
}
