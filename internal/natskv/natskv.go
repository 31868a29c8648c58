package natskv

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Stream returns the name of the stream of a bucket, and Subjects those of its keys.
func Stream(bucket string) string   { return "KV_" + bucket }
func Subjects(bucket string) string { return "$KV." + bucket + ".>" }

// Bucket says what to make. It keeps the last value of each key, in files.
type Bucket struct {
	Name        string
	Description string
	// Replicas is how many copies there are. 0 means three, or one where there are fewer servers.
	Replicas int
}

// Create makes a bucket. It needs $JS.API.STREAM.CREATE.KV_<bucket>. One that is there already is
// jetstream.ErrStreamNameAlreadyInUse, where it differs.
func Create(ctx context.Context, js jetstream.JetStream, b Bucket) (stream jetstream.Stream, err error) {
	replicas := []int{b.Replicas}
	if b.Replicas == 0 {
		replicas = []int{3, 1}
	}
	for _, n := range replicas {
		stream, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: Stream(b.Name), Description: b.Description, Subjects: []string{Subjects(b.Name)},
			Storage: jetstream.FileStorage, Replicas: n, Duplicates: 2 * time.Minute,
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, AllowDirect: true,
		})
		if !FewerServers(err) && !NoPeers(err) {
			break
		}
	}
	return stream, err
}

const (
	replicasNotSupported jetstream.ErrorCode = 10074
	noSuitablePeers      jetstream.ErrorCode = 10005
)

// FewerServers reports whether an error says that there are fewer servers than replicas.
func FewerServers(err error) bool { return hasCode(err, replicasNotSupported) }

// NoPeers reports whether an error says that a cluster has too few servers that can take a replica:
// too few are there, or have the storage.
func NoPeers(err error) bool { return hasCode(err, noSuitablePeers) }

func hasCode(err error, code jetstream.ErrorCode) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == code
}
