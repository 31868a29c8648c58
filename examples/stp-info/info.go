package main

import (
	"context"
	"maps"
	"sync"
)

// capabilities are those of one STP.
type capabilities map[string]string

// store is the database of STP-Info.
type store interface {
	load(ctx context.Context, stp string) (capabilities, error)
	put(ctx context.Context, c change) error
	remove(ctx context.Context, c change) error
}

// change is what an event says of one capability.
type change struct {
	StpName, CapabilityKey, CapabilityValue string
	deleted                                 bool
}

// info answers queries from its cache, and from its store where the cache has nothing.
type info struct {
	store store
	cache *cache
}

// query returns the capabilities of an STP.
func (i *info) query(ctx context.Context, stp string) (capabilities, error) {
	if found := i.cache.get(stp); found != nil {
		return found, nil
	}
	read, err := i.load(ctx, stp)
	if err != nil {
		return nil, err
	}
	i.cache.fill(read)
	return read.found, nil
}

// reading is what a query has read of the store and has not put into the cache yet.
type reading struct {
	stp   string
	found capabilities
	// since is the state of the cache when the reading began.
	since uint64
}

func (i *info) load(ctx context.Context, stp string) (reading, error) {
	since := i.cache.changes(stp)
	found, err := i.store.load(ctx, stp)
	return reading{stp, found, since}, err
}

// handle applies an event: first to the store, then it drops the STP from the cache. In the other
// order, a query between the two steps puts what the store is about to lose back into the cache,
// where it stays.
func (i *info) handle(ctx context.Context, c change) error {
	if err := i.write(ctx, c); err != nil {
		return err
	}
	i.cache.drop(c.StpName)
	return nil
}

func (i *info) write(ctx context.Context, c change) error {
	if c.deleted {
		return i.store.remove(ctx, c)
	}
	return i.store.put(ctx, c)
}

// cache holds the capabilities of STPs. In Redis it is a hash for each STP with a number beside it,
// and fill is a script that compares the number.
type cache struct {
	mu    sync.Mutex
	stps  map[string]capabilities
	drops map[string]uint64
	// hits and misses count queries.
	hits, misses int
}

func newCache() *cache {
	return &cache{stps: make(map[string]capabilities), drops: make(map[string]uint64)}
}

// get returns what is cached of an STP, nil where nothing is.
func (c *cache) get(stp string) capabilities {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.stps[stp]
	if !ok {
		c.misses++
		return nil
	}
	c.hits++
	return maps.Clone(found)
}

// queries counts those that were answered from the cache, and the others.
func (c *cache) queries() (hits, misses int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hits, c.misses
}

func (c *cache) changes(stp string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drops[stp]
}

// fill caches a reading, unless the STP was dropped since it began: the store may have changed
// behind it.
func (c *cache) fill(r reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drops[r.stp] == r.since {
		c.stps[r.stp] = maps.Clone(r.found)
	}
}

func (c *cache) drop(stp string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.stps, stp)
	c.drops[stp]++
}

// clear empties the cache, as the start of a process does.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for stp := range c.stps {
		delete(c.stps, stp)
		c.drops[stp]++
	}
}
