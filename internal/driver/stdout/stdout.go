package stdout

import (
	"os"
	"strings"

	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/option"
	"example.org/bridge/sink"
	"example.org/bridge/sink/stdout"
)

// Driver implements [driver.Bus].
type Driver struct{}

func (*Driver) Scheme() string { return "stdout" }

func (*Driver) Settings() []driver.Settings { return nil }

func (*Driver) Load(in *driver.Input) driver.BusTraits {
	if _, rest, _ := strings.Cut(in.URL, ":"); strings.TrimPrefix(rest, "//") != "" {
		in.Fault(option.SinkURL, "has something after stdout: write stdout: alone")
	}
	return driver.BusTraits{Destinations: driver.Labels}
}

func (*Driver) Open(u driver.Use) (sink.Sink, error) {
	return stdout.Open(stdout.Options{Writer: os.Stdout, Logger: u.Logger, Fault: u.Fault})
}
