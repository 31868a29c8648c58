package main

// withoutEffect are the settings that this version judges but does not act on yet.
var withoutEffect = []string{
	"RECONCILE_INTERVAL", "RECONCILE_RATE", "RECONCILE_MAX_DELETES",
}

// warnWithoutEffect warns of settings without effect that are set to something else than their default.
func (l *loader) warnWithoutEffect(global *tuning, streams []string) {
	defaults := map[string]string{}
	for _, v := range variablesOf(global, "") {
		defaults[v.name] = v.def
	}
	begins := []string{prefix}
	for _, stream := range streams {
		begins = append(begins, variablePrefix(stream))
	}
	for _, begin := range begins {
		for _, name := range withoutEffect {
			if value, set := l.env[begin+name]; set && value != defaults[name] {
				l.warn(begin+name, "has no effect yet in this version")
			}
		}
	}
}
