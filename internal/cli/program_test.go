package cli

// sample is a program with one command of each kind.
func sample() *Program {
	return &Program{
		About: "bridge is a sample.\n\nUsage: bridge <command>\n\n", Closing: "\nExit status: 0 fine, 2 wrong usage.\n",
		Commands: []Command{
			{Name: "run", Summary: "publish (default)", Details: "\nIt runs.\n", Variables: true},
			{Name: "demo", Values: []string{"for=20s"}, Flags: []string{"keep"}, Summary: "see events", Details: "\n  --for   how long\n\n.SH begins this line.\n"},
			{Name: "reconcile", Arguments: []string{"mode"}, Rest: "stream", Flags: []string{"dry-run", "json"}, Summary: "compare tables: publish the rest"},
			{Name: "checkpoint show", Flags: []string{"json"}, Summary: "show progress"},
			{Name: "checkpoint set", Arguments: []string{"stream", "id"}, Summary: "change progress"},
			{Name: "tail", Optional: "stream", Summary: "don't stop"},
			{Name: "completion", Arguments: []string{"shell"}, Choices: Shells, Summary: "print a script"},
		},
		Groups: map[string]string{"checkpoint": "\nStop bridge first.\n"},
		Variables: func() []Variable {
			return []Variable{
				{"A_URL", "Source", "required", "Where it reads."},
				{"A_NAME", "Source", `the host's "name"`, "Its name…"},
				{"B_URL", "Bus", "required", "Where it publishes."},
			}
		},
		// What begins alike is near.
		Suggest: func(name, before string, candidates []string) string {
			for _, one := range candidates {
				if name != "" && one[0] == name[0] {
					return ": did you mean " + before + one + "?"
				}
			}
			return "."
		},
	}
}
