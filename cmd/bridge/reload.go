package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/terminal"
)

func reloadCommand(p *process) *cobra.Command {
	return p.asks(newCommand("reload", "have the running bridge read its configuration again", `
It asks the bridge that runs at BRIDGE_HTTP_ADDR (127.0.0.1:8080), which reads
the file of --env-file or BRIDGE_ENV_FILE again; its environment stays as it was
at its start. Streams that are new begin, those that are gone end, and the
others go on: each where it was. SIGHUP does the same.

If the new configuration is wrong, all that is wrong is printed, and the former
one goes on. So it does where one of these variables has changed, which needs a
restart:

  `+strings.Join(config.NeedRestart(), "\n  ")+`

Exit status: 0 when the new configuration is in force, 1 when it is not, 2 wrong
usage.
`), func(ctx context.Context, bridge *httpapi.Client, _ []string) error {
		done, err := bridge.Reload(ctx)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("%w: if it was changed since bridge began, change it back, or restart bridge: it needs a restart", err)
		}
		if err != nil {
			return err
		}
		return p.print(fmt.Sprintf("reloaded in %d ms: %s, %s\n", done.Milliseconds, terminal.Count(len(done.Streams), "stream"), terminal.Count(done.Shards, "table")))
	})
}
