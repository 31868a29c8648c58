package mskiam_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/client/backoff"
	"example.org/bridge/sink/kafka"
	"example.org/bridge/sink/kafka/mskiam"
	"example.org/bridge/tests/must"
)

// signedAt and the credentials are those of the tests of segmentio/kafka-go, with whose signature
// this one is compared.
var signedAt = time.Date(2021, 10, 14, 13, 5, 0, 0, time.UTC)

func static(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "ACCESS_KEY", SecretAccessKey: "SECRET_KEY"}, nil
}

// at returns a context that says which broker it is.
func at(ctx context.Context) context.Context {
	return sasl.WithMetadata(ctx, &sasl.Metadata{Host: "localhost", Port: 9098})
}

func start(t *testing.T, m sasl.Mechanism) map[string]string {
	t.Helper()
	session, text, err := m.Start(at(t.Context()))
	must.OK(t, err)
	if done, answer, err := session.Next(t.Context(), nil); !done || len(answer) > 0 || err != nil {
		t.Errorf("behind it comes %q, %v", answer, err)
	}
	var members map[string]string
	must.OK(t, json.Unmarshal(text, &members))
	return members
}

// TestPayload compares with the form that aws-msk-iam-auth documents.
func TestPayload(t *testing.T) {
	var got map[string]string
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(signedAt))
		got = start(t, mskiam.New(mskiam.Options{Region: "us-east-1", Load: static}))
	})
	if !strings.Contains(got["user-agent"], "kafka-go") {
		t.Errorf("user agent %q", got["user-agent"])
	}
	delete(got, "user-agent")
	want := map[string]string{
		"version": "2020_10_22", "host": "localhost", "action": "kafka-cluster:Connect", "x-amz-algorithm": "AWS4-HMAC-SHA256",
		"x-amz-credential": "ACCESS_KEY/20211014/us-east-1/kafka-cluster/aws4_request", "x-amz-date": "20211014T130500Z",
		"x-amz-expires": "300", "x-amz-signedheaders": "host",
		"x-amz-signature": "6b8d25f9b45b9c7db9da855a49112d80379224153a27fd279c305a5b7940d1a7",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// TestCredentials keeps lasting ones for a minute, temporary ones while they are fresh.
func TestCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		var found aws.Credentials
		var err error
		m := mskiam.New(mskiam.Options{Region: "us-east-1", Load: func(context.Context) (aws.Credentials, error) {
			calls++
			return found, err
		}})
		for n, step := range []struct {
			after   time.Duration
			found   string
			expires time.Duration
			want    string
			calls   int
		}{
			{0, "A", 0, "A", 1},
			{time.Second, "B", 0, "A", 1},
			{time.Minute, "B", 0, "B", 2},
			{time.Minute, "C", time.Hour, "C", 3},
			{time.Minute, "D", time.Hour, "C", 3},
			{54 * time.Minute, "D", 2 * time.Minute, "D", 4},
			{59 * time.Second, "E", time.Second, "D", 4},
			{time.Second, "E", time.Second, "E", 5},
			{time.Second, "F", time.Second, "F", 6},
		} {
			time.Sleep(step.after)
			found = aws.Credentials{AccessKeyID: step.found, SecretAccessKey: "s", SessionToken: "t", CanExpire: step.expires > 0, Expires: time.Now().Add(step.expires)}
			got := start(t, m)
			if !strings.HasPrefix(got["x-amz-credential"], step.want+"/") || got["x-amz-security-token"] != "t" || calls != step.calls {
				t.Errorf("step %d: logged in as %s behind %d lookups, want %s behind %d", n, got["x-amz-credential"], calls, step.want, step.calls)
			}
		}
		time.Sleep(time.Minute)
		err = errors.New("nobody knows any")
		if _, _, got := m.Start(at(t.Context())); !errors.Is(got, err) {
			t.Errorf("without credentials: %v", got)
		}
	})
}

// TestALookupOutlivesTheConnect: logins share it, and one that comes later has its result.
func TestALookupOutlivesTheConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		m := mskiam.New(mskiam.Options{Region: "us-east-1", Load: func(ctx context.Context) (aws.Credentials, error) {
			calls++
			if err := backoff.Pause(ctx, 10*time.Second); err != nil {
				return aws.Credentials{}, err
			}
			return static(ctx)
		}})
		connect, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var logins sync.WaitGroup
		for range 3 {
			logins.Go(func() {
				if _, _, err := m.Start(at(connect)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("behind the end of the connect: %v", err)
				}
			})
		}
		logins.Wait()
		start(t, m)
		start(t, m)
		if calls != 1 {
			t.Errorf("%d lookups", calls)
		}
	})
}

func TestALookupIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mskiam.New(mskiam.Options{Region: "us-east-1", Load: func(ctx context.Context) (aws.Credentials, error) {
			<-ctx.Done()
			return aws.Credentials{}, ctx.Err()
		}})
		begun := time.Now()
		_, _, err := m.Start(at(t.Context()))
		if took := time.Since(begun); err == nil || !strings.Contains(err.Error(), "no credentials within 30s") || took != 30*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestTheDefaultChain reads a shared file again after a minute.
func TestTheDefaultChain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "credentials")
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", path)
	t.Setenv("AWS_CONFIG_FILE", path+".config")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	synctest.Test(t, func(t *testing.T) {
		m := mskiam.New(mskiam.Options{Region: "us-east-1"})
		for _, key := range []string{"FIRST", "SECOND"} {
			must.OK(t, os.WriteFile(path, []byte("[default]\naws_access_key_id = "+key+"\naws_secret_access_key = s\n"), 0o600))
			if got := start(t, m)["x-amz-credential"]; !strings.HasPrefix(got, key+"/") || !strings.Contains(got, "/us-east-1/") {
				t.Errorf("logged in as %s", got)
			}
			time.Sleep(time.Minute)
		}
		must.OK(t, os.Remove(path))
		if _, _, err := m.Start(at(t.Context())); err == nil || !strings.Contains(err.Error(), "find AWS credentials") {
			t.Errorf("without credentials: %v", err)
		}
	})
}

// TestExchange logs in to a broker, over each of its connections.
func TestExchange(t *testing.T) {
	c := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t")))(t)
	t.Cleanup(c.Close)
	c.ControlKey(int16(kmsg.SASLHandshake), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		res := r.ResponseKind().(*kmsg.SASLHandshakeResponse)
		if res.SupportedMechanisms = []string{mskiam.Name}; r.(*kmsg.SASLHandshakeRequest).Mechanism != mskiam.Name {
			res.ErrorCode = int16(kafkago.UnsupportedSASLMechanism)
		}
		return res, nil, true
	})
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		res := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		var members map[string]string
		err := json.Unmarshal(r.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes, &members)
		if user, _, _ := strings.Cut(members["x-amz-credential"], "/"); err != nil || members["host"] != "127.0.0.1" || user != "KNOWN" {
			res.ErrorCode = int16(kafkago.SASLAuthenticationFailed)
		}
		return res, nil, true
	})
	for key, want := range map[string]string{"STRANGER": "login is refused", "KNOWN": "<nil>"} {
		m := mskiam.New(mskiam.Options{Region: "us-east-1", Load: func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: key, SecretAccessKey: "s"}, nil
		}})
		s := must.Get(kafka.Open(kafka.Options{Connection: kafka.Connection{Brokers: c.ListenAddrs(), SASL: &kafka.SASL{Custom: m}}}))(t)
		if err := s.Ready(t.Context()); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", key, err)
		}
		must.OK(t, s.Close())
	}
}
