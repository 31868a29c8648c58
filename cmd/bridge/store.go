package main

import "bridge/checkpoint/bolt"

// openBolt opens the checkpoint file at path, and makes it when it is not there.
func openBolt(path string) (store, error) {
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		// Not s: a nil pointer in an interface is not nil.
		return nil, err
	}
	return s, nil
}
