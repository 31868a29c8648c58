package testenv

import (
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha512"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SetPassword gives KafkaUser another password for SCRAM-SHA-512. Connections that are logged in
// stay so.
func (s *KafkaServer) SetPassword(t testing.TB, password string) {
	t.Helper()
	const scramSHA512, iterations = 2, 4096
	salt := make([]byte, 16)
	must(rand.Read(salt))(t)
	request := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	user := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	user.Name, user.Mechanism, user.Iterations, user.Salt = KafkaUser, scramSHA512, iterations, salt
	user.SaltedPassword = must(pbkdf2.Key(sha512.New, password, salt, iterations, sha512.Size))(t)
	request.Upsertions = append(request.Upsertions, user)

	ctx, cancel := context.WithTimeout(t.Context(), answerWithin)
	defer cancel()
	client := must(kgo.NewClient(kgo.SeedBrokers(s.brokers...)))(t)
	defer client.Close()
	for _, result := range must(request.RequestWith(ctx, client))(t).Results {
		if err := kerr.ErrorForCode(result.ErrorCode); err != nil {
			t.Fatal(err)
		}
	}
}

// Certify has a broker with TLS show another certificate from its next start on.
func (s *KafkaServer) Certify(t testing.TB, cert, key string) {
	t.Helper()
	if err := joinKeys(s.keys, key, cert); err != nil {
		t.Fatal(err)
	}
}
