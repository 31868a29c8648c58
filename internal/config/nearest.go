package config

import "strings"

// Suggestion returns ": did you mean <before><candidate>?" for the candidate that is nearest to
// name, or a full stop where none is near.
func Suggestion(name, before string, candidates []string) string {
	if near := nearest(name, candidates); near != "" {
		return ": did you mean " + before + near + "?"
	}
	return "."
}

// nearest returns the candidate that takes the fewest edits to write instead of name, whatever the
// letter case; "" where they replace more than a third of what is not a prefix of both.
func nearest(name string, candidates []string) string {
	// Longer names are no typing mistakes, and the work grows with the length.
	name = strings.ToUpper(name[:min(len(name), 128)])
	best, bestEdits := "", 0
	for _, candidate := range candidates {
		upper := strings.ToUpper(candidate)
		n := edits(name, upper)
		if len(name) > 2 && strings.HasPrefix(upper, name) {
			// A name that stops short is a likely one.
			n = min(n, 2)
		}
		if best == "" || n < bestEdits {
			best, bestEdits = candidate, n
		}
	}
	if bestEdits > max(2, (len(name)-sharedPrefix(name, strings.ToUpper(best)))/3) {
		return ""
	}
	return best
}

// sharedPrefix returns how long the prefix is that a and b share, up to an underscore.
func sharedPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return strings.LastIndex(a[:n], "_") + 1
}

// edits counts the bytes to insert, remove, replace or swap with their neighbour to turn a into b.
func edits(a, b string) int {
	before, last, now := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}
