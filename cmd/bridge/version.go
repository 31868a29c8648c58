package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by the linker: -ldflags "-X main.version=1.2.3 -X main.commit=… -X main.built=…". What is not
// set comes from the build information of the Go toolchain.
var version, commit, built string

// buildVersion says which build this is.
type buildVersion struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	// Built is the time of the commit, or what the linker was given.
	Built string `json:"built"`
	Go    string `json:"go"`
	// Platform is the operating system and the architecture.
	Platform string `json:"platform"`
}

// currentVersion returns the version of this process.
func currentVersion() buildVersion {
	v := buildVersion{Version: version, Commit: commit, Built: built, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	revision := settings["vcs.revision"]
	if revision != "" && settings["vcs.modified"] == "true" {
		revision += "-modified"
	}
	v.Version = cmp.Or(v.Version, info.Main.Version, "(devel)")
	v.Commit = cmp.Or(v.Commit, revision, "unknown")
	v.Built = cmp.Or(v.Built, settings["vcs.time"], "unknown")
	return v
}

func versionCommand(p *process) *cobra.Command {
	c := newCommand("version", "print the version", "")
	asJSON := c.Flags().Bool("json", false, "print it as JSON")
	c.RunE = func(*cobra.Command, []string) error {
		v := currentVersion()
		return p.show(*asJSON, v, fmt.Sprintf("bridge %s (commit %s of %s, %s, %s)\n", v.Version, v.Commit, v.Built, v.Go, v.Platform))
	}
	return c
}
