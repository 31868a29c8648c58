package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Player plays scripts of one test.
type Player struct {
	testing.TB
	// Step is the one that is played.
	Step string
}

// Play calls do with each step in turn, and fails the test where do does not know it. The step
// "times N STEP | STEP" plays steps N times.
func (p *Player) Play(script string, do func(name string, words []string) (known bool)) {
	p.Helper()
	for _, step := range strings.Split(script, ";") {
		words := strings.Fields(step)
		if len(words) == 0 {
			continue
		}
		p.Step = strings.Join(words, " ")
		name, words := words[0], words[1:]
		if name == "times" {
			p.Play(strings.Repeat(strings.ReplaceAll(strings.Join(words[1:], " "), "|", ";")+";", int(p.Number(words[0]))), do)
		} else if !do(name, words) {
			p.Fatalf("unknown step %q", step)
		}
	}
}

// Want fails the test unless got is printed as want is.
func (p *Player) Want(got, want any) {
	p.Helper()
	if got, want := fmt.Sprint(got), fmt.Sprint(want); got != want {
		p.Errorf("%s: %s, want %s", p.Step, got, want)
	}
}

// WantOne fails the test unless got is one of the words.
func (p *Player) WantOne(got any, words []string) {
	p.Helper()
	if !slices.Contains(words, fmt.Sprint(got)) {
		p.Errorf("%s: %v", p.Step, got)
	}
}

// Number returns the number that a word is.
func (p *Player) Number(word string) uint64 {
	p.Helper()
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		p.Fatalf("%s: %v", p.Step, err)
	}
	return n
}

// Numbers returns those of words such as 3 and 5-9.
func (p *Player) Numbers(words []string) (all []uint64) {
	p.Helper()
	for _, word := range words {
		first, last, found := strings.Cut(word, "-")
		if !found {
			last = first
		}
		for n := p.Number(first); n <= p.Number(last); n++ {
			all = append(all, n)
		}
	}
	return all
}

// Duration returns the time that a word such as 5s is.
func (p *Player) Duration(word string) time.Duration {
	p.Helper()
	d, err := time.ParseDuration(word)
	if err != nil {
		p.Fatalf("%s: %v", p.Step, err)
	}
	return d
}
