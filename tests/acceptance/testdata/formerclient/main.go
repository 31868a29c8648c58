package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"bridge/client"
	"bridge/client/jetstream"
	"bridge/client/kafka"
)

type entity struct {
	Key, Stream string
	Body        json.RawMessage
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run takes the kind of the bus, its servers, the name of a group, and two streams, each with where
// it is published.
func run(args []string) error {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	bus, err := open(args[0], args[1])
	if err != nil {
		return err
	}
	table, err := client.NewTable(bus, client.Options{Stream: args[3], Destinations: args[4:5], RefreshEvery: time.Second})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	ids := []string{}
	seen := make(map[string]bool)
	events, err := client.NewEvents(bus, args[2], client.Options{Stream: args[5], Destinations: args[6:7]}, func(_ context.Context, e client.Event) error {
		mu.Lock()
		defer mu.Unlock()
		if !seen[e.ID] {
			seen[e.ID] = true
			ids = append(ids, e.ID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- table.Run(context.Background()) }()
	go func() { failed <- events.Run(context.Background()) }()
	print := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		select {
		case err := <-failed:
			return fmt.Errorf("a consumer has ended: %w", err)
		default:
		}
		var entities []entity
		for e := range table.All() {
			entities = append(entities, entity{e.Key, e.Stream, e.Body})
		}
		mu.Lock()
		err := print.Encode(map[string]any{"error": fmt.Sprint(table.Err(), events.Err()), "entities": entities, "events": ids})
		mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func open(kind, servers string) (client.Bus, error) {
	if kind == "kafka" {
		return kafka.New(kafka.Options{Brokers: strings.Split(servers, ",")})
	}
	return jetstream.New(jetstream.Options{URLs: []string{servers}})
}
