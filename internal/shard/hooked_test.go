package shard_test

import (
	"time"

	"bridge/checkpoint/store"
	"bridge/internal/progress"
)

func rebuildOf(image *store.Image) *store.Batch { return progress.Rebuild(image, "items", time.Now()) }
