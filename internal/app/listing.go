package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"example.org/bridge/internal/config"
	"example.org/bridge/source"
)

// WithTables returns the configuration with the tables that match patterns of these streams now, of
// all where none is named. The databases of others are not asked.
func WithTables(ctx context.Context, cfg *config.Config, streams ...string) (*config.Config, error) {
	asked := Keep(cfg, func(s *config.Stream) bool { return len(streams) == 0 || slices.Contains(streams, s.Name) })
	if !asked.HasPatterns() {
		return cfg, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, listWithin, fmt.Errorf("the databases did not list their tables within %v", listWithin))
	defer cancel()
	found, err := matchedNow(ctx, asked)
	matched := make(map[string][]string)
	for _, one := range found {
		matched[one.stream] = append(matched[one.stream], one.tables...)
	}
	return cfg.WithTables(matched), err
}

// matches are the tables that match a pattern, and none before it in its stream.
type matches struct {
	stream, pattern string
	tables          []string
}

// matchedNow returns what matches patterns of the databases that answer.
func matchedNow(ctx context.Context, cfg *config.Config) (found []matches, err error) {
	all, err := OpenSources(cfg, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	lists, err := all.listTables(ctx, listWithin, func(*database, error) {})
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		by, n := make(map[string][]string), len(s.Tables)
		all.eachMatch(s, lists, func(name, pattern string) {
			if cfg.CanPublish(s, name) == nil && n < source.MaxTables {
				by[pattern] = append(by[pattern], name)
				n++
			}
		})
		for d := range lists {
			for _, pattern := range cfg.PatternsOf(s, d.Source) {
				found = append(found, matches{s.Name, pattern, by[pattern]})
			}
		}
	}
	return found, err
}

// listTables lists the tables of each database that a pattern is of, as far as they answer in time,
// and calls note with what each one says.
func (s *Sources) listTables(ctx context.Context, within time.Duration, note func(*database, error)) (map[*database]source.TableList, error) {
	var mu sync.Mutex
	lists := make(map[*database]source.TableList)
	errs := s.each(func(d *database) error {
		lister, able := d.from.(source.Lister)
		asked := slices.ContainsFunc(s.cfg.Streams, func(one config.Stream) bool { return len(s.cfg.PatternsOf(&one, d.Source)) > 0 })
		if !able || !asked {
			return nil
		}
		listing, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("the database did not list its tables within %v", within))
		defer cancel()
		list, err := lister.Tables(listing)
		if ctx.Err() == nil {
			note(d, err)
		}
		if err != nil {
			return d.named(fmt.Errorf("%s: %w", d.Label(), err))
		}
		mu.Lock()
		defer mu.Unlock()
		lists[d] = list
		return nil
	})
	return lists, errors.Join(errs...)
}

// eachMatch calls do with the tables of lists that match patterns of a stream.
func (s *Sources) eachMatch(stream *config.Stream, lists map[*database]source.TableList, do func(name, pattern string)) {
	for _, d := range s.all {
		match := s.cfg.Matcher(stream, d.Source)
		for _, t := range lists[d].Names {
			if name, pattern, ok := match(t); ok && s.cfg.Share.Owns(stream, name) {
				do(name, pattern)
			}
		}
	}
}
