package main

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"time"

	"bridge/client"
	"bridge/examples/internal/stage"
)

//go:embed table.sql table.sqlite.sql bridge.env
var files embed.FS

func main() {
	stage.Main(stage.Example{Name: "number-issuer", Files: files, Tables: allCounters, Story: story})
}

// counterTables is how many tables there are for counters, and for the messages that they number.
// Upstream has 64.
const counterTables = 4

// allCounters repeats the statements of the tables with _0 for the others.
func allCounters(sql string) string {
	var all strings.Builder
	for statement := range strings.SplitAfterSeq(sql, ";\n") {
		for k := range counterTables {
			if one := strings.Replace(statement, "_0 (", fmt.Sprintf("_%d (", k), 1); k == 0 || one != statement {
				all.WriteString(one)
			}
		}
	}
	return all.String()
}

// story inserts rows with issued ids for seven seconds, and until container c is dead.
func story(ctx context.Context, s *stage.Stage) error {
	conversations := []string{"chat-0", "chat-1", "chat-2", "chat-3"}
	if err := register(ctx, s.DB, "bill", conversations); err != nil {
		return err
	}
	if err := s.Bridge.Start(ctx); err != nil {
		return err
	}
	written, heard := newRows(), newRows()
	for _, stream := range []string{"bills", "messages"} {
		events, err := client.NewEvents(s.Bus, s.Name(stream), s.Options(stream), heard.handle)
		if err != nil {
			return err
		}
		s.Begin(ctx, events.Run)
	}
	containers := []*container{
		{name: "a", every: 10 * time.Millisecond},
		{name: "b", every: 150 * time.Millisecond},
		{name: "c", every: 20 * time.Millisecond, dies: bufferSize / 2},
	}
	s.Say("containers a, b and c insert bills with ids from batches of %d; b is slow", bufferSize)
	var writing []*stage.Task
	for _, c := range containers {
		c.issuer = &buffered{Stage: s, business: "bill"}
		writing = append(writing, s.Begin(ctx, c.run(written)))
	}
	for _, conversation := range conversations {
		for range 2 {
			writing = append(writing, s.Begin(ctx, chat(s, conversation, written)))
		}
	}

	if err := stage.Pause(ctx, 7*time.Second); err != nil {
		return err
	}
	writing[2].Wait()
	for _, w := range writing {
		w.End()
	}
	if err := s.Wait(ctx, "every row that was inserted", func(context.Context) (bool, error) {
		missing, _ := heard.lacks(written)
		return missing == 0, nil
	}); err != nil {
		return err
	}
	return conclude(ctx, s, containers, written, heard)
}

// conclude adds up: every row was heard, and the ids that bridge misses are those that containers
// still hold.
func conclude(ctx context.Context, s *stage.Stage, containers []*container, written, heard *rows) error {
	if _, extra := heard.lacks(written); extra != 0 {
		return fmt.Errorf("%d rows were heard that nobody has inserted", extra)
	}
	var shard stage.Shard
	err := s.Wait(ctx, "a status that misses the ids in the buffers and no others", func(ctx context.Context) (bool, error) {
		shards, err := s.Bridge.Shards(ctx, "bills")
		if err != nil {
			return false, err
		}
		shard = shards[0]
		return shard.Position == written.highest["bill"] && int(shard.Gaps.Hot+shard.Gaps.Cold) == int(shard.Position)-written.upTo("bill", shard.Position), nil
	})
	if err != nil {
		return err
	}
	var parts []string
	sum := 0
	for _, c := range containers {
		left := c.left(shard.Position)
		sum += left
		parts = append(parts, fmt.Sprintf("%d of %s", left, c.name))
	}
	missing := int(shard.Gaps.Hot + shard.Gaps.Cold)
	if sum != missing {
		return fmt.Errorf("bridge misses %d ids below %d, and the containers hold %d of these", missing, shard.Position, sum)
	}
	s.Say("bridge is at id %d of bills and looks for %d missing ones = those in the buffers, %s", shard.Position, missing, strings.Join(parts, " + "))
	s.Say("%d rows were inserted; %d were heard, %d of them below a higher id; %d repeats", written.all, heard.all, heard.late, heard.repeated)
	s.Conclude("all %d rows were heard, none was lost", heard.all)
	return nil
}
