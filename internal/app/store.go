package app

import (
	"bridge/checkpoint"
	"bridge/checkpoint/bolt"
)

// Store is a checkpoint store that can be closed. Its errors say what failed and name the file or
// the shard.
type Store interface {
	checkpoint.Store
	Close() error
}

// OpenStore opens the checkpoint file at path, and makes it when it is not there.
func OpenStore(path string) (Store, error) {
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		// Not s: a nil pointer in an interface is not nil.
		return nil, err
	}
	return s, nil
}
