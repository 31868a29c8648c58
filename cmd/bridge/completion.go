package main

import (
	"context"
	"io"

	"bridge/internal/cli"
)

const completionDetails = `
The shells are bash, zsh and fish; the packages install all three. By hand:

  bash   source <(bridge completion bash)
  zsh    bridge completion zsh > "${fpath[1]}/_bridge"
  fish   bridge completion fish > ~/.config/fish/completions/bridge.fish
`

func completionCommand(p *process, _ context.Context, call cli.Call) error {
	script, err := program().Completion(call.Arguments[0])
	if err != nil {
		return err
	}
	_, err = io.WriteString(p.stdout, script)
	return err
}
