package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// leftovers are the temporary folders of this process, which are to go when it ends, by a second
// signal, too.
var leftovers folders

// folders is a list of folders to remove. It is safe for concurrent use.
type folders struct {
	mu   sync.Mutex
	dirs []string
}

func (f *folders) add(dir string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirs = append(f.dirs, dir)
}

// clear removes all folders. Files that are made in one meanwhile are removed, too, within reason.
func (f *folders) clear() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, dir := range f.dirs {
		err := os.RemoveAll(dir)
		for range 20 {
			if err == nil {
				break
			}
			err = os.RemoveAll(dir)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove the temporary folder %s: %w", dir, err))
		}
	}
	f.dirs = nil
	return errors.Join(errs...)
}
