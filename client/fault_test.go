package client_test

import (
	"context"
	"net"
	"testing"
	"time"

	"example.org/bridge/client"
	"example.org/bridge/client/bus"
	"example.org/bridge/client/jetstream"
	"example.org/bridge/client/kafka"
)

// TestFaultIsOptional has readers and groups without a Fault retry what fails.
func TestFaultIsOptional(t *testing.T) {
	const attempts = 4
	read := func(ctx context.Context, b client.Bus) error {
		r, err := b.Open(client.Opening{Destinations: []string{"orders"}})
		if err != nil {
			return err
		}
		defer func() { _ = r.Close() }()
		_, err = r.TPs(ctx, []string{"orders"})
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	consume := func(ctx context.Context, b client.Bus) error {
		s := client.Subscription{Opening: client.Opening{Destinations: []string{"orders"}}, Group: "g", Joined: func() {}, Expired: func(string, error) {}}
		return b.Consume(ctx, s, func(context.Context, string, *bus.Stored) error { return nil })
	}
	for name, use := range map[string]func(context.Context, client.Bus) error{"a reader": read, "a group": consume} {
		for kind, open := range map[string]func(addr string) (client.Bus, error){
			"kafka": func(addr string) (client.Bus, error) { return kafka.New(kafka.Options{Brokers: []string{addr}}) },
			"jetstream": func(addr string) (client.Bus, error) {
				return jetstream.New(jetstream.Options{URLs: []string{"nats://" + addr}})
			},
		} {
			t.Run(name+" of "+kind, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				hangsUp, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				served := make(chan int, 1)
				go func() {
					n := 0
					for ; n < attempts; n++ {
						c, err := hangsUp.Accept()
						if err != nil {
							break
						}
						_ = c.Close()
					}
					cancel()
					served <- n
				}()
				b, err := open(hangsUp.Addr().String())
				if err == nil {
					err = use(ctx, b)
				}
				_ = hangsUp.Close()
				if n := <-served; n < attempts || err != nil {
					t.Errorf("%d attempts, %v", n, err)
				}
			})
		}
	}
}
