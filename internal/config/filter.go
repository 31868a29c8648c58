package config

import "bridge/source"

// checkFilter checks FILTER as far as that can be done without the database.
func checkFilter(l *loader, begin, condition string) {
	if condition == "" {
		return
	}
	if err := source.CheckFilter(condition); err != nil {
		l.add(begin+"FILTER", "%s", err)
	}
}
