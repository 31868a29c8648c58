package jetstream_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bridge/sink"
	"bridge/sink/jetstream"
	"bridge/tests/testall"
	"bridge/tests/testenv"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

func TestRealRestarts(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	const each, ofRestarts = 15_000, 20_000
	t.Run("a server killed and started in mid-stream loses, repeats and disorders nothing", func(t *testing.T) {
		server := testenv.StartNATS(t)
		stream := server.CreateStream(t, natsjs.StreamConfig{})
		name := stream.CachedInfo().Config.Name
		s := open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: name})
		// Then it lives: a slow machine has to get on, too.
		const most = 100
		kills := 0
		_, stop := harming(t, stream, 50*time.Millisecond, 200*time.Millisecond, func() {
			if kills < most {
				server.Restart(t)
				kills++
			}
		})
		sent := publishers(t, s, name+".a", load{n: 4, each: ofRestarts, keys: 50})
		if stop(); kills == 0 {
			t.Error("the server was never killed")
		}
		t.Logf("%d kills", kills)
		wantWhole(t, read(t, stream, ""), sent...)
	})

	t.Run("a connection that is cut again and again loses, repeats and disorders nothing", func(t *testing.T) {
		cutAgainAndAgain(t, testenv.NATS(t), each)
	})

	t.Run("a server absent at the start is waited for", func(t *testing.T) {
		server := testenv.StartNATS(t)
		name := testenv.NewStreamName()
		stream := server.CreateStream(t, natsjs.StreamConfig{Name: name})
		server.Stop()
		s := open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: name})
		if err := s.Ready(t.Context()); err == nil {
			t.Error("Ready without a server returns nil")
		}
		batch := messages(name+".a", "early", 1000, 10)
		done := make(chan error, 1)
		go func() {
			_, err := s.Publish(deadline(t, 4*time.Minute), batch)
			done <- err
		}()
		server.Start(t)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		wantWhole(t, read(t, stream, ""), batch)
		eventually(t, time.Minute, "it is ready", func() bool { return s.Ready(t.Context()) == nil })
	})

	t.Run("Close ends a Publish that waits for a server", func(t *testing.T) {
		s := open(t, jetstream.Options{URLs: []string{fmt.Sprintf("nats://127.0.0.1:%d", testenv.FreePort(t))}, Stream: "T"})
		done := make(chan error, 1)
		go func() {
			_, err := s.Publish(t.Context(), messages("T.a", "never", 10, 1))
			done <- err
		}()
		eventually(t, 10*time.Second, "Ready tells of the absent server", func() bool {
			err := s.Ready(t.Context())
			return err != nil && strings.Contains(err.Error(), "connection refused")
		})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, sink.ErrClosed) {
			t.Errorf("Publish returns %v, want ErrClosed", err)
		}
	})
}

// works publishes to a new stream of server.
func works(t *testing.T, server *testenv.NATSServer, o jetstream.Options) {
	t.Helper()
	stream := server.CreateStream(t, natsjs.StreamConfig{})
	o.URLs, o.Stream = append(o.URLs, server.URL()), stream.CachedInfo().Config.Name
	batch := messages(o.Stream+".a", "in", 100, 10)
	mustPublish(t, open(t, o), batch)
	wantWhole(t, read(t, stream, ""), batch)
}

// fails wants Ready to tell of a connection that is refused, with some words and without others.
func fails(t *testing.T, server *testenv.NATSServer, o jetstream.Options, want string, secrets ...string) {
	t.Helper()
	if o.URLs == nil {
		o.URLs = []string{server.URL()}
	}
	o.Stream = "T"
	s := open(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Publish(ctx, messages("T.a", "out", 10, 1))
		done <- err
	}()
	var err error
	eventually(t, 10*time.Second, "Ready tells of "+want, func() bool {
		err = s.Ready(ctx)
		return err != nil && strings.Contains(err.Error(), want)
	})
	for _, secret := range secrets {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error %q shows the secret %q", err, secret)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Publish returns %v, want context.Canceled", err)
	}
}

func password(user, pass string) func() (string, string, error) {
	return func() (string, string, error) { return user, pass, nil }
}

func TestRealLogin(t *testing.T) {
	t.Parallel()
	t.Run("user and password", func(t *testing.T) {
		server := testenv.StartNATS(t, testenv.NATSPassword("bridge", "hunter2"))
		works(t, server, jetstream.Options{Password: password("bridge", "hunter2")})
		works(t, server, jetstream.Options{URLs: []string{"nats://bridge:hunter2@" + server.Addr()}})
		fails(t, server, jetstream.Options{Password: password("bridge", "hunter3")}, "Authorization Violation", "hunter3")
		fails(t, server, jetstream.Options{URLs: []string{"nats://bridge:hunter3@" + server.Addr()}}, "Authorization Violation", "hunter3")
		fails(t, server, jetstream.Options{}, "Authorization Violation")
	})

	t.Run("a password is read again at each attempt", func(t *testing.T) {
		server := testenv.StartNATS(t, testenv.NATSPassword("bridge", "hunter2"))
		tries := 0
		works(t, server, jetstream.Options{Password: func() (string, string, error) {
			if tries++; tries == 1 {
				return "", "", errors.New("the file is not there yet")
			}
			if tries < 4 {
				return "bridge", "old", nil
			}
			return "bridge", "hunter2", nil
		}})
	})

	t.Run("nkey", func(t *testing.T) {
		seed := filepath.Join(t.TempDir(), "seed")
		server := testenv.StartNATS(t, testenv.NATSNkey(t, seed))
		works(t, server, jetstream.Options{NkeySeed: file(seed)})
		other := filepath.Join(t.TempDir(), "seed")
		testenv.NATSNkey(t, other)
		fails(t, server, jetstream.Options{NkeySeed: file(other)}, "Authorization Violation")
		fails(t, server, jetstream.Options{NkeySeed: file(filepath.Join(t.TempDir(), "none"))}, "no such file")
	})

	t.Run("credentials of an operator's account", func(t *testing.T) {
		option, creds := testenv.NATSOperator(t)
		server := testenv.StartNATS(t, option)
		works(t, server, jetstream.Options{Creds: file(creds)})
		_, foreign := testenv.NATSOperator(t)
		fails(t, server, jetstream.Options{Creds: file(foreign)}, "Authorization Violation")
		fails(t, server, jetstream.Options{Creds: file(filepath.Join(t.TempDir(), "none"))}, "no such file")
	})
}

// file returns a function that reads a secret from path.
func file(path string) func() (string, error) {
	return func() (string, error) {
		text, err := os.ReadFile(path)
		return string(text), err
	}
}

// tlsOf returns a client's configuration that trusts ca and, with cert, shows a certificate.
func tlsOf(ca, cert, key string) func() (*tls.Config, error) {
	return func() (*tls.Config, error) {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", ca)
		}
		config := &tls.Config{RootCAs: pool}
		if cert != "" {
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				return nil, err
			}
			config.Certificates = []tls.Certificate{pair}
		}
		return config, nil
	}
}

func TestRealTLS(t *testing.T) {
	t.Parallel()
	certs := testenv.NewCerts(t)
	t.Run("a server with a good certificate", func(t *testing.T) {
		server := testenv.StartNATS(t, testenv.NATSTLS(t, certs, certs.ServerCert, certs.ServerKey, false))
		works(t, server, jetstream.Options{TLS: tlsOf(certs.CA, "", "")})
		fails(t, server, jetstream.Options{TLS: tlsOf(certs.OtherCA, "", "")}, "unknown authority")
		fails(t, server, jetstream.Options{}, "unknown authority")
	})
	t.Run("a server that asks for a certificate", func(t *testing.T) {
		server := testenv.StartNATS(t, testenv.NATSTLS(t, certs, certs.ServerCert, certs.ServerKey, true))
		works(t, server, jetstream.Options{TLS: tlsOf(certs.CA, certs.ClientCert, certs.ClientKey)})
		fails(t, server, jetstream.Options{TLS: tlsOf(certs.CA, "", "")}, "tls")
	})
	t.Run("a server whose certificate has expired", func(t *testing.T) {
		server := testenv.StartNATS(t, testenv.NATSTLS(t, certs, certs.ExpiredCert, certs.ExpiredKey, false))
		fails(t, server, jetstream.Options{TLS: tlsOf(certs.CA, "", "")}, "expired")
	})
}

// BenchmarkRealPublish publishes batches of 2000 messages of about 200 bytes from one goroutine.
func BenchmarkRealPublish(b *testing.B) {
	server := testenv.NATS(b)
	stream := server.CreateStream(b, natsjs.StreamConfig{})
	name := stream.CachedInfo().Config.Name
	s := open(b, jetstream.Options{URLs: []string{server.URL()}, Stream: name})
	batch := messages(name+".a", "bench", 2000, 100)
	round := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for i := range batch {
			batch[i].ID = fmt.Sprintf("00000000-0000-5000-8000-%06d%06d", round, i)
		}
		round++
		b.StartTimer()
		mustPublish(b, s, batch)
	}
	b.ReportMetric(float64(b.N*len(batch))/b.Elapsed().Seconds(), "msg/s")
}
